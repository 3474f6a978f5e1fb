"""Array parameters of kernels: `Ref` for reading, `Mut` for a block's own region of an output."""

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
    """Base of array parameters: the array, known divisors of its extents, and whether accesses are
    bounds-checked.
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
    """One tile-shaped region of an output, owned by this block: `z: tl.Mut[T, (BM, BN)]`.

    It determines the launch grid: block (i, j) owns tile (i, j). If an extent of the output is not
    a multiple of the tile's extent, the last tile extends past the end: loads pad those elements,
    and stores skip them.
    """

    @property
    def whole(self) -> bool:
        """Whether no region extends past the output's end: a compile-time constant.

        It is true if the variant's divisibility assumptions prove it.
        """
        return not ct.static_eval(ragged(self._tl_tile, self._tl_divisors))

    def load(
        self, *, padding: Padding = ZERO, latency: int | None = None, allow_tma: bool | None = None
    ) -> Tile:
        """Load the region."""
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
        """Store the region; a scalar or a smaller tile is broadcast."""
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
    """A read-only array, of which the kernel may load any tile: `x: tl.Ref[T, 2]` has rank 2."""

    def num_tiles(self, axis: int, size: int) -> int:
        """Return the number of tiles of extent `size` along an axis, a partial last one included."""
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
        """Load a tile by its index among tiles of this shape; elements outside the array are padded.

        Args:
            index: one number per dimension.
            shape: the tile's extents, compile-time constants.
            padding: value of elements outside the array.
            unchecked: skip the bounds check; the caller guarantees that the tile begins in the
                array.
            latency: compiler hint, 1 to 10: how heavy the memory traffic is.
            allow_tma: False prevents the compiler from using TMA.
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
        """Load the tile that has the index and shape of the block's own region of `other`.

        The launcher requires equal shapes of both arrays.

        Args:
            other: the output.
            broadcast: axes with extent 1 in the array and in the tile, compile-time constants.
            padding: value of elements outside the array.
            latency: compiler hint, 1 to 10: how heavy the memory traffic is.
            allow_tma: False prevents the compiler from using TMA.
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
        """Clamp a tile index along an axis to the array's tiles."""
        return max(min(index, ct.cdiv(self._tl_array.shape[axis], size) - 1), 0)  # type: ignore[no-any-return]

    def gather(self, indices: Any, *, mask: Tile | None = None, padding_value: float = 0) -> Tile:
        """Load single elements by one index tile per dimension; outside the array: `padding_value`."""
        return ct.gather(self._tl_array, indices, mask=mask, padding_value=padding_value)  # type: ignore[no-any-return]


class Ptr:
    """Unsafe: an array for unrestricted cuda.tile operations: `p: tl.Ptr[T]`, `tl.Ptr[T, 2]`.

    Inside the kernel it is the cuda.tile array itself. Blocks may race on its elements;
    `tilec inspect --safety` reports that.
    """

    def __class_getitem__(cls, found: Any) -> Any:
        """`Ptr[T]`, `Ptr[T, 2]`: dtype and rank."""
        return annotated(cls, found)
