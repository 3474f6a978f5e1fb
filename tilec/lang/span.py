"""`SpanMut`: a block's own region of an output, all tiles along one axis, stored tile by tile."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import cuda.tile as ct

from tilec.lang.arrays import Region
from tilec.lang.bounds import ZERO, load_inside, store_begun

if TYPE_CHECKING:
    from tilec.lang.ops import Operand, Padding, Tile


@dataclasses.dataclass(frozen=True)
class SpanMut(Region):
    """All tiles of an output along one axis, owned by this block.

    `y: tl.SpanMut[T, (ROWS, BN), 1]` owns whole rows; the third argument is the axis. The grid has
    one block along it, and one for each tile along the other axes:

        for j in range(y.num_tiles(1)):
            y.store_tile(j, …)

    A tile's number counts along the axis. Loads pad elements past the output's end, and stores skip
    them.
    """

    _tl_axis: int

    def load_tile(
        self,
        number: int | Tile,
        *,
        padding: Padding = ZERO,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> Tile:
        """Load a tile of the region; a number outside of it gives padding."""
        return load_inside(  # type: ignore[no-any-return]
            self._tl_array,
            self._tl_divisors,
            self._tl_checked,
            self._at(number),
            self._tl_tile,
            padding,
            latency,
            allow_tma,
        )

    def store_tile(
        self,
        number: int | Tile,
        tile: Operand,
        *,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> None:
        """Store a tile of the region; a number outside of it stores nothing.

        A scalar or a smaller tile is broadcast.
        """
        inside = (number >= 0) & (number < self.num_tiles(self._tl_axis))
        if not self._tl_checked or inside:
            store_begun(
                self._tl_array,
                self._tl_divisors,
                self._at(number),
                self._tl_tile,
                tile,
                latency,
                allow_tma,
            )

    def _at(self, number: int | Tile) -> Any:
        # One return, as in MappedMut._in_order.
        index: Any = ()
        for axis in ct.static_iter(range(len(self._tl_tile))):
            index = (
                (*index, number)
                if ct.static_eval(axis == self._tl_axis)
                else (*index, self._tl_index[axis])
            )
        return index
