"""What a kernel of the safe language holds: `Ref`, which only reads, and `Mut`, a block's own
region of an output.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import cuda.tile as ct

from tilec.lang.bounds import ZERO, broadcast_at, load_begun, load_inside, ragged, store_begun
from tilec.lang.marks import annotated

if TYPE_CHECKING:
    from tilec.lang.ops import DType, Index, Operand, Padding, Tile


@dataclasses.dataclass(frozen=True)
class Array:
    """What all parameters share: an array, the known divisors of its extents, and whether accesses
    check where their tiles lie.
    """

    _tl_array: Any
    _tl_divisors: tuple[int, ...]
    _tl_checked: bool

    def __class_getitem__(cls, found: Any) -> Any:
        """`Mut[T, (BM, BN)]`, `Ref[T, 2]`: dtype, and tile or rank."""
        return annotated(cls, found)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole array."""
        return self._tl_array.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> DType:
        """Dtype of its elements."""
        return self._tl_array.dtype  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class Region(Array):
    """A block's own part of an output: one tile, or all tiles along an axis."""

    _tl_index: tuple[int, ...]
    _tl_tile: tuple[int, ...]

    @property
    def index(self) -> tuple[int, ...]:
        """Tile index of the region's first tile, one number per dimension."""
        return self._tl_index

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Extents of a tile, as compile-time constants."""
        return self._tl_tile

    def num_tiles(self, axis: int) -> int:
        """Number of tiles along an axis, of all blocks."""
        return ct.cdiv(self._tl_array.shape[axis], self._tl_tile[axis])  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class Mut(Region):
    """One tile-shaped region of an output, which no other block has: `z: tl.Mut[T, (BM, BN)]`.

    The grid of a launch follows from it: block (i, j) owns tile (i, j). Where the output's extents
    are no multiples of the tile's, the last regions hang over: what lies outside is padding for
    loads, and is not stored.
    """

    @property
    def whole(self) -> bool:
        """Whether no region hangs over the output's end: a compile-time constant, true where the
        variant's facts say so.
        """
        return not ct.static_eval(ragged(self._tl_tile, self._tl_divisors))

    def load(
        self, *, padding: Padding = ZERO, latency: int | None = None, allow_tma: bool | None = None
    ) -> Tile:
        """What the region holds now."""
        return load_begun(  # type: ignore[no-any-return]
            self._tl_array,
            self._tl_divisors,
            self._tl_index,
            self._tl_tile,
            padding,
            latency,
            allow_tma,
        )

    def store(
        self, tile: Operand, *, latency: int | None = None, allow_tma: bool | None = None
    ) -> None:
        """Write the region; a scalar, or a tile of fewer elements, is broadcast."""
        store_begun(
            self._tl_array,
            self._tl_divisors,
            self._tl_index,
            self._tl_tile,
            tile,
            latency,
            allow_tma,
        )


@dataclasses.dataclass(frozen=True)
class Ref(Array):
    """An array that the kernel only reads, any tile of it: `x: tl.Ref[T, 2]` has two dimensions."""

    def num_tiles(self, axis: int, size: int) -> int:
        """Number of tiles of an extent along an axis; the last may hang over."""
        return ct.cdiv(self._tl_array.shape[axis], size)  # type: ignore[no-any-return]

    def load_tile(
        self,
        index: tuple[int | Tile, ...],
        shape: Index,
        *,
        padding: Padding = ZERO,
        unchecked: bool = False,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> Tile:
        """A tile of the array, by its index among tiles of this shape; elements outside of the
        array are padding.

        Args:
            index: one number per dimension.
            shape: the tile's extents, compile-time constants.
            padding: what elements outside of the array hold.
            unchecked: the caller promises that the tile has an element in the array, and nothing
                checks it.
            latency: how heavy the memory traffic is, 1 to 10, for the compiler.
            allow_tma: False keeps the compiler from using TMA.
        """
        return load_inside(  # type: ignore[no-any-return]
            self._tl_array,
            self._tl_divisors,
            self._tl_checked and not unchecked,
            index,
            shape,
            padding,
            latency,
            allow_tma,
        )

    def load_tile_like(
        self,
        other: Mut,
        *,
        broadcast: int | tuple[int, ...] = (),
        padding: Padding = ZERO,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> Tile:
        """The tile at the place, and of the shape, of a block's own region. A launch has to give
        both arrays the same shape.

        Args:
            other: the output.
            broadcast: axes along which the array has one element, and so has the tile: compile-time
                constants.
            padding: what elements outside of the array hold.
            latency: how heavy the memory traffic is, 1 to 10, for the compiler.
            allow_tma: False keeps the compiler from using TMA.
        """
        index, shape = (
            broadcast_at(other.index, broadcast, 0),
            broadcast_at(other.tile_shape, broadcast, 1),
        )
        return load_inside(  # type: ignore[no-any-return]
            self._tl_array,
            self._tl_divisors,
            self._tl_checked,
            index,
            shape,
            padding,
            latency,
            allow_tma,
        )

    def nearest(self, index: int | Tile, axis: int, size: int) -> int:
        """A tile index along an axis that is one of the array's: `index`, or else the first or the
        last.
        """
        return max(min(index, ct.cdiv(self._tl_array.shape[axis], size) - 1), 0)  # type: ignore[no-any-return]

    def gather(self, indices: Any, *, mask: Tile | None = None, padding_value: float = 0) -> Tile:
        """Single elements, by one tile of indices per dimension; those outside of the array are
        `padding_value`.
        """
        return ct.gather(self._tl_array, indices, mask=mask, padding_value=padding_value)  # type: ignore[no-any-return]


class Ptr:
    """Unsafe: an array that the kernel reads and writes as it likes, with the operations of
    cuda.tile: `p: tl.Ptr[T]`, `tl.Ptr[T, 2]`.

    Inside of the kernel it is the array itself. Nothing keeps blocks from writing the same element;
    `tilec inspect --safety` says so.
    """

    def __class_getitem__(cls, found: Any) -> Any:
        """`Ptr[T]`, `Ptr[T, 2]`: dtype and rank."""
        return annotated(cls, found)
