"""`tilec doctor`: show tools and devices of this machine, and the next steps."""

from __future__ import annotations

import dataclasses
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tilec import __version__
from tilec.cli.app import App, examples, json_option
from tilec.cli.style import style
from tilec.cli.tables import Cell
from tilec.manifest.types import RemoteTable
from tilec_runtime.errors import ToolchainError, UsageError

if TYPE_CHECKING:
    from tilec.compile.project import Project
    from tilec.frontends.base import ToolSearch
    from tilec.frontends.tools.search import ToolReport
    from tilec.inspection.machine import Check

OUTSIDE = {"profile": "ncu", "debug": "cuda-gdb", "sanitize": "compute-sanitizer"}
MISSING = 3


@click.command(
    epilog=examples(
        "tilec doctor",
        "tilec doctor --verbose     # every path that was searched",
        "tilec doctor --json | jq '.tools[] | select(.found | not)'",
    )
    + "\n\nExit codes: 0 kernels can be built here, 3 a compiler is missing or has an unsupported version. A "
    "missing driver or GPU does not change the exit code: builds need neither.",
)
@json_option
@click.pass_obj
def command(app: App) -> int:
    """Show what tilec finds on this machine: Python, compilers, driver, GPUs and cache. Nothing
    needs to be installed.
    """
    from tilec.inspection import machine

    project = _project(app)
    search = project.search if project else app.settings.search
    tools = machine.examine_tools(search)
    checks = machine.examine(tools, app.settings.cache_dir)
    checks += [*_remote_cache(app, project), *_outside_tools(search)]
    can_build = machine.can_build(checks)
    if app.json:
        app.document("doctor", _json(tools, checks, ok=can_build))
    else:
        _print(app, tools, checks)
    return 0 if can_build else MISSING


def _project(app: App) -> Project | None:
    """Return the current project, or None without one."""
    from tilec.compile.project import open_project

    try:
        return open_project(app.manifest_path(), app.settings.search)
    except UsageError:
        if app.directory:
            raise
        return None


def _remote_cache(app: App, project: Project | None) -> Iterator[Check]:
    """Yield a row for the remote cache that a build would use, after a test request."""
    from tilec.compile.remote.access import resolve, try_out
    from tilec.compile.remote.store import RemoteError
    from tilec.inspection.machine import Check

    named = project.manifest.cache if project else RemoteTable()
    try:
        access = resolve(app.settings.remote(), named.remote, named.remote_mode)
    except UsageError as exc:
        yield Check(name="remote", text=exc.what, ok=False, fix=exc.fix)
        return
    if access is None:
        return
    mode = "read and written" if access.write else "read"
    gives = "gives every image" if access.own else "gives images that tilec.lock pins"
    try:
        try_out(access)
    except RemoteError as exc:
        fix = "builds work without it; --remote-mode off does not try it"
        yield Check(name="remote", text=f"{access.url.shown}: {exc}", ok=False, fix=fix)
    else:
        yield Check(name="remote", text=f"{access.url.shown} ({mode}, {gives})")


def _outside_tools(search: ToolSearch) -> Iterator[Check]:
    """Yield a row for each NVIDIA tool that observes launches."""
    from tilec.case.tools import find_outside_tool
    from tilec.inspection.machine import Check

    for name, tool in OUTSIDE.items():
        where = " for --device cuda" if name == "sanitize" else ""
        try:
            path = find_outside_tool(tool, search)
        except ToolchainError as exc:
            text = f"needs {tool}{where}, which is missing"
            yield Check(name=name, text=text, ok=False, fix=exc.fix)
        else:
            yield Check(name=name, text=f"with {path}{where}")


def _print(app: App, tools: Sequence[ToolReport], checks: Sequence[Check]) -> None:
    app.say(f"tilec {__version__}, Python {platform.python_version()} ({sys.executable})")
    app.say(f"{_system()}\n")
    app.table(("tool", "version", "from", "~for"), [_row(report) for report in tools])
    for report in tools:
        if report.looked and (app.verbose or report.tool is None):
            shown = report.looked if app.verbose else report.looked[:3]
            more = " …" if len(shown) < len(report.looked) else ""
            app.say(f"  {report.name}: looked for {', '.join(shown)}{more}")
    app.say()
    for check in checks:
        text = check.text if check.ok else style(check.text, fg="red")
        app.say(f"{check.name:<9} {text}", indent=10)
    fixes = {check.name: check.fix for check in checks if check.fix}
    if fixes:
        app.say("\nfix")
    for name, fix in fixes.items():
        app.say(f"  {name:<9} {fix}", indent=12)


def _system() -> str:
    return f"{platform.system()} {platform.release()} {platform.machine()}"


def _row(report: ToolReport) -> list[Cell]:
    tool = report.tool
    if tool is None:
        return [report.name, ("not found", "red"), "-", report.use]
    version = tool.version or "?"
    if report.problem:
        return [report.name, (version, "yellow"), tool.origin, report.problem]
    return [report.name, version, tool.origin, report.use]


def _json(tools: Sequence[ToolReport], checks: Sequence[Check], *, ok: bool) -> dict[str, Any]:
    rows = [
        {
            "name": one.name,
            "use": one.use,
            "found": one.tool is not None,
            "path": one.tool.path if one.tool else None,
            "version": one.tool.version if one.tool else None,
            "origin": one.tool.origin if one.tool else None,
            "problem": one.problem,
            "looked": list(one.looked),
        }
        for one in tools
    ]
    return {
        "ok": ok,
        "tilec": __version__,
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "system": _system(),
        "tools": rows,
        "checks": [dataclasses.asdict(check) for check in checks],
    }
