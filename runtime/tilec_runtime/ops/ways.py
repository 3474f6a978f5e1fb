"""The way of a launch without a bundle to the driver: bound once for launches that differ in nothing but their numbers and addresses."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.modules import KernelFunction, size_of
from tilec_runtime.packing import Block
from tilec_runtime.plans import MOST_PLANS
from tilec_runtime.scalars import format_of
from tilec_runtime.seam import LaunchCall, LaunchParts, LaunchShape, TensorPart

# What an argument is, but for its value: the dtype of a number (`ptr` of an address), or what is known of a tensor.
Kind = str | TensorPart


class Way:
    """What enqueues launches of one shape on one stream, with arguments of the same kinds.

    Attributes:
        call: the driver's. pack: writes the arguments into a block's values. blocks: those that no launch uses at the moment.
    """

    __slots__ = ("_offsets", "_size", "blocks", "call", "pack")

    def __init__(self, ctx: ExecutionContext, function: KernelFunction, shape: LaunchShape, kinds: tuple[Kind, ...]) -> None:
        """Bind a launch, and lay out its arguments."""
        layout, offsets, sizes, end = "=", [], [], 0
        for kind in kinds:
            size, code = (size_of(kind), format_of(kind)) if isinstance(kind, str) else (8, "Q")
            gap = -end % size
            layout += f"{gap}x{code}" if gap else code
            offsets.append(end + gap)
            sizes.append(size)
            end += gap + size
        parts = LaunchParts(
            kernel=function.symbol,
            sizes=tuple(sizes),
            addresses=tuple((place, f"argument {place}") for place, kind in enumerate(kinds) if kind == "ptr"),
            tensors=tuple(kind for kind in kinds if not isinstance(kind, str)),
        )
        ctx.driver.adopt(ctx.device)  # the launches of other threads are refused without a context, and get it then
        self.call: LaunchCall = ctx.driver.bind_launch(ctx.device, function.handle, shape, ctx.stream, parts)
        self.pack = struct.Struct(layout).pack_into
        self.blocks: list[Block] = []
        self._offsets, self._size = tuple(offsets), end

    def block(self) -> Block:
        """Memory for one more launch in flight."""
        return Block(bytes(self._size), self._offsets)


def enqueue(
    ctx: ExecutionContext,
    function: KernelFunction,
    shape: LaunchShape,
    ways: dict[tuple[Any, ...], Way],
    kinds: tuple[Kind, ...],
    packed: Sequence[Any],
    keep: object,
) -> None:
    """Enqueue a launch.

    Args:
        ctx: where.
        function: what, of a shape that it has on this device.
        shape: its shape.
        ways: what enqueued launches of that shape before.
        kinds: what the arguments are.
        packed: their values, as they are packed; of tensors the addresses.
        keep: what has to live until the launch is done, for drivers that see to that.

    Raises:
        TilecError: the driver refuses it.
    """
    driver = ctx.driver
    way = ways.get((ctx.stream, kinds))
    if way is None:
        way = Way(ctx, function, shape, kinds)
        others = list(function.ways.values())
        if sum(map(len, others)) >= MOST_PLANS:
            for each in others:
                each.clear()
        ways[ctx.stream, kinds] = way
    try:
        block = way.blocks.pop()
    except IndexError:
        block = way.block()
    way.pack(block.values, 0, *packed)
    held: Any = 0
    if driver.holds_arguments:
        held = (tuple(value for kind, value in zip(kinds, packed, strict=True) if not isinstance(kind, str)), keep)
    call = way.call
    result = call(block.address, held)[0]
    if result:
        driver.launch_failed(ctx.device, result, ctx.stream, lambda: call(block.address, held)[0], function.symbol)
    way.blocks.append(block)
