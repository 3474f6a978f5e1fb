"""Expands a case into several: at each point of a sweep, with each built variant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tilec.bench.report import CaseBench, Point
from tilec.case.cases import BoundCase, stated_axes
from tilec.case.sweeps import Sweep
from tilec_runtime.errors import LaunchError
from tilec_runtime.model.kernel import KernelInfo

Cases = Sequence["BoundCase"]


def swept_cases(
    cases_at: Callable[[str], Cases], sweep: Sweep
) -> tuple[tuple[BoundCase, ...], dict[str, Point]]:
    """Return each case at each point, grouped by case, and their points by name.

    Args:
        cases_at: returns the cases with a value of the sweep.
        sweep: the sweep.
    """
    groups: dict[str, list[BoundCase]] = {}
    points: dict[str, Point] = {}
    for value in sweep.values:
        for case in cases_at(value):
            named = dataclasses.replace(case, name=f"{case.name} {sweep.name}={value}")
            groups.setdefault(case.name, []).append(named)
            points[named.name] = Point(base=case.name, at=value)
    return tuple(case for cases in groups.values() for case in cases), points


def variants_of(case: BoundCase, info: KernelInfo) -> tuple[BoundCase, ...]:
    """Return a case once for each built point of the axes it leaves open; itself if there is one.

    Args:
        case: the case.
        info: its kernel.
    """
    fixed = stated_axes(case, info)
    free = [name for name in info.choices if name not in fixed]
    built = [dict(variant.axes) for variant in info.variants]
    points = dict.fromkeys(
        tuple((name, axes[name]) for name in free if name in axes)
        for axes in built
        if all(axes.get(name, value) == value for name, value in fixed.items())
    )
    if len(points) < 2:
        return (case,)
    return tuple(
        dataclasses.replace(
            case,
            name=f"{case.name} {','.join(f'{name}={value}' for name, value in point)}",
            axes=tuple((dict(case.axes) | dict(point)).items()),
            choose=(*case.choose, *point),
        )
        for point in points
    )


def all_variants(
    cases: Cases, kernels: Mapping[str, KernelInfo], points: Mapping[str, Point]
) -> tuple[tuple[BoundCase, ...], dict[str, Point]]:
    """Return the variants of all cases, and their points by name; unbuilt cases stay."""
    expanded: list[BoundCase] = []
    known: dict[str, Point] = {}
    for case in cases:
        point = points.get(case.name)
        for one in variants_of(case, kernels[case.kernel]) if case.kernel in kernels else (case,):
            expanded.append(one)
            variant = one.name[len(case.name) :].strip()
            if point is not None or variant:
                base = point or Point(base=case.name)
                known[one.name] = dataclasses.replace(base, variant=variant)
    return tuple(expanded), known


def forgiven(case: CaseBench) -> CaseBench:
    """Return a point whose arguments the kernel refused as skipped: it is no failure."""
    if not isinstance(case.error, LaunchError):
        return case
    reason = f"{case.name.partition(' ')[2]}: {case.error.what}"
    return dataclasses.replace(case, status="skipped", refused=True, error=None, reason=reason)
