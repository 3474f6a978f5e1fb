"""`tilec sanitize`: find data races and out-of-bounds accesses of kernels."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, examples, json_option, refuse, words_among
from tilec.cli.cases import (
    Opened,
    Wish,
    case_options,
    check_wish,
    chosen_cases,
    open_bundle,
    open_project,
    package_json,
)
from tilec.cli.complete import completes, profiles_of
from tilec.cli.devices import CPU, NEEDS_GPU, device_json, device_option
from tilec.cli.findings import render_finding
from tilec.cli.style import style
from tilec.cli.tables import plural

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.sanitize import CaseFindings
    from tilec.cli.outside_tool import Watched
    from tilec.compile.project import Project
    from tilec.manifest.types import Chain, Kernel, Manifest

FOUND = 86  # exit code if there are findings
STEPS = 1_000_000
# Bytes after each allocation. Drivers place small allocations side by side, where an access out of
# bounds of one would hit the next.
PADDING = 1 << 16
# Word and colour of each status, and its text in the summary.
STATUSES = {
    "clean": ("clean", "green", "clean"),
    "findings": ("FOUND", "red", "with findings"),
    "error": ("ERROR", "red", "could not be checked"),
    "skipped": (
        "skip",
        "yellow",
        "without Tile IR: `tilec sanitize --device cuda` checks them on a GPU",
    ),
}
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
ALL = "all"


@click.command(
    epilog=examples(
        "tilec sanitize                          # every case of every tile kernel",
        "tilec sanitize softmax --case odd",
        "tilec sanitize -k 'gemm/*' --nan        # also where a NaN begins",
        "tilec sanitize --seed 1 --seed 2        # two random orders of the blocks",
        "tilec sanitize layer                    # a chain of kernels",
        "tilec sanitize --bundle dist/acme_kernels-0.3.0.tilec --json",
        "tilec sanitize --device cuda            # compute-sanitizer on every case",
        "tilec sanitize scan --device cuda:1 --tool memcheck,racecheck",
    )
    + "\n\nExit codes: 0 no findings, 86 findings, 1 a case could not be checked completely, 2 error in the "
    "command line or manifest, 3 nothing to check, or compute-sanitizer or a GPU is missing. Kernels and "
    "chains that are not checked (no case, no Tile IR) are listed at the end, and do not change the exit "
    "code.",
)
@case_options("tileir, or this GPU's own")
@device_option("cpu", "Device to run on: cpu, cuda or cuda:N.", (CPU, "cuda"))
@click.option(
    "--seed",
    "seeds",
    multiple=True,
    type=click.IntRange(0, 2**63 - 1),
    metavar="N",
    help="cpu: seed of a random order of the blocks; may be repeated.  [default: 0]",
)
@click.option(
    "--nan",
    is_flag=True,
    help="cpu: report the first operation that makes a NaN or infinity of finite numbers.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    metavar="N",
    help=f"cpu: number of loop passes after which a loop counts as endless.  [default: {STEPS}]",
)
@click.option(
    "--tool",
    "tools",
    multiple=True,
    callback=words_among((*TOOLS, ALL)),
    metavar="LIST",
    shell_complete=completes(lambda _: (*TOOLS, ALL)),
    help=f"cuda: {', '.join(TOOLS)}, or all.  [default: all]",
)
@click.option(
    "--profile",
    metavar="NAME",
    shell_complete=completes(profiles_of),
    help="cuda: build profile.  [default: release]",
)
@json_option
@click.pass_obj
def command(
    app: App,
    wish: Wish,
    device: str,
    seeds: tuple[int, ...],
    nan: bool,
    steps: int | None,
    tools: tuple[str, ...],
    profile: str | None,
) -> int:
    """Run the cases of KERNELs and chains (default: all), and check every memory access.

    On the cpu device, tile kernels run with their blocks in forward, reverse and random order,
    and the results must agree. Elements that are read without a defined padding get several
    values, which must not change a result. Without --bundle, the outputs of `tilec build` are
    used if they are up to date and have Tile IR. Otherwise the tile kernels are built for tileir
    into .tilec/run/, without a CUDA compiler; the project's outputs do not change.

    On a GPU (--device cuda), kernels of all languages run under NVIDIA's compute-sanitizer, in
    one process for each case and tool. Without --bundle they are built for this GPU into
    .tilec/run/, with source lines.
    """
    other = "cuda"
    unfit: dict[str, object] = {"--tool": tools, "--profile": profile}
    if device != CPU:
        other, unfit = "cpu", {"--seed": seeds, "--nan": nan, "--steps": steps}
    message = f"has no effect with --device {device}: pass --device {other}, or leave it out"
    refuse(*((value, f"{option} {message}") for option, value in unfit.items()))
    wish = dataclasses.replace(wish, chains=device == CPU)
    project = open_project(app)
    check_wish(project.manifest, wish)
    if device != CPU:
        tools = tuple(tool for tool in TOOLS if tool in tools or ALL in (tools or (ALL,)))
        return _on_gpu(app, project, wish, device, tools, profile or "release")
    return _on_cpu(app, project, wish, seeds or (0,), nan=nan, steps=steps or STEPS)


def _on_cpu(
    app: App, project: Project, wish: Wish, seeds: Sequence[int], *, nan: bool, steps: int
) -> int:
    """Check cases on the cpu device, print findings, and return the exit code."""
    from tilec.case.sanitize import CHECKED, NOT_CHECKED, CaseFindings, Sanitizer, to_json

    manifest = project.manifest
    opened = open_bundle(app, project, wish, cpu=True)
    cases = chosen_cases(opened, manifest, wish)
    orders: tuple[str | int, ...] = ("forward", "reverse", *seeds)
    sanitizer = None
    if opened.bundle is not None:
        sanitizer = Sanitizer(
            opened.bundle, orders=orders, not_finite=nan, steps=steps, advice=opened.advice
        )
    width = max(len(case.name) for case in cases)
    results: list[CaseFindings] = []
    for case in cases:
        reason = opened.absence(case)
        if sanitizer is None or reason:
            result = CaseFindings(case=case, skipped=reason)
        else:
            app.status(f"checking {case.name} ({len(results) + 1} of {len(cases)})")
            result = sanitizer.check(case)
        results.append(result)
        _show(app, result, width, Path(manifest.root))
    counts = Counter(result.status for result in results)
    skipped = [(result.case, result.skipped) for result in results if result.skipped]
    body = {"device": {"name": "cpu"}, "orders": list(orders), **to_json(results)}
    lead = "" if results[-1].findings else "\n"
    message = f"{lead}{plural(len(results), 'case')} on the cpu device"
    left = unchecked(manifest, opened, wish, cases)
    _end(app, package_json(opened, manifest) | body, message, counts, skipped, left)
    if counts["clean"] or counts["findings"]:
        for title, texts in (("checked:", CHECKED), ("not checked:", NOT_CHECKED)):
            app.say("\n".join([title, *(f"  {text}" for text in texts)]))
    return _exit_code(counts)


def _end(
    app: App,
    body: dict[str, Any],
    message: str,
    counts: Mapping[str, int],
    skipped: Sequence[tuple[BoundCase, str]],
    left: Mapping[str, str],
) -> None:
    """Print the summary, or the JSON document.

    Args:
        app: run of the command.
        body: the document, without what was not checked.
        message: the beginning of the summary.
        counts: results by status.
        skipped: cases that were not run, with the reasons.
        left: kernels and chains that no case checks, with the reasons.
    """
    from tilec.cli.run_show import skipped_lines

    if app.json:
        rows = (*left.items(), *((case.name, reason) for case, reason in skipped))
        texts = [{"name": name, "reason": reason} for name, reason in rows]
        ok = _exit_code(counts) == 0
        app.document("sanitize", {"ok": ok, **body, "unchecked": texts})
        return
    parts = [f"{counts[name]} {text}" for name, (_, _, text) in STATUSES.items() if counts[name]]
    app.say(f"{message}: {', '.join(parts) or 'nothing is built for this GPU'}")
    kernels = ((case.kernel, reason) for case, reason in skipped)
    for line in (*skipped_lines(kernels), *skipped_lines(left.items(), "not checked:")):
        app.say(line)


def _exit_code(counts: Mapping[str, int]) -> int:
    if counts["findings"]:
        return FOUND
    return 1 if counts["error"] else 0 if counts["clean"] else NEEDS_GPU


def _show(app: App, result: CaseFindings, width: int, root: Path) -> None:
    from tilec.cli.failures import located_text

    word, color, _ = STATUSES[result.status]
    facts = [plural(len(result.findings), "finding")] if result.findings else []
    facts += [plural(result.blocks, "block")] if result.blocks else []
    status = style(f"{word:<6}" if facts else word, fg=color, bold=True)
    app.say(f"{result.case.name:<{width}}  {status}  {', '.join(facts)}".rstrip())
    for finding in result.findings:
        app.say("\n" + render_finding(finding, result, root))
    for note in result.notes:
        app.say(f"  note: {note}")
    if result.error is not None:
        for line in located_text(result.error, app.show).splitlines():
            app.say(f"  {line}")
    if result.findings:
        app.say()


def _on_gpu(
    app: App,
    project: Project,
    wish: Wish,
    device: str,
    tools: Sequence[str],
    profile: str,
) -> int:
    """Run each case under compute-sanitizer, and return the exit code.

    The tool prints its findings.
    """
    from tilec.case.tools import find_outside_tool
    from tilec.cli.outside_tool import Watched, open_on_gpu

    program = find_outside_tool("compute-sanitizer", app.settings.search)
    opened, gpu = open_on_gpu(app, project, wish, device, profile, "compute-sanitizer")
    cases = chosen_cases(opened, project.manifest, wish)
    skipped, runs = [], []
    for case in cases:
        if reason := opened.absence(case):
            skipped.append((case, reason))
            continue
        watched = Watched(case=case, opened=opened, manifest=project.manifest, device=gpu)
        runs += [_run_tool(app, program, tool, watched) for tool in tools]
    counts = Counter(str(run["status"]) for run in runs)
    names = ("clean", "findings", "error")
    body = {"device": device_json(gpu), "runs": runs, "counts": {n: counts[n] for n in names}}
    message = f"{plural(len(runs), 'run')} of compute-sanitizer on {gpu.name}"
    left = unchecked(project.manifest, opened, wish, cases)
    _end(app, package_json(opened, project.manifest) | body, message, counts, skipped, left)
    return _exit_code(counts)


def _run_tool(app: App, program: str, tool: str, watched: Watched) -> dict[str, Any]:
    """Run one tool on one case and return its result as JSON values."""
    from tilec.cli.launch_case import SMALL, UNSET
    from tilec.cli.outside_tool import report_path, run_tool

    report = report_path(app, "sanitize", watched.case.name, f".{tool}.report")
    # After an error end only the kernel, not the context, so that the exit code is the tool's.
    options = ["--error-exitcode", str(FOUND), "--destroy-on-device-error", "kernel"]
    options += ["--show-backtrace", "device"]
    if tool == "memcheck":
        # tilec reports failing driver calls itself, with cause and fix.
        options += ["--report-api-errors", "no", "--padding", str(PADDING)]
    # For initcheck, tilec must not write inputs that the case leaves unwritten.
    launch = watched.command(app, SMALL, *([UNSET] if tool == "initcheck" else []))
    app.say(f"{style(watched.case.name, bold=True)}  {tool}")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    code = run_tool(app, [program, "--tool", tool, *options, "--save", str(report), *launch])
    app.say(f"report: {app.show(report)}\n")
    return {
        "case": watched.case.name,
        "tool": tool,
        "status": {0: "clean", FOUND: "findings"}.get(code, "error"),
        "exit_code": code,
        "report": str(report),
    }


def unchecked(
    manifest: Manifest, opened: Opened, wish: Wish, cases: Sequence[BoundCase]
) -> dict[str, str]:
    """Return the kernels and chains that no chosen case launches, with the reasons.

    If the command line selects cases (`-k`, `--case`), only kernels and chains that it
    names are returned.
    """
    from tilec.manifest.types import Chain

    launched = {case.kernel for case in cases}
    launched.update(step.kernel for case in cases for step in case.steps)
    built = {*opened.kernels, *opened.absent}
    some = bool(wish.cases or wish.expression)
    holders: list[Kernel | Chain] = [*manifest.kernels, *manifest.chains]
    reasons = {}
    for holder in holders:
        named = holder.name in wish.kernels if wish.kernels else not some
        if holder.name in launched or not named:
            continue
        steps = holder.steps if isinstance(holder, Chain) else ()
        if not holder.cases:
            reasons[holder.name] = "no case"
        elif not built.issuperset([step.kernel for step in steps] or [holder.name]):
            reasons[holder.name] = "not in the bundle"
        elif steps and not wish.chains:
            reasons[holder.name] = "compute-sanitizer does not check chains; the cpu device does"
    return reasons
