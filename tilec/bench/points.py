"""Expands a case into several, one at each point of a sweep."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilec.bench.report import CaseBench, Point
from tilec_runtime.errors import LaunchError

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.sweeps import Sweep

Cases = Sequence["BoundCase"]


def swept_cases(
    cases_at: Callable[[str], Cases], sweep: Sweep
) -> tuple[tuple[BoundCase, ...], dict[str, Point]]:
    """Return each case at each point, grouped by case, and their points by name.

    Args:
        cases_at: returns the cases with a value of the sweep.
        sweep: the sweep.
    """
    found: dict[str, list[BoundCase]] = {}
    points: dict[str, Point] = {}
    for value in sweep.values:
        for case in cases_at(value):
            named = dataclasses.replace(case, name=f"{case.name} {sweep.name}={value}")
            found.setdefault(case.name, []).append(named)
            points[named.name] = Point(base=case.name, at=value)
    return tuple(case for cases in found.values() for case in cases), points


def forgiven(case: CaseBench) -> CaseBench:
    """Return a point whose arguments the kernel refused as skipped: it is no failure."""
    if not isinstance(case.error, LaunchError):
        return case
    reason = f"{case.name.partition(' ')[2]}: {case.error.what}"
    return dataclasses.replace(case, status="skipped", refused=True, error=None, reason=reason)
