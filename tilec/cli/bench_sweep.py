"""All built variants of a case in place of the one that a launch takes, and a plot of how long each takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tilec.bench.report import CaseBench
from tilec.cli.tables import cells, shorten
from tilec.cli.tune_show import time_text
from tilec.errors import LaunchError

if TYPE_CHECKING:
    from tilec.model.kernel import KernelInfo
    from tilec.runner.cases import BoundCase

# Columns of the longest bar, and of what stands before it.
BAR, LABEL = 30, 24
_PARTS = " ▏▎▍▌▋▊▉"


def variants_of(case: BoundCase, info: KernelInfo) -> tuple[BoundCase, ...]:
    """A case once for each point of the matrix that was built and that it leaves open; the case itself where that is one.

    Args:
        case: with or without axes that it chooses.
        info: its kernel.
    """
    known = dict(case.axes)
    fixed = {name: known[name] for name in info.dtype_axes if name in known} | dict(case.choose)
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


def sweep(cases: Sequence[BoundCase], kernels: Mapping[str, KernelInfo]) -> tuple[BoundCase, ...]:
    """The variants of all cases, in their order; cases of kernels that were not built stay as they are."""
    return tuple(one for case in cases for one in (variants_of(case, kernels[case.kernel]) if case.kernel in kernels else (case,)))


def forgiven(case: CaseBench) -> CaseBench:
    """A variant that refuses the case's arguments is left out, and no failure: nobody said that all would take them."""
    if not isinstance(case.error, LaunchError):
        return case
    return dataclasses.replace(case, status="skipped", error=None, reason=f"{case.name.partition(' ')[2]}: {case.error.what}")


def plot_lines(results: Sequence[CaseBench]) -> Iterator[str]:
    """For each case with several variants a bar for each, the fastest first."""
    groups: dict[str, list[CaseBench]] = {}
    for result in results:
        base, space, _ = result.name.partition(" ")
        if space and result.measurement is not None:
            groups.setdefault(base, []).append(result)
    for base, variants in groups.items():
        variants.sort(key=lambda variant: variant.median)
        fastest, slowest = variants[0].median, variants[-1].median
        labels = [shorten(variant.name.partition(" ")[2], LABEL) for variant in variants]
        width = max(map(cells, labels))
        yield ""
        yield f"{base} by variant"
        for label, variant in zip(labels, variants, strict=True):
            bar = bar_text(variant.median / slowest)
            yield f"  {label}{' ' * (width - cells(label))}  {time_text(variant.median):>9}  {variant.median / fastest:>5.2f}x  {bar}"


def bar_text(part: float) -> str:
    """A bar that is so long a part of the longest, to an eighth of a column."""
    eighths = max(1, round(part * BAR * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + _PARTS[rest].strip()
