"""The search space of a case: the points of the kernel's matrix that its inputs leave open."""

from __future__ import annotations

import dataclasses

from tilec.case.cases import Axes, BoundCase, stated_axes
from tilec.model.literal import axis_text
from tilec_runtime.errors import CaseError
from tilec_runtime.model import expr
from tilec_runtime.model.kernel import KernelInfo

Point = Axes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """The search space of one case.

    Attributes:
        case: the case.
        points: values of all axes, in the order of the matrix; at least one.
        free: axes with more than one value.
    """

    case: BoundCase
    points: tuple[Point, ...]
    free: tuple[str, ...]


def space_of(info: KernelInfo, case: BoundCase) -> Space:
    """Return the search space of a case.

    Args:
        info: the kernel with its variants, built or planned.
        case: one of its cases; axes that it chooses are fixed.

    Raises:
        CaseError: the matrix has no point for the case, or its inputs depend on a free axis.
    """
    fixed = stated_axes(case, info)
    points = tuple(
        dict.fromkeys(
            v.axes
            for v in info.variants
            if all(dict(v.axes).get(n) == value for n, value in fixed.items())
        )
    )
    if not points:
        conditions = ", ".join(f"{name} = {value!r}" for name, value in fixed.items()) or "it"
        message = f"{case.name}: the matrix of {info.name} has no point for {conditions}: there is nothing to tune"
        fix = f"add values to kernel.{info.name}.matrix, or leave the case out"
        raise CaseError(message, fix=fix, location=case.location)
    free = tuple(name for name, _ in info.axes if len({dict(point)[name] for point in points}) > 1)
    for item in case.inputs:
        for text in (*(item.shape or ()), *(item.small or ())):
            bad = sorted(expr.parse(text).names.intersection(free))
            if bad:
                message = f"{case.name}: inputs.{item.name} has the extent {text!r}, which changes with {bad[0]}: candidates would do other work"
                fix = f"give a number, or choose {bad[0]} in the case: axes = {{ {bad[0]} = … }}"
                raise CaseError(message, fix=fix, location=case.location)
    axes = tuple((name, value) for name, value in points[0] if name not in free)
    return Space(case=dataclasses.replace(case, axes=axes), points=points, free=free)


def at_point(case: BoundCase, info: KernelInfo, point: Point) -> BoundCase:
    """Return the case at a point: it chooses every axis that the arguments do not decide."""
    return dataclasses.replace(
        case,
        axes=point,
        choose=tuple((name, value) for name, value in point if name not in info.dtype_axes),
    )


def point_text(point: Point, names: tuple[str, ...] = ()) -> str:
    """Return a point, or its named axes, as `BM=64 BN=128`."""
    return (
        " ".join(
            f"{name}={axis_text(value)}" for name, value in point if not names or name in names
        )
        or "its only point"
    )
