"""One case as many: at each point of a sweep, with each built variant; and plots of how long each takes in the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tilec.bench.report import CaseBench, Point
from tilec.bench.series import Group, Line, groups_of
from tilec.cli.tables import cells, shorten, terminal_width
from tilec.cli.tune_show import time_text
from tilec_runtime.errors import LaunchError

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.sweeps import Sweep
    from tilec_runtime.model.kernel import KernelInfo

# Columns of the longest bar, and of what stands before it.
BAR, LABEL, VALUE = 30, 24, 12
WIDTH = 80
_PARTS = " ▏▎▍▌▋▊▉"
Cases = Sequence["BoundCase"]


def swept_cases(cases_at: Callable[[str], Cases], sweep: Sweep) -> tuple[tuple[BoundCase, ...], dict[str, Point]]:
    """Each case at each point, a case's points in a row; and what each is a point of, by its name.

    Args:
        cases_at: the cases with a value of the sweep.
        sweep: what changes.
    """
    found: dict[str, list[BoundCase]] = {}
    points: dict[str, Point] = {}
    for value in sweep.values:
        for case in cases_at(value):
            named = dataclasses.replace(case, name=f"{case.name} {sweep.name}={value}")
            found.setdefault(case.name, []).append(named)
            points[named.name] = Point(base=case.name, at=value)
    return tuple(case for cases in found.values() for case in cases), points


def variants_of(case: BoundCase, info: KernelInfo) -> tuple[BoundCase, ...]:
    """A case once for each point of the matrix that was built and that it leaves open; the case itself where that is one.

    Args:
        case: with or without axes that it chooses.
        info: its kernel.
    """
    from tilec.case.cases import said_axes

    known, fixed = dict(case.axes), said_axes(case, info)
    free = [name for name in info.choices if name not in fixed]
    built = (dict(variant.axes) for variant in info.variants)
    fitting = [point for point in built if all(point.get(name, value) == value for name, value in fixed.items())]
    points = dict.fromkeys(tuple((name, point[name]) for name in free if name in point) for point in fitting)
    if len(points) < 2:
        return (case,)
    return tuple(
        dataclasses.replace(
            case,
            name=f"{case.name} {','.join(f'{name}={value}' for name, value in point)}",
            axes=tuple((known | dict(point)).items()),
            choose=(*case.choose, *point),
        )
        for point in points
    )


def all_variants(
    cases: Cases, kernels: Mapping[str, KernelInfo], points: Mapping[str, Point]
) -> tuple[tuple[BoundCase, ...], dict[str, Point]]:
    """The variants of all cases, in their order; cases of kernels that were not built, or with one variant, stay as they are."""
    found: list[BoundCase] = []
    known: dict[str, Point] = {}
    for case in cases:
        point = points.get(case.name)
        for one in variants_of(case, kernels[case.kernel]) if case.kernel in kernels else (case,):
            found.append(one)
            variant = one.name[len(case.name) :].strip()
            if point is not None or variant:
                known[one.name] = dataclasses.replace(point or Point(base=case.name), variant=variant)
    return tuple(found), known


def forgiven(case: CaseBench) -> CaseBench:
    """A point that refuses the case's arguments is left out, and no failure: nobody said that all would take them."""
    if not isinstance(case.error, LaunchError):
        return case
    return dataclasses.replace(case, status="skipped", refused=True, error=None, reason=f"{case.name.partition(' ')[2]}: {case.error.what}")


def plot_lines(results: Sequence[CaseBench], sweep: str) -> Iterator[str]:
    """A plot of each case with several points: a sweep in its order, beside what it is held against; variants the fastest first.

    Args:
        results: of a run.
        sweep: what changes; empty where variants alone do.
    """
    for group in groups_of(results, sweep):
        yield ""
        yield from _swept(group) if group.sweep else _ranked(group)


def _ranked(group: Group) -> Iterator[str]:
    """Variants, the fastest first."""
    rows = sorted((line.points[0].seconds, line.label) for line in group.lines if not line.rival)
    fastest, slowest = rows[0][0], rows[-1][0]
    labels = [shorten(label, LABEL) for _, label in rows]
    width = max(map(cells, labels))
    yield f"{group.base} by variant"
    for label, (seconds, _) in zip(labels, rows, strict=True):
        yield f"  {_left(label, width)}  {time_text(seconds):>9}  {seconds / fastest:>5.2f}x  {bar_text(seconds / slowest)}"


def _swept(group: Group) -> Iterator[str]:
    """A row for each line at each point, with a bar of the rate that bounds it; of its time where no rate is known."""
    several = len(group.lines) > 1
    names = [shorten(line.label, LABEL) for line in group.lines]
    wide = max(map(cells, names)) if several else 0
    values = [shorten(value, VALUE) for value in group.values]
    width = max(map(cells, (*values, group.sweep)))
    most = max(_size(line, at, group) or 0.0 for line in group.lines for at in group.values)
    bar = min(BAR, (terminal_width() or WIDTH) - width - wide - 26)
    head = f"  {group.sweep:>{width}}  {_left('', wide + 2) if several else ''}{'time':>9}"
    yield f"{group.base} by {group.sweep}"
    yield f"{head}  {group.unit:>8}" if group.unit else head
    for value, short in zip(group.values, values, strict=True):
        lead = short
        for name, line in zip(names, group.lines, strict=True):
            point = line.at(value)
            if point is None:
                continue
            label = f"{_left(name, wide)}  " if several else ""
            rate = f"  {rate_of(point.rate):>8}" if group.unit else ""
            size = _size(line, value, group) or 0.0
            yield f"  {lead:>{width}}  {label}{time_text(point.seconds):>9}{rate}  {bar_text(size / most, bar)}".rstrip()
            lead = ""


def _size(line: Line, value: str, group: Group) -> float | None:
    point = line.at(value)
    return None if point is None else point.rate if group.unit else point.seconds


def rate_of(rate: float | None) -> str:
    """A rate with three digits that count."""
    if rate is None:
        return "-"
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 10 else f"{rate:.2f}"


def _left(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def bar_text(part: float, longest: int = BAR) -> str:
    """A bar that is so long a part of the longest, to an eighth of a column."""
    eighths = max(1, round(part * longest * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + _PARTS[rest].strip()
