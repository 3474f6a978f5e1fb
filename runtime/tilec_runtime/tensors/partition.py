"""Tensors cut into tiles that a kernel writes, one or several per block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from tilec_runtime.device.layout import Shape
from tilec_runtime.device.scalars import whole
from tilec_runtime.device.seam import GridRule, GridWish, dim3
from tilec_runtime.errors import LaunchLimitError, TensorError
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.interop import Exchanged
from tilec_runtime.tensors.lease import Holder, holder_here
from tilec_runtime.tensors.shapes import checked_packing, checked_shape, grid_of

T = TypeVar("T", bound=Described)


class Partition(Exchanged, Generic[T]):
    """A tensor, or a mutable borrow of one, cut into tiles of one shape.

    Launchers take it for an output, and infer their grid from it.

    Attributes:
        base: the tensor or borrow.
        tile: shape of a tile.
        grid: number of tiles along each dimension; the last one may extend beyond the tensor.
        prefix: whether a kernel with fewer blocks may write only the first tiles.
    """

    __slots__ = ("base", "grid", "prefix", "tile")

    noun = "the partition"
    mapped = False

    def __init__(self, base: T, tile: tuple[Any, ...], *, prefix: bool = False) -> None:
        """Use `Tensor.partition`, or another method that cuts a tensor."""
        super().__init__(base.storage, base.facts, base.lease)
        self.base = base
        self.tile = _tile(tile)
        self.grid = grid_of(base.shape, self.tile)
        self.prefix = prefix

    @staticmethod
    def check(tensor: Described, tile: tuple[Any, ...]) -> None:
        """Check that a tensor can be cut into tiles of this shape, before it is moved.

        Raises:
            TensorError: it cannot.
        """
        extents = _tile(tile)
        grid_of(tensor.shape, extents)
        checked_packing(tensor.dtype, extents)

    @property
    def _tilec_origin_(self) -> str:
        """The base, for messages."""
        return self.base._tilec_origin_

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return math.prod(self.grid)

    def unpartition(self) -> T:
        """Return the base. If the partition owns it, the partition is moved.

        Raises:
            OwnershipError: it was unpartitioned before, it is in use, or the borrow has ended.
        """
        holder = holder_here("unpartition")
        self.base.require(holder)
        return self._moved_base(holder)

    def dup(self) -> DeviceOp[Any]:
        """Return an op that makes a contiguous copy of the base."""
        base: Any = self.base  # a tensor, or a mutable borrow of one
        copy: DeviceOp[Any] = base.dup()
        return copy

    def hold(self, number: int, holder: Holder, *, write: bool) -> None:
        """Move the base into an op."""
        self.base.hold(number, holder, write=write)

    def _moved_base(self, holder: Holder) -> T:
        move = getattr(self.base, "move", None)
        if move is None:
            return self.base
        moved: T = move(holder)
        self.usable = False
        return moved

    def map(self, blocks: int) -> MappedPartition[T]:
        """Map the tiles to a number of blocks, for persistent kernels.

        Each block of such a kernel works on one tile after another.

        Raises:
            TensorError: there are no blocks, more blocks than tiles, or only a prefix is written.
        """
        if self.prefix:
            raise TensorError(
                "a partition of which only a prefix is written cannot be mapped",
                fix="use partition()",
            )
        blocks = whole("map: the number of blocks", blocks, TensorError)
        if not 1 <= blocks <= self.tiles:
            raise TensorError(
                f"{blocks} blocks cannot share {self.tiles} tiles",
                fix=f"pass 1 to {self.tiles} blocks",
            )
        holder = holder_here("map")
        self.base.require(holder)
        return MappedPartition(self._moved_base(holder), self.tile, blocks)

    def grid_wish(self, name: str, kernel: str) -> GridWish:
        """Return the grid of a launch that writes it.

        Args:
            name: name of the launch's argument.
            kernel: name of the kernel, for messages.

        Raises:
            LaunchLimitError: it has more than three dimensions.
        """
        if len(self.grid) > 3:
            message = f"{kernel}: the partition {name} has {len(self.grid)} dimensions, and a grid has three"
            raise LaunchLimitError(message, fix="map() it to a number of blocks", kernel=kernel)
        rule = GridRule.AT_MOST if self.prefix else GridRule.EXACTLY
        return GridWish(grid=dim3(self.grid), rule=rule, source=f"the partition {name}")

    @property
    def cut(self) -> tuple[object, ...]:
        """The facts that distinguish launch plans of differently cut tensors."""
        return self.tile, self.grid, self.prefix

    def release(self) -> None:
        """End a partition in place; do nothing to one that owns its tensor."""
        release = getattr(self.base, "release", None)
        if release is not None:
            release()

    def require(self, holder: Holder) -> None:
        """Check that the base can be used.

        Raises:
            OwnershipError: it cannot.
        """
        self.base.require(holder)

    def __enter__(self) -> Partition[T]:
        """Return the partition itself."""
        enter = getattr(self.base, "__enter__", None)
        if enter is not None:
            enter()
        return self

    def __exit__(self, *_: object) -> None:
        """End a partition in place."""
        self.release()

    def _state(self) -> str:
        return f", tiles of {self.tile}, grid {self.grid}{' at most' if self.prefix else ''}"


class MappedPartition(Partition[T]):
    """A partition whose tiles are mapped to a number of blocks.

    Block b works on tiles b, b + blocks, b + 2 * blocks and so on.

    Attributes:
        blocks: number of blocks; the grid of a launch is (blocks, 1, 1).
    """

    __slots__ = ("blocks",)

    noun = "the mapped partition"
    mapped = True

    def __init__(self, base: T, tile: Shape, blocks: int) -> None:
        """Use `Partition.map`."""
        self.blocks = blocks
        super().__init__(base, tile)

    def grid_wish(self, name: str, kernel: str) -> GridWish:  # noqa: ARG002 - any number of dimensions will do
        """Return a grid of `blocks` blocks, which replaces the kernel's own grid."""
        return GridWish(
            grid=(self.blocks, 1, 1), rule=GridRule.INSTEAD, source=f"the mapped partition {name}"
        )

    @property
    def cut(self) -> tuple[object, ...]:
        return self.tile, self.grid, self.blocks

    def tiles_of(self, block: int) -> Iterator[Shape]:
        """Iterate over the coordinates of a block's tiles, the last dimension fastest.

        Raises:
            TensorError: there is no such block.
        """
        block = whole("tiles_of: the block", block, TensorError)
        if not 0 <= block < self.blocks:
            raise TensorError(
                f"there is no block {block} of a partition that is dealt out to {self.blocks} blocks"
            )
        every = itertools.product(*(range(extent) for extent in self.grid))
        return itertools.islice(every, block, None, self.blocks)


def _tile(tile: tuple[Any, ...]) -> Shape:
    return checked_shape(tile[0] if len(tile) == 1 else tile)
