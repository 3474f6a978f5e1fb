"""Expands a case into several: at each point of a sweep, with each built variant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from tilec.bench.report import CaseBench, Point
from tilec.case.cases import Axes, BoundCase, stated_axes
from tilec.case.sweeps import Sweep
from tilec_runtime.errors import LaunchError
from tilec_runtime.model.kernel import KernelInfo

# A case to measure, and its point if the case is measured several times.
Planned: TypeAlias = tuple[BoundCase, Point | None]


def planned_cases(
    cases_at: Callable[[str], Sequence[BoundCase]], sweep: Sweep | None
) -> list[Planned]:
    """Return each case at each point of a sweep, grouped by case.

    Args:
        cases_at: returns the cases at a value of the sweep, or for an empty text without a sweep.
        sweep: the sweep, or None.
    """
    if sweep is None:
        return [(case, None) for case in cases_at("")]
    groups: dict[str, list[Planned]] = {}
    for value in sweep.values:
        for case in cases_at(value):
            named = dataclasses.replace(case, name=f"{case.name} {sweep.name}={value}")
            groups.setdefault(case.name, []).append((named, Point(base=case.name, at=value)))
    return [planned for group in groups.values() for planned in group]


def with_variants(planned: Sequence[Planned], kernels: Mapping[str, KernelInfo]) -> list[Planned]:
    """Return each case at each built point of the axes that it leaves open.

    A case with fewer than two such points stays as it is.
    """
    expanded: list[Planned] = []
    for case, point in planned:
        axes = open_points(case, kernels[case.kernel]) if case.kernel in kernels else ()
        for chosen in axes:
            text = ",".join(f"{name}={value}" for name, value in chosen)
            variant = dataclasses.replace(
                case,
                name=f"{case.name} {text}",
                axes=tuple((dict(case.axes) | dict(chosen)).items()),
                choose=(*case.choose, *chosen),
            )
            base = point or Point(base=case.name)
            expanded.append((variant, dataclasses.replace(base, variant=text)))
        if not axes:
            expanded.append((case, point))
    return expanded


def open_points(case: BoundCase, info: KernelInfo) -> tuple[Axes, ...]:
    """Return the built points of the axes that a case leaves open; empty for fewer than two."""
    fixed = stated_axes(case, info)
    free = [name for name in info.choices if name not in fixed]
    built = [dict(variant.axes) for variant in info.variants]
    points = dict.fromkeys(
        tuple((name, axes[name]) for name in free if name in axes)
        for axes in built
        if all(axes.get(name, value) == value for name, value in fixed.items())
    )
    return tuple(points) if len(points) > 1 else ()


def forgiven(case: CaseBench) -> CaseBench:
    """Return a point whose arguments the kernel refused as skipped: it is no failure."""
    if not isinstance(case.error, LaunchError):
        return case
    reason = f"{case.name.partition(' ')[2]}: {case.error.what}"
    return dataclasses.replace(case, status="skipped", refused=True, error=None, reason=reason)
