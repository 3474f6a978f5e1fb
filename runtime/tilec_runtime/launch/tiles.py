"""Checks of kernels whose blocks own regions of outputs: grid and partitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilec_runtime.device.seam import Dim3, GridRule, GridWish
from tilec_runtime.errors import LaunchLimitError, LayoutError
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.limits import MOST_TILES, refused
from tilec_runtime.model.expr import parse
from tilec_runtime.model.safety import Region


def settle_grid(kernel: str, own: Dim3, wishes: Sequence[GridWish]) -> Dim3:
    """Return the grid of a launch.

    Args:
        kernel: name of the kernel, for messages.
        own: the grid by the kernel's expressions.
        wishes: the caller's wishes. Those for the kernel's own grid come first.

    Raises:
        LaunchLimitError: the wishes disagree with each other or with the grid.
    """
    grid, source = own, "the kernel's own expressions give"
    instead = [wish for wish in wishes if wish.rule is GridRule.INSTEAD]
    # Compare the wishes with each other first: the kernel's expressions read the same tensors, and
    # would explain the mistake less well.
    claims = instead or [wish for wish in wishes if wish.rule is GridRule.EXACTLY]
    for wish in claims[1:]:
        if wish.grid != claims[0].grid:
            raise _disagree(kernel, claims[0].grid, f"{claims[0].source} gives", wish)
    if instead:
        grid, source = instead[0].grid, f"{instead[0].source} gives"
    for wish in wishes:
        if wish.rule is GridRule.EXACTLY and wish.grid != grid:
            raise _disagree(kernel, grid, source, wish)
        if wish.rule is GridRule.AT_MOST and any(
            has > most for has, most in zip(grid, wish.grid, strict=True)
        ):
            raise _disagree(kernel, grid, source, wish)
    return grid


def _disagree(kernel: str, grid: Dim3, source: str, wish: GridWish) -> LaunchLimitError:
    most = " at most" if wish.rule is GridRule.AT_MOST else ""
    return LaunchLimitError(
        f"{kernel}: {source} the launch grid {grid}, and {wish.source} gives {wish.grid}{most}",
        cause="the tensor is cut into other tiles than the kernel's blocks write",
        fix="partition by the kernel's tile, or choose the variant of that tile",
        kernel=kernel,
    )


def check_tiles(call: Call, parted: Sequence[tuple[int, Any]]) -> None:
    """Compare partitions with the tiles that the kernel writes.

    Args:
        call: the call.
        parted: places and values of the arguments that are partitions.

    Raises:
        LayoutError: a tensor is cut into other tiles.
        LaunchLimitError: a partition is mapped to blocks though each of the kernel's blocks owns
            one region, or is not mapped though the blocks share regions.
    """
    regions = {region.param: region for region in _regions(call)}
    for index, value in parted:
        param = call.contract.params[index]
        region = regions.get(param.name)
        if region is None:
            continue
        tile = tuple(int(call.evaluate(parse(extent))) for extent in region.tile)
        if tuple(value.tile) != tile:
            message = f"is cut into tiles of {tuple(value.tile)}, and the kernel's blocks write tiles of {tile}"
            raise call.contract.refuse(
                LayoutError,
                param,
                message,
                f"partition({', '.join(map(str, tile))}), or choose the variant of that tile",
            )
        if value.mapped and not region.mapped:
            raise refused(
                call.contract.name,
                f"{param.name} is dealt out to blocks, and each block of the kernel writes one tile of it",
                "leave map() out",
            )
        if region.mapped and not value.mapped:
            raise refused(
                call.contract.name,
                f"{param.name} is not dealt out to blocks, and the kernel's blocks share its tiles",
                "call map(blocks) on it",
            )


def check_counts(call: Call, grid: Dim3) -> None:
    """Check that kernels can number the tiles of shared outputs in 32 bits.

    A block goes on from one tile to the next by the number of blocks, so the sum has to fit.

    Args:
        call: the call.
        grid: the grid of the launch.

    Raises:
        LaunchLimitError: there are too many tiles.
    """
    for region in _regions(call):
        if not region.mapped:
            continue
        tiles = [
            call.evaluate(parse(f"cdiv({region.param}.shape[{axis}], {size})"))
            for axis, size in enumerate(region.tile)
        ]
        blocks = math.prod(grid)
        if math.prod(tiles) + blocks > MOST_TILES:
            message = f"{region.param} has {' x '.join(map(str, tiles))} tiles for {blocks} blocks, which count to {MOST_TILES} together"
            raise refused(
                call.contract.name, message, "choose larger tiles, or launch on parts of the output"
            )


def check_shares(call: Call, own: Dim3, parted: Sequence[tuple[int, Any]]) -> None:
    """Check that partitions are mapped to as many blocks as the grid has, or more.

    With fewer blocks, tiles stay unwritten unless blocks go on to further tiles. Only blocks of
    kernels that share regions are known to do so.

    Args:
        call: the call.
        own: the kernel's own grid.
        parted: places and values of the arguments that are partitions.

    Raises:
        LaunchLimitError: a partition is mapped to fewer blocks.
    """
    shared = {region.param for region in _regions(call)}
    for index, value in parted:
        name = call.contract.params[index].name
        if not value.mapped or name in shared:
            continue
        kernel = call.contract.name
        blocks = value.grid_wish(name, kernel).grid[0]
        if blocks < math.prod(own):
            raise LaunchLimitError(
                f"{kernel}: {name} is dealt out to {blocks} blocks, and the kernel's own grid {own} has {math.prod(own)}",
                cause="blocks that do not go on to further tiles would leave the rest unwritten, and of this kernel nobody can tell",
                fix=f"leave map() out; where the kernel's blocks do go on, say so: ops.{kernel}(...).grid({blocks})",
                kernel=kernel,
            )


def check_grid(call: Call, own: Dim3, grid: Dim3, *, prefix: bool) -> None:
    """Check that no two blocks own one region on a grid that a caller gives.

    Args:
        call: the call.
        own: the kernel's own grid.
        grid: the grid of the launch.
        prefix: whether the caller declared that only the first tiles are written.

    Raises:
        LaunchLimitError: two blocks would own one region.
    """
    regions = _regions(call)
    if not regions or grid == own:
        return
    fewer = prefix and all(has <= most for has, most in zip(grid, own, strict=True))
    if any(not region.mapped for region in regions):
        if fewer:
            return
        message = f"the grid {grid} is not that of the tiles of {regions[0].param}, {own}: each block owns one of them"
        raise refused(call.contract.name, message, "leave the grid out")
    if grid[1:] != (1, 1):
        message = f"the grid {grid} has more than one dimension, and blocks that share the tiles of {regions[0].param} are numbered along one"
        raise refused(call.contract.name, message, "give a number of blocks")


def _regions(call: Call) -> tuple[Region, ...]:
    safety = call.contract.info.safety
    return safety.regions if safety is not None else ()
