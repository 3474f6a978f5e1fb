"""What a build reports when it is done: one row per kernel, the outputs, the warnings; as text or
JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilec.cli.app import App
from tilec.cli.failures import diagnostic_json, diagnostic_text
from tilec.cli.style import style
from tilec.cli.tables import (
    Cell,
    bytes_text,
    columns,
    count_text,
    plural,
    seconds_text,
    table,
    terminal_width,
)
from tilec_runtime.errors import Diagnostic

if TYPE_CHECKING:
    from tilec.build import BuildResult
    from tilec.inspection.report import KernelSummary
    from tilec.package.outputs import Output

HEADS = columns("~kernel", ">variants", ">images", ">regs", ">spills", ">shared", ">stack", ">size")
WARNINGS_SHOWN = 10


def kernel_rows(kernels: Iterable[KernelSummary]) -> list[list[Cell]]:
    """The summary's rows; spills stand out."""
    rows: list[list[Cell]] = []
    for kernel in kernels:
        used = kernel.usage
        spills = bytes_text(used.spills)
        rows.append(
            [
                kernel.name,
                str(kernel.variants),
                str(kernel.images),
                count_text(used.registers),
                (spills, "yellow") if used.spills else spills,
                bytes_text(used.shared),
                bytes_text(used.stack),
                bytes_text(kernel.size),
            ]
        )
    return rows


def print_summary(app: App, result: BuildResult) -> None:
    """Print a finished build."""
    print_warnings(app, result.warnings)
    for text in result.notes if app.verbose or not result.up_to_date else ():
        app.note(f"note: {text}")
    counts = f"{plural(result.jobs, 'job')}, {seconds_text(result.seconds)}"
    if result.up_to_date:
        app.say(f"{style('up to date', fg='green', bold=True)} ({counts})")
        return
    from tilec.inspection.report import summarize  # a build that has nothing to do needs none of it

    kernels = result.info.kernels if result.info else ()
    for line in table(HEADS, kernel_rows(map(summarize, kernels)), width=terminal_width()):
        app.say(line)
    app.say()
    rows = output_rows(app, result.outputs)
    for line in table(columns("output", "~path", ">size", ""), rows, width=terminal_width()):
        app.say(line)
    app.say()
    cached = f", {result.cached} cached" if result.cached else ""
    built = style("built", fg="green", bold=True)
    app.say(
        f"{built} {plural(result.jobs, 'job')}: {result.compiled} compiled{cached}, {seconds_text(result.seconds)}"
    )


def output_rows(app: App, outputs: Sequence[Output]) -> list[list[Cell]]:
    """One row per kind and directory: a file by its name, several as their directory with their
    number.
    """
    groups: dict[tuple[str, Path], list[Output]] = {}
    for output in outputs:
        groups.setdefault((output.kind, Path(output.path).parent), []).append(output)
    rows: list[list[Cell]] = []
    for (kind, directory), members in groups.items():
        one = len(members) == 1 and kind != "package"
        name = app.show(members[0].path) if one else f"{app.show(directory)}/"
        count = "" if one else plural(len(members), "file")
        state = "" if any(member.changed for member in members) else "unchanged"
        rows.append(
            [
                kind,
                name,
                bytes_text(sum(member.size for member in members)),
                ", ".join(filter(None, (count, state))),
            ]
        )
    return rows


def print_warnings(app: App, warnings: Sequence[Diagnostic]) -> None:
    """Print each different warning once."""
    different = list(dict.fromkeys(warnings))
    shown = different if app.verbose else different[:WARNINGS_SHOWN]
    for warning in shown:
        app.note(diagnostic_text(warning, app.show))
    if len(shown) < len(different):
        app.note(
            f"… and {plural(len(different) - len(shown), 'more warning')} (--verbose shows them)"
        )


def result_json(result: BuildResult) -> dict[str, Any]:
    """A finished build as JSON values."""
    from tilec.inspection.report import kernel_json

    return {
        "ok": True,
        "up_to_date": result.up_to_date,
        "jobs": result.jobs,
        "compiled": result.compiled,
        "cached": result.cached,
        "seconds": round(result.seconds, 3),
        "outputs": [
            {"kind": o.kind, "path": str(o.path), "size": o.size, "changed": o.changed}
            for o in result.outputs
        ],
        "kernels": [kernel_json(kernel) for kernel in result.info.kernels] if result.info else None,
        "warnings": [diagnostic_json(warning) for warning in dict.fromkeys(result.warnings)],
        "notes": list(result.notes),
    }
