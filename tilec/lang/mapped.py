"""`MappedMut`: a persistent kernel's share of an output; a block stores to the tiles it owns only."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import cuda.tile as ct

from tilec.lang.arrays import Array
from tilec.lang.bounds import ZERO, load_begun, store_begun

if TYPE_CHECKING:
    from tilec.lang.ops import Operand, Padding, Tile


@dataclasses.dataclass(frozen=True)
class Place:
    """The location of a tile that a block owns, from `MappedMut.place`, for its `load` and `store`."""

    _tl_index: tuple[int, ...]
    _tl_number: int
    _tl_of: int

    @property
    def index(self) -> tuple[int, ...]:
        """The tile's index, one number per dimension."""
        return self._tl_index


@dataclasses.dataclass(frozen=True)
class MappedMut(Array):
    """A block's share of a tiled output: `c: tl.MappedMut[T, (BM, BN)]`.

    Block b owns the tiles numbered b, b + blocks, b + 2 * blocks and so on, for any number of
    blocks:

        for tile in c.tiles:
            at = c.place(tile)
            c.store(at, …)

    Tiles are numbered along the last dimension first. A third argument, as in `tl.MappedMut[T,
    (BM, BN), 8]`, numbers the tiles of a matrix (or of each matrix of a batch) down strips of 8 tile
    rows, so that blocks that run at the same time share their inputs. `tl.BACKWARD` there numbers
    tiles from the last one, to start the longest work first.
    """

    _tl_first: tuple[int]
    _tl_tile: tuple[int, ...]
    _tl_strip: int
    _tl_of: int
    _tl_single: tuple[bool, ...]

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """Extents of a tile, as compile-time constants."""
        return self._tl_tile

    def num_tiles(self, axis: int) -> int:
        """Number of tiles along an axis, of all blocks."""
        # If a precondition fixes the extent to one tile, no division by the count is needed.
        return (
            1
            if ct.static_eval(self._tl_single[axis])
            else ct.cdiv(self._tl_array.shape[axis], self._tl_tile[axis])
        )

    @property
    def tiles(self) -> range:
        """Numbers of the tiles that this block owns."""
        return range(self._tl_first[0], self._total(), ct.num_blocks(0))

    def place(self, tile: int) -> Place:
        """Return the location of a tile by its number in `tiles`."""
        if ct.static_eval(self._tl_strip < 0):
            index: Any = self._in_order(self._total() - 1 - tile)
        elif ct.static_eval(self._tl_strip == 0):
            index = self._in_order(tile)
        elif ct.static_eval(len(self._tl_tile) == 3):
            size = self.num_tiles(1) * self.num_tiles(2)
            index = (
                tile // size,
                *self._in_strips(tile % size, self.num_tiles(1), self.num_tiles(2)),
            )
        else:
            index = self._in_strips(tile, self.num_tiles(0), self.num_tiles(1))
        return Place(index, tile, self._tl_of)

    def load(
        self,
        at: Place,
        *,
        padding: Padding = ZERO,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> Tile:
        """Load a tile of this block."""
        ct.static_assert(at._tl_of == self._tl_of, "the place is one of another output")  # noqa: SLF001 - one language
        if not self._tl_checked or self._owns(at):
            tile = load_begun(
                self._tl_array,
                self._tl_divisors,
                at.index,
                self._tl_tile,
                padding,
                latency,
                allow_tma,
            )
        else:
            tile = ct.zeros(self._tl_tile, self._tl_array.dtype)
        return tile  # type: ignore[no-any-return]

    def store(
        self, at: Place, tile: Operand, *, latency: int | None = None, allow_tma: bool | None = None
    ) -> None:
        """Store a tile of this block; a scalar or a smaller tile is broadcast."""
        ct.static_assert(at._tl_of == self._tl_of, "the place is one of another output")  # noqa: SLF001 - one language
        if not self._tl_checked or self._owns(at):
            store_begun(
                self._tl_array, self._tl_divisors, at.index, self._tl_tile, tile, latency, allow_tma
            )

    def _total(self) -> int:
        total = self.num_tiles(0)
        for axis in ct.static_iter(range(1, len(self._tl_tile))):
            total = total * self.num_tiles(axis)
        return total

    def _owns(self, at: Place) -> Any:
        number = at._tl_number  # noqa: SLF001 - one language
        return (
            (number >= 0)
            & (number < self._total())
            & ((number - self._tl_first[0]) % ct.num_blocks(0) == 0)
        )

    def _in_order(self, tile: int) -> Any:
        # One return: cuda.tile compiles a function with several returns to a loop, which it cannot
        # prove free of side effects.
        if ct.static_eval(len(self._tl_tile) == 1):
            index: Any = (tile,)
        elif ct.static_eval(len(self._tl_tile) == 2):
            index = (tile // self.num_tiles(1), tile % self.num_tiles(1))
        else:
            rest, last = tile // self.num_tiles(2), tile % self.num_tiles(2)
            index = (rest // self.num_tiles(1), rest % self.num_tiles(1), last)
        return index

    def _in_strips(self, tile: int, rows: int, columns: int) -> tuple[int, int]:
        first = tile // (self._tl_strip * columns) * self._tl_strip
        height = min(rows - first, self._tl_strip)
        inside = tile % (self._tl_strip * columns)
        return first + inside % height, inside // height
