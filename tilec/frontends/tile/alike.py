"""Derive extents that a launch must have equal, from tiles that are combined elementwise."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tilec.frontends.tile.safe import OUTPUTS, OWNED, Access, SafeParam
from tilec.frontends.tile.values import Count, number
from tilec.model.alike import Alike


def of_access(
    param: SafeParam,
    places: Sequence[tuple[Any, str | None]],
    params: Sequence[SafeParam],
    *,
    like: bool,
) -> Iterator[Alike]:
    """Yield the extents that one access makes equal.

    Args:
        param: the array.
        places: for each axis the tile's index and extent, as far as they are known.
        params: all parameters of the kernel.
        like: the tile is that of an output's region. Elsewhere, tiles of one element are look-ups
            by number.
    """
    for axis, (value, size) in enumerate(places):
        index = number(value)
        if index is None or size is None or (size == "1" and not like):
            continue
        one, count = (param.name, axis), index.below
        if isinstance(count, Count):
            unless = _other_extent(size, count.size)
            if one != (count.param, count.axis) and unless is not None:
                yield Alike(one=one, other=(count.param, count.axis), unless=unless)
        elif count.isdigit() and not index.divisors and param.access is Access.REF:
            end = size if count == "1" else f"{count} * {size}"
            unless = f"{param.name}.shape[{axis}] >= {end}"
            names = {size, *re.findall(r"[A-Za-z_]\w*", size)}
            for output in params:
                for k, extent in enumerate(output.tile):
                    if output.access in OUTPUTS and extent in names:
                        yield Alike(one=one, other=(output.name, k), unless=unless, fixed=True)


def of_outputs(params: Sequence[SafeParam]) -> Iterator[Alike]:
    """Yield the extents of outputs that the grid divides into the same number of tiles."""
    owned = [param for param in params if param.access in OWNED]
    first = max(owned, key=lambda param: param.rank, default=None)
    for param in owned:
        for axis in range(param.rank):
            if first is None or param is first or axis in (param.axis, first.axis):
                continue
            unless = _other_extent(param.tile[axis], first.tile[axis])
            if unless is not None:
                yield Alike(one=(param.name, axis), other=(first.name, axis), unless=unless)


def _other_extent(one: str, other: str) -> str | None:
    """Return the condition under which two tile extents differ: None for always, empty for never."""
    if one == other:
        return ""
    return None if one.isdigit() and other.isdigit() else f"{one} != {other}"
