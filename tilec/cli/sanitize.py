"""`tilec sanitize`: check tile kernels on the cpu device for races, bad accesses and broken promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.chosen import bundle_options, case_options
from tilec.cli.findings import FOUND

if TYPE_CHECKING:
    from tilec.cli.cases import Opened
    from tilec.cli.findings import Sources
    from tilec.manifest.types import Manifest
    from tilec.runner.cases import BoundCase
    from tilec.runner.sanitize import CaseFindings, SanitizeOptions

NOTHING_TO_CHECK = 3
TINTS = {"clean": ("clean", "green"), "findings": ("FOUND", "red"), "error": ("ERROR", "red"), "skipped": ("skip", "yellow")}


@click.command(
    short_help="Find races and bad accesses of tile kernels, without a GPU.",
    epilog=examples(
        "tilec sanitize                              # every case of every tile kernel",
        "tilec sanitize softmax --case odd",
        "tilec sanitize -k 'gemm/*' --nan            # also where the first NaN or infinity comes from",
        "tilec sanitize --seed 1 --seed 2            # two random orders of the blocks, beside forward and reverse",
        "tilec sanitize --bundle dist/acme_kernels-0.3.0.tilec --json",
    )
    + "\n\nExit codes: 0 nothing found, 86 something is, 1 a case could not be checked, 2 usage or manifest, 3 there is nothing to check.",
)
@case_options
@click.option("--device", type=click.Choice(["cpu"]), default="cpu", show_default=True, help="Where the kernels are run.")
@click.option("--seed", "seeds", multiple=True, type=click.IntRange(0, 2**63 - 1), help="A random order of the blocks.  [default: 0]")
@click.option("--nan", is_flag=True, help="Report the first NaN or infinity that is made from finite numbers.")
@click.option(
    "--steps", type=click.IntRange(1), default=1_000_000, show_default=True, help="Most passes of loops before one counts as endless."
)
@bundle_options("tileir")
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
    steps: int,
    bundle: str | None,
    targets: tuple[str, ...],
) -> int:
    """Run the cases of KERNELs (default: all) on the cpu device, watch every access, and report what a GPU would hide.

    Each case runs with its blocks in forward, reverse and random order; the results have to be the same.

    Without --bundle, it takes what `tilec build` wrote, if that is up to date and has Tile IR. Else it builds the tile kernels (the
    KERNELs that are named) for tileir alone, which takes no CUDA compiler, into .tilec/run/; the project's outputs stay as they are.
    """
    from tilec.cli.cases import Wish, check_wish, chosen_cases, open_bundle, open_project
    from tilec.runner.sanitize import SanitizeOptions
    from tilec.runner.selection import parse_expression

    del device  # there is one so far; the option says where in scripts that will know more
    wish = Wish(kernels=kernels, select=select, cases=cases, args=(), axes=(), reference="", expression=parse_expression(expression))
    project = open_project(app)
    check_wish(project.manifest, wish)
    opened = open_bundle(app, project, wish, bundle=bundle, targets=targets, cpu=True)
    bound = chosen_cases(opened, project.manifest, wish)
    orders: tuple[str | int, ...] = ("forward", "reverse", *(seeds or (0,)))
    options = SanitizeOptions(orders=orders, not_finite=nan, steps=steps)
    return sanitize(app, opened, bound, options, project.manifest)


def sanitize(app: App, opened: Opened, cases: tuple[BoundCase, ...], options: SanitizeOptions, manifest: Manifest) -> int:
    """Check cases, show what is found, and give the exit code."""
    from pathlib import Path

    from tilec.cli.cases import package_json
    from tilec.cli.findings import Sources
    from tilec.runner.sanitize import Sanitizer, sanitize_cases, to_json

    lines = Sources(Path(manifest.root))
    width = max(len(case.name) for case in cases)
    sanitizer = Sanitizer(opened.bundle, options, advice=opened.advice) if opened.bundle else None
    results = sanitize_cases(
        cases,
        sanitizer,
        absent=opened.absent,
        on_case=lambda case: app.pass_by(f"checking {case.name} ({cases.index(case) + 1} of {len(cases)})"),
        on_result=lambda result: _show(app, result, width, lines),
    )
    code = _ending(results)
    if app.json:
        head = {**package_json(opened, manifest), "orders": list(options.orders)}
        app.document("sanitize", {**head, **to_json(results)})
    else:
        app.say(_summary(results))
    return code


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
    app.say(f"{result.case.name:<{width}}  {click.style(word, fg=tint, bold=True)}{' ' * (6 - len(word))}  {what}".rstrip())
    for finding in result.findings:
        app.say("\n" + render_finding(finding, result, lines.line))
    if result.findings:
        app.say("")
    for note in result.notes:
        app.say(f"  note: {note}")
    if result.error is not None:
        app.say("\n".join(f"  {row}" for row in located_text(result.error, app.show).splitlines()))


def _summary(results: Sequence[CaseFindings]) -> str:
    from tilec.cli.run_results import skipped_lines
    from tilec.cli.tables import plural
    from tilec.runner.sanitize import CHECKED, NOT_CHECKED

    counts = {status: sum(result.status == status for result in results) for status in ("clean", "findings", "error", "skipped")}
    names = {"clean": "clean", "findings": "with findings", "error": "could not be checked", "skipped": "without Tile IR, which need a GPU"}
    parts = [f"{count} {names[status]}" for status, count in counts.items() if count]
    ends_with_space = results[-1].findings and not results[-1].notes and results[-1].error is None
    rows = [] if ends_with_space else [""]
    rows.append(f"{plural(len(results), 'case')} on the cpu device: {', '.join(parts)}")
    rows += skipped_lines((result.case.kernel, result.skipped) for result in results if result.skipped)
    if counts["clean"] or counts["findings"]:
        rows += ["checked:", *(f"  {text}" for text in CHECKED), "not checked:", *(f"  {text}" for text in NOT_CHECKED)]
    return "\n".join(rows)
