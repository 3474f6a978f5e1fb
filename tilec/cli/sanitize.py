"""`tilec sanitize`: check tile kernels on the cpu device, or any kernels on a GPU with NVIDIA's
compute-sanitizer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.chosen import bundle_options, case_options
from tilec.cli.complete import checkers, completes, completes_list, profiles
from tilec.cli.findings import FOUND
from tilec.cli.style import style

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.sanitize import CaseFindings, SanitizeOptions
    from tilec.cli.cases import Opened, Unchecked, Wish
    from tilec.cli.findings import Sources
    from tilec.cli.outside import Watched
    from tilec.compile.project import Project
    from tilec.manifest.types import Manifest

NOTHING_TO_CHECK = 3
STEPS = 1_000_000
PADDING = (
    1 << 16
)  # bytes behind each allocation: drivers put small ones side by side, where an access that misses one lands in the next
TINTS = {
    "clean": ("clean", "green"),
    "findings": ("FOUND", "red"),
    "error": ("ERROR", "red"),
    "skipped": ("skip", "yellow"),
}


RUN_NAMES = {"clean": "clean", "findings": "with findings", "error": "could not check"}
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
ALL = "all"


def _device(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value != "cpu" and not re.fullmatch(r"cuda(:\d{1,4})?", value):
        raise click.BadParameter(
            f"{value!r} is no device that can check: take cpu, cuda, or cuda:N for the GPU number N",
            ctx,
            param,
        )
    return value


def _tools(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """`memcheck,racecheck` and repeated options to one tuple, in the order of `TOOLS`; empty for
    none.
    """
    words = [word.strip() for value in values for word in value.split(",")]
    for word in words:
        if word not in (*TOOLS, ALL):
            from tilec_runtime.model.suggest import did_you_mean

            raise click.BadParameter(
                f"no such tool: {word!r}{did_you_mean(word, TOOLS)}; there are {', '.join(TOOLS)} and {ALL}",
                ctx,
                param,
            )
    return tuple(tool for tool in TOOLS if tool in words or ALL in words)


@click.command(
    short_help="Find races and bad accesses: of tile kernels without a GPU, of all on one.",
    epilog=examples(
        "tilec sanitize                              # every case of every tile kernel, without a GPU",
        "tilec sanitize softmax --case odd",
        "tilec sanitize -k 'gemm/*' --nan            # also where the first NaN or infinity comes from",
        "tilec sanitize --seed 1 --seed 2            # two random orders of the blocks, beside forward and reverse",
        "tilec sanitize layer                        # a chain: its kernels one behind the other, over the same arrays",
        "tilec sanitize --bundle dist/acme_kernels-0.3.0.tilec --json",
        "tilec sanitize --device cuda                # on a GPU: compute-sanitizer's four tools on every case",
        "tilec sanitize scan --device cuda:1 --tool memcheck,racecheck",
    )
    + "\n\nExit codes: 0 nothing found, 86 something is, 1 a case could not be checked, or not in full, 2 usage or manifest, "
    "3 there is nothing to check, or compute-sanitizer or a GPU is missing. Kernels and chains that are not checked (no case, no Tile IR) "
    "are named at the end, and change no exit code.",
)
@case_options
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    callback=_device,
    metavar="NAME",
    shell_complete=completes(checkers),
    help="Where the kernels are run: cpu, cuda or cuda:N.",
)
@click.option(
    "--seed",
    "seeds",
    multiple=True,
    type=click.IntRange(0, 2**63 - 1),
    help="cpu: a random order of the blocks.  [default: 0]",
)
@click.option(
    "--nan",
    is_flag=True,
    help="cpu: report the first NaN or infinity that is made from finite numbers.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    help=f"cpu: most passes of loops before one counts as endless.  [default: {STEPS}]",
)
@click.option(
    "--tool",
    "tools",
    multiple=True,
    callback=_tools,
    metavar="LIST",
    shell_complete=completes_list(lambda _: (*TOOLS, ALL)),
    help=f"cuda: {', '.join(TOOLS)}, or all.  [default: all]",
)
@click.option(
    "--profile",
    metavar="NAME",
    shell_complete=completes(profiles),
    help="cuda: build with this profile.  [default: release]",
)
@bundle_options("tileir; on a GPU its own")
@json_option
@click.pass_obj
def command(
    app: App,
    kernels: tuple[str, ...],
    expression: str,
    select: tuple[str, ...],
    cases: tuple[str, ...],
    device: str,
    seeds: tuple[int, ...],
    nan: bool,
    steps: int | None,
    tools: tuple[str, ...],
    profile: str | None,
    bundle: str | None,
    targets: tuple[str, ...],
) -> int:
    """Run the cases of KERNELs and chains (default: all), watch every access, and report what a
    plain run would hide.

    On the cpu device tile kernels run with their blocks in forward, reverse and random order; the
    results have to be the same. Where a kernel reads elements that no padding determines, it runs
    with several values there, which may not change a result either. Without --bundle, it takes what
    `tilec build` wrote, if that is up to date and has Tile IR. Else it builds the tile kernels (the
    KERNELs that are named) for tileir alone, which takes no CUDA compiler, into .tilec/run/; the
    project's outputs stay as they are.

    On a GPU (--device cuda) kernels of all languages run under NVIDIA's compute-sanitizer, each
    case in a process of its own for each of its tools. Without --bundle they are built aside for
    the GPU at hand, with source lines in their code.
    """
    from tilec.case.sanitize import SanitizeOptions
    from tilec.case.selection import parse_expression
    from tilec.cli.cases import Wish, check_wish, chosen_cases, left_out, open_bundle, open_project

    _check_options(
        device,
        {"--seed": seeds, "--nan": nan, "--steps": steps},
        {"--tool": tools, "--profile": profile},
    )
    wish = Wish(
        kernels=kernels,
        select=select,
        cases=cases,
        args=(),
        axes=(),
        reference="",
        expression=parse_expression(expression),
        chains=device == "cpu",
    )
    project = open_project(app)
    check_wish(project.manifest, wish)
    if device != "cpu":
        return _sanitize_on_gpu(
            app, project, wish, device, tools or TOOLS, profile or "release", bundle, targets
        )
    opened = open_bundle(app, project, wish, bundle=bundle, targets=targets, cpu=True)
    bound = chosen_cases(opened, project.manifest, wish)
    orders: tuple[str | int, ...] = ("forward", "reverse", *(seeds or (0,)))
    options = SanitizeOptions(orders=orders, not_finite=nan, steps=steps or STEPS)
    left = left_out(project.manifest, opened, wish, bound)
    return sanitize(app, opened, bound, options, project.manifest, left)


def _check_options(device: str, of_cpu: Mapping[str, object], of_gpu: Mapping[str, object]) -> None:
    """Refuse options that the device has no use for.

    Raises:
        UsageError: there is one.
    """
    from tilec_runtime.errors import UsageError

    wrong, other = (of_gpu, "cuda") if device == "cpu" else (of_cpu, "cpu")
    for option, value in wrong.items():
        if value:
            raise UsageError(
                f"{option} means nothing for --device {device}",
                fix=f"pass --device {other}, or leave {option} out",
            )


def sanitize(
    app: App,
    opened: Opened,
    cases: tuple[BoundCase, ...],
    options: SanitizeOptions,
    manifest: Manifest,
    left: Sequence[Unchecked] = (),
) -> int:
    """Check cases, show what is found and what is `left` out, and give the exit code."""
    from pathlib import Path

    from tilec.case.sanitize import Sanitizer, sanitize_cases, to_json
    from tilec.cli.cases import absence, package_json, unchecked_json
    from tilec.cli.findings import Sources

    lines = Sources(Path(manifest.root))
    width = max(len(case.name) for case in cases)
    sanitizer = Sanitizer(opened.bundle, options, advice=opened.advice) if opened.bundle else None
    results = sanitize_cases(
        cases,
        sanitizer,
        absent=lambda case: absence(opened, case),
        on_case=lambda case: app.pass_by(
            f"checking {case.name} ({cases.index(case) + 1} of {len(cases)})"
        ),
        on_result=lambda result: _show(app, result, width, lines),
    )
    code = _ending(results)
    if app.json:
        head = {
            **package_json(opened, manifest),
            "device": {"name": "cpu"},
            "orders": list(options.orders),
        }
        unchecked = unchecked_json(left, ((result.case.name, result.skipped) for result in results))
        app.document("sanitize", {**head, **to_json(results), "unchecked": unchecked})
    else:
        app.tell(_summary(results, left))
    return code


def _sanitize_on_gpu(
    app: App,
    project: Project,
    wish: Wish,
    device: str,
    tools: Sequence[str],
    profile: str,
    bundle: str | None,
    targets: tuple[str, ...],
) -> int:
    """Run each case under compute-sanitizer's tools, which say themselves what they find, and
    return the exit code.
    """
    from tilec.case.tools import find_outside_tool
    from tilec.cli.cases import (
        How,
        absence,
        chosen_cases,
        left_out,
        open_bundle,
        package_json,
        unchecked_json,
        unchecked_lines,
    )
    from tilec.cli.outside import Watched, device_json, gpu_of, own_targets

    program = find_outside_tool("compute-sanitizer", app.settings.search)
    gpu = gpu_of(device, "checking with compute-sanitizer")
    how = How(profile=profile, lineinfo=True)
    targets = targets or own_targets(project.manifest, gpu)
    opened = open_bundle(app, project, wish, bundle=bundle, targets=targets, cpu=False, how=how)
    cases = chosen_cases(opened, project.manifest, wish)
    left = left_out(project.manifest, opened, wish, cases)
    skipped = [
        (case.kernel, case.name, reason) for case in cases if (reason := absence(opened, case))
    ]
    runs = []
    for case in cases:
        if opened.bundle is not None and opened.path is not None and not absence(opened, case):
            watched = Watched(
                case=case,
                bundle=opened.bundle,
                path=opened.path,
                manifest=project.manifest,
                device=gpu,
            )
            runs += [_run_tool(app, program, tool, watched) for tool in tools]
    counts = {
        status: sum(run["status"] == status for run in runs)
        for status in ("clean", "findings", "error")
    }
    if app.json:
        unchecked = unchecked_json(left, ((name, reason) for _, name, reason in skipped))
        body = {
            **package_json(opened, project.manifest),
            "device": device_json(gpu),
            "runs": runs,
            "counts": counts,
        }
        app.document("sanitize", {**body, "unchecked": unchecked})
    else:
        from tilec.cli.run_results import skipped_lines
        from tilec.cli.tables import plural

        parts = [
            f"{count} {name}"
            for status, count in counts.items()
            if count and (name := RUN_NAMES[status])
        ]
        rows = [
            f"{plural(len(runs), 'run')} of compute-sanitizer on {gpu.name}: {', '.join(parts) or 'nothing is built for it'}"
        ]
        rows += skipped_lines((kernel, reason) for kernel, _, reason in skipped)
        app.tell("\n".join([*rows, *unchecked_lines(left)]))
    return (
        FOUND if counts["findings"] else 1 if counts["error"] else 0 if runs else NOTHING_TO_CHECK
    )


def _run_tool(app: App, program: str, tool: str, watched: Watched) -> dict[str, Any]:
    """Run one tool on one case and return how it ended, as JSON values."""
    from tilec.cli.alone import SMALL, UNSET
    from tilec.cli.outside import report_path, run_outside

    report = report_path(app, "sanitize", watched.case.name, f".{tool}.report")
    # After an error the kernel ends, not the context: the exit code then is the tool's own.
    options = [
        "--error-exitcode",
        str(FOUND),
        "--destroy-on-device-error",
        "kernel",
        "--show-backtrace",
        "device",
    ]
    # Calls of the driver that fail are reported by those that make them, with a cause and a fix.
    options += (
        ["--report-api-errors", "no", "--padding", str(PADDING)] if tool == "memcheck" else []
    )
    # Reads of what nothing wrote show only where tilec wrote nothing either.
    launch = watched.command(app, SMALL, *([UNSET] if tool == "initcheck" else []))
    app.say(f"{style(watched.case.name, bold=True)}  {tool}")
    report.unlink(missing_ok=True)
    code = run_outside(app, [program, "--tool", tool, *options, "--save", str(report), *launch])
    status = {0: "clean", FOUND: "findings"}.get(code, "error")
    app.tell(f"report: {app.show(report)}\n")
    return {
        "case": watched.case.name,
        "tool": tool,
        "status": status,
        "exit_code": code,
        "report": str(report),
    }


def _ending(results: Sequence[CaseFindings]) -> int:
    statuses = {result.status for result in results}
    if "findings" in statuses:
        return FOUND
    if "error" in statuses:
        return 1
    return 0 if "clean" in statuses else NOTHING_TO_CHECK


def _show(app: App, result: CaseFindings, width: int, lines: Sources) -> None:
    from tilec.cli.failures import located_text
    from tilec.cli.findings import render_finding
    from tilec.cli.tables import plural

    word, tint = TINTS[result.status]
    what = plural(result.blocks, "block") if result.blocks else ""
    if result.findings:
        what = f"{plural(len(result.findings), 'finding')}, {what}".removesuffix(", ")
    app.say(
        f"{result.case.name:<{width}}  {style(word, fg=tint, bold=True)}{' ' * (6 - len(word))}  {what}".rstrip()
    )
    for finding in result.findings:
        app.tell("\n" + render_finding(finding, result, lines.line))
    if result.findings:
        app.say("")
    for note in result.notes:
        app.tell(f"  note: {note}")
    if result.error is not None:
        app.tell("\n".join(f"  {row}" for row in located_text(result.error, app.show).splitlines()))


def _summary(results: Sequence[CaseFindings], left: Sequence[Unchecked]) -> str:
    from tilec.case.sanitize import CHECKED, NOT_CHECKED
    from tilec.cli.cases import unchecked_lines
    from tilec.cli.run_results import skipped_lines
    from tilec.cli.tables import plural

    counts = {
        status: sum(result.status == status for result in results)
        for status in ("clean", "findings", "error", "skipped")
    }
    names = {
        "clean": "clean",
        "findings": "with findings",
        "error": "could not be checked",
        "skipped": "without Tile IR, which need a GPU: `tilec sanitize --device cuda` checks kernels there",
    }
    parts = [f"{count} {names[status]}" for status, count in counts.items() if count]
    ends_with_space = results[-1].findings and not results[-1].notes and results[-1].error is None
    rows = [] if ends_with_space else [""]
    rows.append(f"{plural(len(results), 'case')} on the cpu device: {', '.join(parts)}")
    rows += skipped_lines(
        (result.case.kernel, result.skipped) for result in results if result.skipped
    )
    rows += unchecked_lines(left)
    if counts["clean"] or counts["findings"]:
        rows += [
            "checked:",
            *(f"  {text}" for text in CHECKED),
            "not checked:",
            *(f"  {text}" for text in NOT_CHECKED),
        ]
    return "\n".join(rows)
