"""One case as many: at each point of a sweep, with each built variant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tilec.bench.report import CaseBench, Point
from tilec_runtime.errors import LaunchError

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.sweeps import Sweep
    from tilec_runtime.model.kernel import KernelInfo

Cases = Sequence["BoundCase"]


def swept_cases(
    cases_at: Callable[[str], Cases], sweep: Sweep
) -> tuple[tuple[BoundCase, ...], dict[str, Point]]:
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
    """A case once for each point of the matrix that was built and that it leaves open; the case
    itself where that is one.

    Args:
        case: with or without axes that it chooses.
        info: its kernel.
    """
    from tilec.case.cases import said_axes

    known, fixed = dict(case.axes), said_axes(case, info)
    free = [name for name in info.choices if name not in fixed]
    built = (dict(variant.axes) for variant in info.variants)
    fitting = [
        point
        for point in built
        if all(point.get(name, value) == value for name, value in fixed.items())
    ]
    points = dict.fromkeys(
        tuple((name, point[name]) for name in free if name in point) for point in fitting
    )
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
    """The variants of all cases, in their order; cases of kernels that were not built, or with one
    variant, stay as they are.
    """
    found: list[BoundCase] = []
    known: dict[str, Point] = {}
    for case in cases:
        point = points.get(case.name)
        for one in variants_of(case, kernels[case.kernel]) if case.kernel in kernels else (case,):
            found.append(one)
            variant = one.name[len(case.name) :].strip()
            if point is not None or variant:
                known[one.name] = dataclasses.replace(
                    point or Point(base=case.name), variant=variant
                )
    return tuple(found), known


def forgiven(case: CaseBench) -> CaseBench:
    """A point that refuses the case's arguments is left out, and no failure: nobody said that all
    would take them.
    """
    if not isinstance(case.error, LaunchError):
        return case
    return dataclasses.replace(
        case,
        status="skipped",
        refused=True,
        error=None,
        reason=f"{case.name.partition(' ')[2]}: {case.error.what}",
    )
