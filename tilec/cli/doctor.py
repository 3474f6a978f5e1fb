"""`tilec doctor`: what this machine has and lacks, and what to do about it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.style import style
from tilec_runtime.bundle.choose import JIT_VARIABLE
from tilec_runtime.model.driver import required_driver

if TYPE_CHECKING:
    from tilec.frontends.base import ToolSearch
    from tilec.inspection.machine import DriverReport, Machine, Match

MISSING = 3


@click.command(
    short_help="Show the tools, driver and GPU that tilec finds.",
    epilog=examples(
        "tilec doctor",
        "tilec doctor --verbose     # every path that was looked at",
        "tilec doctor --json | jq '.tools[] | select(.found | not)'",
    )
    + "\n\nExit codes: 0 kernels can be built here, 3 a compiler is missing or does not fit. A missing driver or GPU is shown and is no "
    "failure: building needs none, and tile kernels run without.",
)
@click.option(
    "--prefer",
    type=click.Choice(["wheels", "system"]),
    help="Where to look for tools first (default: what the project says).",
)
@json_option
@click.pass_obj
def command(app: App, prefer: str | None) -> int:
    """Show what tilec finds on this machine: Python, compilers, driver, GPU, cache. Works where
    nothing is installed.
    """
    from tilec.inspection import machine

    search = _search(app)
    found = machine.examine(
        dataclasses.replace(search, prefer=prefer or search.prefer), app.settings.cache_dir
    )
    if app.json:
        outside = {
            use: {"tool": tool, "path": path or None, "fix": fix}
            for use, (tool, path, fix) in outside_tools(app).items()
        }
        app.document("doctor", machine.to_json(found) | {"outside": outside})
    else:
        _print(app, found)
    return 0 if found.can_build else MISSING


def _search(app: App) -> ToolSearch:
    """Where the project at hand looks for tools, and which versions it takes; without a sound
    project, the usual places and any version.
    """
    from tilec.compile.project import open_project
    from tilec_runtime.errors import UsageError

    try:
        return open_project(app.manifest_path(), app.settings.search).search
    except UsageError:
        if app.manifest or app.directory:
            raise
        return app.settings.search


def _print(app: App, found: Machine) -> None:
    app.say(f"tilec {found.tilec}, Python {found.python} ({found.executable})")
    app.say(found.system)
    app.say()
    _tools(app, found)
    app.say()
    _driver(app, found.driver)
    if found.match is not None:
        for line in (*_match_lines(found.match), *_policy_lines(found.match)):
            app.say(_wrapped("code     ", line))
    cache = found.cache
    state = _bad(cache.problem) if cache.problem else "writable"
    app.say(_wrapped("cache    ", f"{cache.path} ({state})" if cache.path else "off"))
    app.say()
    for language, lacks in found.languages.items():
        verdict = (
            f"{_bad('cannot be built')}: {', '.join(lacks)} missing or unfit"
            if lacks
            else _good("can be built")
        )
        app.say(_wrapped(f"{language:<8} ", verdict))
    cpu = "tile kernels on the cpu device (target tileir)"
    gpus = (
        f"{_good('all kernels on a GPU')}, {cpu}"
        if found.driver.gpus
        else f"{_good(cpu)}; the rest needs a GPU, and none can be used here"
    )
    for language, problem in found.extras.items():
        app.say(
            _wrapped(
                f"{language:<8} ",
                f"{_bad('cannot be built')}: {problem}" if problem else _good("can be built"),
            )
        )
    app.say(_wrapped("run      ", gpus))
    app.say(
        _wrapped(
            "launches ",
            f"in Python: {found.core_problem}"
            if found.core_problem
            else "by the launch core, in C",
        )
    )
    outside = outside_tools(app)
    for use, (tool, path, _) in outside.items():
        purpose = (
            " for --device cuda" if use == "sanitize" else ""
        )  # on the cpu device it needs none
        app.say(
            _wrapped(
                f"{use:<8} ",
                f"with {path}{purpose}" if path else f"needs {tool}{purpose}, which is not here",
            )
        )
    _fixes(app, found, {use: fix for use, (_, path, fix) in outside.items() if not path})


def _fixes(app: App, found: Machine, outside: dict[str, str]) -> None:
    """What to do about what is missing, each a command where one does it; what nothing can be built
    without at the end.
    """
    fixes = {
        language: f"pip install 'tilec[{language}]'"
        for language, problem in found.extras.items()
        if problem
    }
    fixes |= outside
    if found.driver.problem:
        fixes["driver"] = found.driver.fix
    if found.cache.problem:
        fixes["cache"] = (
            "export TILEC_CACHE_DIR=DIRECTORY (one that is yours, where you alone may write; or off)"
        )
    if found.core_problem:
        fixes["launches"] = (
            "install a C compiler and tilec again, and unset TILEC_NATIVE: launches then cost a fraction"
        )
    if not found.can_build:
        fixes["build"] = (
            "pip install 'tilec[build]' (all compilers as wheels, no CUDA installation needed)"
        )
    if fixes:
        app.say("\nfix")
    for what, fix in fixes.items():
        app.say(_wrapped(f"  {what:<8}  ", fix, indent=12))


def outside_tools(app: App) -> dict[str, tuple[str, str, str]]:
    """The tools that watch launches from outside: by what they serve, name, path (empty for none),
    and how to get it.
    """
    from tilec.case.tools import find_outside_tool
    from tilec_runtime.errors import ToolchainError

    found = {}
    for use, name in (("profile", "ncu"), ("debug", "cuda-gdb"), ("sanitize", "compute-sanitizer")):
        try:
            found[use] = (name, find_outside_tool(name, app.settings.search), "")
        except ToolchainError as error:
            found[use] = (name, "", error.fix)
    return found


def _match_lines(match: Match) -> Iterator[str]:
    """What this driver loads of this toolkit's code."""
    release = ".".join(map(str, match.toolkit))
    if not match.machine_code:
        least = required_driver((match.toolkit[0], 0))
        yield f"{_bad('too old for')} toolkit {release}: nothing that it makes loads here, which takes {least}"
        return
    portable = "PTX and Tile IR" if match.tile_ir else "PTX"
    older = (
        "" if match.portable else " written for this driver or older ones (min-driver in [targets])"
    )
    yield f"toolkit {release}: machine code loads, and {portable}{older}"
    if not match.tile_ir:
        yield f"Tile IR does not, which takes {required_driver((13, 1))}: build tile kernels for sm_NN"


