"""Results of a run as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilec.cli.app import App
from tilec.cli.failures import located_text
from tilec.cli.style import style
from tilec.cli.tables import FLEX_LEAST, Cell, columns, plural, shorten, table, terminal_width
from tilec_runtime.model.dtype import DTYPES

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.compare import Bin, Element
    from tilec.case.run import CaseResult, OutputResult, Repeats, RunReport
    from tilec.case.sanitize import CaseFindings
    from tilec.cli.findings import SourceLine
    from tilec_runtime.cpu.launch import CpuRun
    from tilec_runtime.device.seam_types import DeviceInfo
    from tilec_runtime.launch.jit import Compiled

TINTS = {
    "passed": ("ok", "green"),
    "failed": ("FAIL", "red"),
    "error": ("ERROR", "red"),
    "hung": ("HUNG", "red"),
    "ran": ("ran", "cyan"),
    "skipped": ("skip", "yellow"),
}
REST = 51  # columns of a line of results behind the name of the case
FOUND = ("FOUND", "red")
COUNTED = {
    "passed": "passed",
    "ran": "ran without a reference",
    "failed": "failed",
    "error": "could not be run or compared",
    "hung": "hung",
    "skipped": "skipped",
}


class Results:
    """Prints each case of a run as it ends, in columns as wide as its names."""

    def __init__(self, app: App, cases: Sequence[BoundCase]) -> None:
        self._app = app
        self._width = max(len(case.name) for case in cases)
        width = terminal_width()
        if width is not None:
            self._width = min(self._width, max(FLEX_LEAST, width - REST))

    def print_head(self) -> None:
        """The titles of the columns."""
        line = f"{'case':<{self._width}}  result  {'output':<8}  {'max abs':>9}  {'max rel':>9}  {'time':>9}"
        self._app.say(style(line, bold=True))

    def print(self, result: CaseResult, *, suspect: bool = False) -> None:
        """One case; `suspect` says that its launch was watched, and is not right even where its
        results are.
        """
        from tilec.case.chains import chain_text

        app = self._app
        word, tint = (
            FOUND if suspect and result.status in ("passed", "ran") else TINTS[result.status]
        )
        lead = f"{shorten(result.case.name, self._width):<{self._width}}  {style(f'{word:<6}', fg=tint, bold=True)}"
        timing = f"{result.seconds * 1e3:>6.2f} ms" if result.seconds else ""
        if not result.outputs:
            app.say(f"{lead}  {'-':<8}  {'-':>9}  {'-':>9}  {timing:>9}".rstrip())
        for index, output in enumerate(result.outputs):
            found = output.comparison
            start, end = (lead, timing) if index == 0 else (" " * (self._width + 8), "")
            app.say(
                f"{start}  {output.name:<8}  {found.max_abs:>9.3g}  {found.max_rel:>9.3g}  {end:>9}".rstrip()
            )
            if not found.ok:
                app.say(f"  {difference(output)}")
                for line in difference_lines(output, terminal_width()):
                    app.say(f"  {line}".rstrip())
            for note in output.notes:
                app.say(style(f"  {output.name}: {note}", fg="yellow"))
        if result.case.steps and result.status == "passed" and not suspect:
            app.say(
                f"  PASS: {chain_text(result.case)}: one stream, the same arrays, as the reference has it"
            )
        if result.repeats is not None and result.status != "skipped":
            app.say(f"  {repeats_text(result.repeats)}")
        if result.error is not None:
            app.say(
                "\n".join(f"  {line}" for line in located_text(result.error, app.show).splitlines())
            )


def repeats_text(repeats: Repeats) -> str:
    """`20 runs, equal bits`, or which outputs had others than in the first run, or which run went
    wrong.
    """
    if repeats.runs < repeats.wanted:
        return f"run {repeats.runs} of {repeats.wanted} went wrong{', held against the first' if repeats.runs > 1 else ''}"
    if not repeats.varied:
        return f"{plural(repeats.runs, 'run')}, equal bits"
    which = ", ".join(f"{name} in {count}" for name, count in repeats.varied)
    return style(
        f"{plural(repeats.runs, 'run')}, other bits than in the first: {which}", fg="yellow"
    )


def difference(output: OutputResult) -> str:
    """`z[3, 7] is 1.5, expected 1.25; 12 of 4096 elements are off (rtol 1e-05, atol 1e-06)`, or `(4
    ulp)`.
    """
    found, limit = output.comparison, output.tolerance
    index = ", ".join(map(str, found.first_index or ()))
    where = f"{output.name}[{index}] is {found.first_actual!r}, expected {found.first_expected!r}"
    allowed = (
        [f"rtol {limit.rtol:g}, atol {limit.atol:g}"]
        if limit.rtol or limit.atol or not limit.ulp
        else []
    )
    allowed += [f"{limit.ulp} ulp"] if limit.ulp else []
    return f"{where}; {found.mismatches} of {found.total} elements are off ({' or '.join(allowed)})"


def summary(report: RunReport, device: DeviceInfo, *, findings: int = 0) -> str:
    """How many cases ended how, what was found beside, and why some were skipped: once for each
    reason, with its kernels.
    """
    where = "the cpu device" if device.interprets else device.name
    parts = [
        f"{count} {text}" for status, text in COUNTED.items() if (count := report.count(status))
    ]
    parts += [plural(findings, "finding")] if findings else []
    lines = [f"\n{plural(len(report.results), 'case')} on {where}: {', '.join(parts)}"]
    lines += skipped_lines(
        (result.case.kernel, result.reason)
        for result in report.results
        if result.status == "skipped"
    )
    return "\n".join(lines)


def skipped_lines(skipped: Iterable[tuple[str, str]]) -> list[str]:
    """Why cases were skipped: a line for each reason, out of (kernel, reason)."""
    reasons: dict[str, dict[str, None]] = {}
    for kernel, reason in skipped:
        reasons.setdefault(reason, {})[kernel] = None
    return [f"skipped {', '.join(kernels)}: {reason}" for reason, kernels in reasons.items()]


def document(
    device: DeviceInfo,
    report: RunReport,
    *,
    findings: Sequence[CaseFindings] | None,
    compiled: Sequence[Compiled] = (),
) -> dict[str, Any]:
    """The run on one device as JSON values; `findings` are those of `--check`, `compiled` the
    images that were compiled at load.
    """
    from tilec.case.report import to_json

    shown: dict[str, Any] = {"kind": "cpu" if device.interprets else "cuda", "name": device.name}
    if device.interprets is None:
        shown |= {
            "ordinal": device.ordinal,
            "compute_capability": list(device.cc),
            "driver": list(device.driver),
        }
    body = {"device": shown, **to_json(report)}
    if findings is not None:
        body["findings"] = [
            {"case": item.case.name, **finding.as_json()}
            for item in findings
            for finding in item.findings
        ]
    if compiled:
        body["compiled"] = [
            {"variant": i.variant, "target": i.target, "by": i.by.value, "kept": i.kept}
            for i in compiled
        ]
    return body


def device_line(device: DeviceInfo) -> str:
    """What stands over the results on one of several devices."""
    return style(
        "the cpu device" if device.interprets else f"cuda:{device.ordinal}, {device.name}",
        bold=True,
    )


WINDOW_HEADS = columns("", "~index", ">got", ">expected", ">error", ">ulp")
BIN_HEADS = columns(">|got - expected|", ">elements", ">off", "")
BAR = 24
# Digits that tell every number of so many bits from its neighbours.
DIGITS = {64: 17, 32: 9, 16: 5, 8: 3, 4: 2}


def difference_lines(output: OutputResult, width: int | None) -> list[str]:
    """The window and the histogram of an output that is off; none for one that is not.

    Args:
        output: of a case.
        width: of the terminal, less what stands in front of the lines; None where nothing needs to
            fit.
    """
    found = output.difference
    if found is None:
        return []
    first = output.comparison.first_index
    rows = [_element(output, one, first=one.index == first) for one in found.window]
    lines = table(WINDOW_HEADS, rows, width=width and width - 2)
    most = max(one.count for one in found.histogram)
    return [
        *lines,
        *table(BIN_HEADS, [_bin(one, most) for one in found.histogram], width=width and width - 2),
    ]


def _element(output: OutputResult, one: Element, *, first: bool) -> list[Cell]:
    index = f"{output.name}[{', '.join(map(str, one.index))}]"
    digits = DIGITS[DTYPES[output.dtype].bits]
    texts = [
        _number(one.got, digits),
        _number(one.expected, digits),
        f"{one.error:.3g}",
        _count(one.ulp),
    ]
    mark = ">" if first else " "
    return (
        [mark, index, *texts]
        if one.ok
        else [(mark, "red"), (index, "red"), *((text, "red") for text in texts)]
    )


def _bin(one: Bin, most: int) -> list[Cell]:
    bar = "#" * max(1, round(BAR * one.count / most)) if one.count else ""
    return [
        one.label,
        str(one.count),
        (str(one.off), "red") if one.off else "0",
        (bar, "red") if one.off else bar,
    ]


def _number(value: float, digits: int) -> str:
    if isinstance(value, int):  # a bool or an integer
        return str(value)
    return f"{value:.{digits}g}"


def _count(ulp: int | None) -> str:
    if ulp is None:
        return "-"
    return str(ulp) if ulp < 10**7 else f"{float(ulp):.1e}"


def trace_run(
    run: CpuRun,
    blocks: Sequence[tuple[int, int, int]],
    source: SourceLine,
    say: Callable[[str], None],
) -> None:
    """Run these blocks of a launch, and no others.

    Args:
        run: the launch.
        blocks: their places in the grid.
        source: gives a line of a file.
        say: takes each line as it comes: what the kernel is given, the block, then a line of the
            source wherever it changes, with its operations under it.
    """
    from tilec_runtime.cpu.tileir.trace import step

    block: tuple[int, int, int] | None = None
    place: tuple[str, int] | None = None
    with step(run.program, run.arguments, run.grid, run.memory, blocks, run.options) as stepper:
        say(style(f"parameters of {run.kernel}", bold=True))
        for number, (value, held) in enumerate(stepper.parameters()):
            say(
                f"    %{value.index} = {run.slots[number] if run.slots else f'argument {number}'}  -> {held}"
            )
        for executed in stepper:
            if executed.block != block:
                block, place = executed.block, None
                say(style(f"block {block} of grid {run.grid}, {run.kernel}", bold=True))
            here = executed.location
            if here is not None and (here.file, here.line) != place:
                place = here.file, here.line
                say(
                    f"{here.file}:{here.line}: {style(source(here.file, here.line).strip(), fg='cyan')}".rstrip()
                )
            say(f"    {str(executed).removeprefix(f'{here}: ')}")
