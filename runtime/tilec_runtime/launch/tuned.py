"""Settles a call's axes by tuning table, rules, default, or any fitting variant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilec_runtime.errors import LaunchError, LayoutError, RequirementError, VariantError
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.program import TracedInt
from tilec_runtime.launch.select import (
    Settled,
    default_axes,
    no_variant,
    select_variant,
    settle_axes,
)
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.table import Point, look_up, same_point


def settle_in_turn(call: Call, origins: dict[str, str]) -> Settled:
    """Settle the open axes, check the call there, and choose the variant.

    Args:
        call: the call; its axes are settled in place.
        origins: the sources of the axes that are settled already.

    Raises:
        LaunchError: no variant takes the call.
    """
    contract = call.contract
    # Rules choose among points with these values: another value may compute something else.
    default_axes(contract, contract.undispatched, call.axes, origins)
    reasons: list[str] = []
    first: LaunchError | None = None
    settled = dict(call.axes)
    for point, origin, why in _points(call, reasons):
        call.axes = dict(point)
        reasons.append(why)
        try:
            call.check_contract()
            considered = select_variant(call)
        except (LayoutError, RequirementError, VariantError) as error:
            first = first or error
            reasons.append(f"passed over: {error.what.splitlines()[0]}")
            continue
        sources = {axis: origins[axis] if axis in settled else origin for axis in call.axes}
        return Settled(considered=considered, origins=sources, reasons=tuple(reasons))
    call.axes = settled
    raise first or no_variant(contract, settled)


def _points(call: Call, reasons: list[str]) -> Iterator[tuple[Point, str, str]]:
    """Yield the points that a call may take, best first, with source and reason."""
    contract, settled = call.contract, dict(call.axes)
    seen: list[Point] = []
    if contract.table is not None:
        tuned, why = _look_up(call)
        if tuned is None:
            reasons.append(why)
        elif not contract.matching(dict(tuned)):
            reasons.append(f"{why}; the bundle has no variant there")
        else:
            seen.append(_ordered(contract, dict(tuned)))
            yield seen[0], "the tuning table's", why
    for point, origin, why in _by_rule(call, settled, reasons):
        if point not in seen:
            seen.append(point)
            yield point, origin, why
    default = dict(settled)
    try:
        settle_axes(contract, default, {})
    except VariantError as error:
        reasons.append(f"no default: {error.what}")
    else:
        point = _ordered(contract, default)
        if point not in seen:
            seen.append(point)
            yield point, "the default", f"so the default is tried: {_point_text(point)}"
    for variant in contract.info.variants:
        if variant.axes not in seen and same_point(variant.axes, settled):
            seen.append(variant.axes)
            yield variant.axes, "what fits", f"so the next that may fit is tried: {variant.id}"


def _by_rule(
    call: Call, settled: Mapping[str, AxisValue], reasons: list[str]
) -> Iterator[tuple[Point, str, str]]:
    """Yield the points of the rules that hold, in order."""
    contract = call.contract
    for number, (when, take) in enumerate(contract.rules, 1):
        name = (
            f"dispatch rule {number}" if when is None else f"dispatch rule {number}, {when.text},"
        )
        call.axes = dict(settled)
        call.open()
        try:
            holds = when is None or bool(call.evaluate(when))
        except RequirementError as error:
            none = (
                [
                    p.name
                    for p in contract.params
                    if p.optional and p.name in when.names and p.name not in call.tensors
                ]
                if when
                else []
            )
            reasons.append(f"{name} cannot say: {f'{none[0]} is None' if none else error.what}")
            continue
        if not holds:
            reasons.append(f"{name} does not hold")
            continue
        points = {
            variant.axes: None
            for variant in contract.info.variants
            if same_point(variant.axes, settled)
        }
        points = {point: None for point in points if same_point(point, dict(take))}
        if not points:
            reasons.append(
                f"{name} holds, and says {_point_text(take)}, which was not built with what is settled already"
            )
        # Prefer the point with the defaults of the axes that neither arguments nor rule set.
        for point in sorted(
            points,
            key=lambda point: not same_point(point, {**contract.default, **settled, **dict(take)}),
        ):
            yield point, f"dispatch rule {number}'s", f"{name} holds: {_point_text(point)}"


def _look_up(call: Call) -> tuple[Point | None, str]:
    contract, settled = call.contract, call.axes
    table, device = contract.table, call.site.device
    assert table is not None
    call.open()
    sizes: list[Any] = []
    for size in contract.sizes:
        try:
            value: Any = call.evaluate(size)
        except RequirementError as error:
            return None, f"{table.source} cannot say: {error.what}"
        if not isinstance(value, int | TracedInt):  # fall back, rather than refuse the launch
            return None, f"{table.source} cannot say: {size.text} is {value!r}, no whole number"
        sizes.append(value)
    return look_up(
        table,
        device=device.name,
        cc=device.cc,
        multiprocessors=device.multiprocessors,
        sizes=sizes,
        fits=lambda point: same_point(point, settled),
    )


def _point_text(point: Point) -> str:
    return ", ".join(f"{name}={value}" for name, value in point) or "the only point"


def _ordered(contract: Contract, axes: Mapping[str, AxisValue]) -> Point:
    """Return a point with its axes in the order of the kernel's variants."""
    return tuple((name, axes[name]) for name, _ in contract.info.axes)
