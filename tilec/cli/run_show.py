"""Results of a run as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tilec.case.cases import BoundCase
from tilec.case.chains import chain_text
from tilec.case.compare import Bin, Element
from tilec.case.report import to_json
from tilec.case.run import CaseResult, OutputResult, Repeats
from tilec.cli.app import App
from tilec.cli.devices import device_json
from tilec.cli.failures import located_text
from tilec.cli.findings import source_line
from tilec.cli.style import style
from tilec.cli.tables import (
    Cell,
    Table,
    cells,
    grouped,
    plural,
    table,
    terminal_width,
)
from tilec_runtime.cpu.launch import CpuRun
from tilec_runtime.cpu.tileir.trace import Stepper
from tilec_runtime.device.seam import DeviceInfo
from tilec_runtime.launch.jit import Compiled
from tilec_runtime.model.dtype import DTYPES

# Word and colour of each status, and its text in the summary.
STATUSES = {
    "passed": ("ok", "green", "passed"),
    "ran": ("ran", "cyan", "ran without a reference"),
    "failed": ("FAIL", "red", "failed"),
    "error": ("ERROR", "red", "could not be run or compared"),
    "hung": ("HUNG", "red", "hung"),
    "skipped": ("skip", "yellow", "skipped"),
}
HEADS = ("~case", "result", "~output", ">max abs", ">max rel", ">time")
NUMBER = 9  # columns of a number
WINDOW_HEADS = ("", "~index", ">got", ">expected", ">error", ">ulp")
BIN_HEADS = ("|got - expected|", ">elements", ">off", "")
BAR = 24
# By number of bits: digits that distinguish every number from its neighbours.
DIGITS = {64: 17, 32: 9, 16: 5, 8: 3, 4: 2}


class Results:
    """Prints each case of a run as it ends.

    Args:
        app: run of the command.
        cases: all cases.
    """

    def __init__(self, app: App, cases: Sequence[BoundCase]) -> None:
        names = max(cells(case.name) for case in cases)
        outputs = max((cells(name) for case in cases for name in case.outs), default=0)
        sizes = (names, 6, outputs, NUMBER, NUMBER, NUMBER)
        self._app = app
        self._table = Table(HEADS, sizes, width=terminal_width())

    def print_head(self) -> None:
        """Print the titles of the columns."""
        self._app.say(self._table.head(), wrap=False)

    def print(self, result: CaseResult) -> None:
        """Print one case: a row per output, and its differences."""
        app = self._app
        word, color, _ = STATUSES[result.status]
        lead: list[Cell] = [result.case.name, (word, color)]
        timing = f"{result.seconds * 1e3:.2f} ms" if result.seconds else ""
        if not result.outputs:
            app.say(self._table.row([*lead, "-", "-", "-", timing]), wrap=False)
        for output in result.outputs:
            comparison = output.comparison
            numbers = [f"{comparison.max_abs:.3g}", f"{comparison.max_rel:.3g}"]
            app.say(self._table.row([*lead, output.name, *numbers, timing]), wrap=False)
            lead, timing = ["", ""], ""
            if not comparison.ok:
                app.say(f"  {output.difference}")
                for line in difference_lines(output, terminal_width()):
                    app.say(f"  {line}", wrap=False)
            for note in output.notes:
                app.say(f"  {style(f'{output.name}: {note}', fg='yellow')}")
        if result.case.steps and result.status == "passed":
            app.say(
                f"  PASS: {chain_text(result.case)}: one stream, the same arrays, results as in the reference"
            )
        if result.repeats is not None:
            app.say(f"  {repeats_text(result.repeats)}")
        if result.error is not None:
            for line in located_text(result.error, app.show).splitlines():
                app.say(f"  {line}")


def repeats_text(repeats: Repeats) -> str:
    """Format as `20 runs, equal bits`, with varying outputs, or the failed run."""
    if repeats.runs < repeats.wanted:
        against = ", compared with the first" if repeats.runs > 1 else ""
        return f"run {repeats.runs} of {repeats.wanted} failed{against}"
    runs = plural(repeats.runs, "run")
    if not repeats.varied:
        return f"{runs}, equal bits"
    which = ", ".join(f"{name} in {count}" for name, count in repeats.varied)
    return style(f"{runs}, bits differ from the first run: {which}", fg="yellow")


def difference_lines(output: OutputResult, width: int | None) -> list[str]:
    """Return neighbours of the first wrong element, and a histogram of differences."""
    comparison = output.comparison
    first, most = comparison.first_index, max(one.count for one in comparison.histogram)
    window = [_element(output, one, first=one.index == first) for one in comparison.window]
    bins = [_bin(one, most) for one in comparison.histogram]
    room = width and width - 2  # the lines are indented
    return [*table(WINDOW_HEADS, window, width=room), *table(BIN_HEADS, bins, width=room)]


def _element(output: OutputResult, one: Element, *, first: bool) -> list[Cell]:
    digits = DIGITS[DTYPES[output.dtype].bits]
    got, expected = (
        str(value) if isinstance(value, int) else f"{value:.{digits}g}"
        for value in (one.got, one.expected)
    )
    ulp = "-" if one.ulp is None else str(one.ulp) if one.ulp < 10**7 else f"{float(one.ulp):.1e}"
    index = f"{output.name}[{', '.join(map(str, one.index))}]"
    color = "" if one.ok else "red"
    texts = (">" if first else " ", index, got, expected, f"{one.error:.3g}", ulp)
    return [(text, color) for text in texts]


def _bin(one: Bin, most: int) -> list[Cell]:
    bar = "#" * max(1, round(BAR * one.count / most)) if one.count else ""
    color = "red" if one.off else ""
    return [one.label, str(one.count), (str(one.off), color), (bar, color)]


def summary(results: Sequence[CaseResult], device: DeviceInfo) -> str:
    """Return the number of cases by status, and the reasons of skipped ones."""
    where = "the cpu device" if device.interprets else device.name
    counts = Counter(result.status for result in results)
    parts = [f"{counts[name]} {text}" for name, (_, _, text) in STATUSES.items() if counts[name]]
    skipped = ((r.case.kernel, r.reason) for r in results if r.status == "skipped")
    head = f"\n{plural(len(results), 'case')} on {where}: {', '.join(parts)}"
    return "\n".join([head, *skipped_lines(skipped)])


def skipped_lines(skipped: Iterable[tuple[str, str]], verb: str = "skipped") -> list[str]:
    """Return a line for each reason of pairs (kernel, reason)."""
    groups = grouped((reason, kernel) for kernel, reason in skipped)
    return [f"{verb} {', '.join(kernels)}: {reason}" for reason, kernels in groups.items()]


def document(
    device: DeviceInfo, results: Sequence[CaseResult], compiled: Sequence[Compiled] = ()
) -> dict[str, Any]:
    """Return a run as JSON values; `compiled` are the images compiled at load."""
    body = {"device": device_json(device), **to_json(results)}
    if compiled:
        body["compiled"] = [
            {"variant": i.variant, "target": i.target, "by": i.by.value} for i in compiled
        ]
    return body


def trace_run(
    run: CpuRun,
    blocks: Sequence[tuple[int, int, int]],
    root: Path,
    say: Callable[[str], None],
) -> None:
    """Run some blocks of a launch and print each operation under its source line.

    Args:
        run: the launch.
        blocks: indices of the blocks.
        root: the directory that sources are relative to.
        say: prints a line.
    """
    block: tuple[int, int, int] | None = None
    last: tuple[str, int] | None = None
    with Stepper(run.program, run.arguments, run.grid, run.memory, blocks, run.options) as stepper:
        say(style(f"parameters of {run.kernel}", bold=True))
        for number, (value, held) in enumerate(stepper.parameters()):
            name = run.slots[number] if run.slots else f"argument {number}"
            say(f"    %{value.index} = {name}  -> {held}")
        for executed in stepper:
            if executed.block != block:
                block, last = executed.block, None
                say(style(f"block {block} of grid {run.grid}, {run.kernel}", bold=True))
            here = executed.location
            if here is not None and (here.file, here.line) != last:
                last = here.file, here.line
                line = style(source_line(root, here.file, here.line).strip(), fg="cyan")
                say(f"{here.file}:{here.line}: {line}".rstrip())
            say(f"    {str(executed).removeprefix(f'{here}: ')}")