def _policy_lines(match: Match) -> Iterator[str]:
    """What decides whether this driver, or nvJitLink, compiles anything."""
    said = os.environ.get(JIT_VARIABLE)
    if match.machine_code:
        policy = f": {JIT_VARIABLE} is {said} here" if said else ", which it does not by default"
        yield f"what is no machine code is compiled at load where jit-fallback allows it{policy}"


def _tools(app: App, found: Machine) -> None:
    from tilec.cli.tables import Cell, columns, table, terminal_width

    rows: list[list[Cell]] = [
        [one.name, one.version or ("not found", "red"), "package", one.use]
        for one in found.packages
    ]
    for report in found.tools:
        tool = report.tool
        state: Cell = (tool.version or "?") if tool else ("not found", "red")
        if tool and report.problem:
            state = (tool.version or "?", "yellow")
        rows.append(
            [
                report.name,
                state,
                tool.origin if tool else "-",
                report.problem if tool and report.problem else report.use,
            ]
        )
    for line in table(columns("tool", "version", "from", "~for"), rows, width=terminal_width()):
        app.say(line)
    places: dict[tuple[str, ...], list[str]] = {}
    for report in found.tools:
        if app.verbose or report.tool is None:
            places.setdefault(report.looked, []).append(report.name)
    for looked, names in places.items():
        shown = looked if app.verbose else looked[:3]
        app.say(
            _wrapped(
                f"  {', '.join(names)}: ",
                f"looked for {', '.join(shown)}{' …' if len(shown) < len(looked) else ''}",
            )
        )


def _driver(app: App, driver: DriverReport) -> None:
    if driver.problem or driver.cuda is None or driver.ptx_isa is None:
        app.say(_wrapped("driver   ", f"none: {driver.problem}"))
        return
    release, isa = (".".join(map(str, version)) for version in (driver.cuda, driver.ptx_isa))
    app.say(f"driver   of CUDA {release}, reads PTX ISA up to {isa}")
    for gpu in driver.gpus:
        cc = f"{gpu.cc[0]}.{gpu.cc[1]}"
        note = (
            f"target sm_{gpu.cc[0]}{gpu.cc[1]}"
            if gpu.known
            else "not in tilec's table: build PTX (compute_NN) for it"
        )
        app.say(
            _wrapped(
                f"GPU {gpu.ordinal:<4} ",
                f"{gpu.name}, compute capability {cc}, {gpu.multiprocessors} multiprocessors ({note})",
            )
        )


def _wrapped(head: str, text: str, *, indent: int = 9) -> str:
    """A long text that is easier to read on a terminal, as it is elsewhere."""
    from tilec.cli.tables import fitted, terminal_width

    return fitted(f"{head}{text}", terminal_width(), indent=indent)


def _good(text: str) -> str:
    return style(text, fg="green")


def _bad(text: str) -> str:
    return style(text, fg="red", bold=True)
