"""Where an output is off, as text: the first wrong element among its neighbours, and how many elements are how far off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilec.cli.tables import Cell, columns, table
from tilec_runtime.model.dtype import DTYPES

if TYPE_CHECKING:
    from tilec.case.difference import Bin, Element
    from tilec.case.run import OutputResult

WINDOW_HEADS = columns("", "~index", ">got", ">expected", ">error", ">ulp")
BIN_HEADS = columns(">|got - expected|", ">elements", ">off", "")
BAR = 24
# Digits that tell every number of so many bits from its neighbours.
DIGITS = {64: 17, 32: 9, 16: 5, 8: 3, 4: 2}


def difference_lines(output: OutputResult, width: int | None) -> list[str]:
    """The window and the histogram of an output that is off; none for one that is not.

    Args:
        output: of a case.
        width: of the terminal, less what stands in front of the lines; None where nothing needs to fit.
    """
    found = output.difference
    if found is None:
        return []
    first = output.comparison.first_index
    rows = [_element(output, one, first=one.index == first) for one in found.window]
    lines = table(WINDOW_HEADS, rows, width=width and width - 2)
    most = max(one.count for one in found.histogram)
    return [*lines, *table(BIN_HEADS, [_bin(one, most) for one in found.histogram], width=width and width - 2)]


def _element(output: OutputResult, one: Element, *, first: bool) -> list[Cell]:
    index = f"{output.name}[{', '.join(map(str, one.index))}]"
    digits = DIGITS[DTYPES[output.dtype].bits]
    texts = [_number(one.got, digits), _number(one.expected, digits), f"{one.error:.3g}", _count(one.ulp)]
    mark = ">" if first else " "
    return [mark, index, *texts] if one.ok else [(mark, "red"), (index, "red"), *((text, "red") for text in texts)]


def _bin(one: Bin, most: int) -> list[Cell]:
    bar = "#" * max(1, round(BAR * one.count / most)) if one.count else ""
    return [one.label, str(one.count), (str(one.off), "red") if one.off else "0", (bar, "red") if one.off else bar]


def _number(value: float, digits: int) -> str:
    if isinstance(value, int):  # a bool or an integer
        return str(value)
    return f"{value:.{digits}g}"


def _count(ulp: int | None) -> str:
    if ulp is None:
        return "-"
    return str(ulp) if ulp < 10**7 else f"{float(ulp):.1e}"
