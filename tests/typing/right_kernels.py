"""Kernels in the safe tile language that both type checkers accept; with `Annotated` mypy needs no
plugin.
"""

import dataclasses
from typing import Annotated

import tilec.lang as tl

T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")


@dataclasses.dataclass(frozen=True)
class Running:
    """A helper dataclass, as kernels may have."""

    peak: tl.Tile
    total: tl.Tile

    def with_tile(self, tile: tl.Tile) -> "Running":
        peak = tl.maximum(self.peak, tl.max(tile, 1, keepdims=True))
        return Running(
            peak,
            self.total * tl.exp2(self.peak - peak) + tl.sum(tl.exp2(tile - peak), 1, keepdims=True),
        )


@tl.kernel(occupancy=2)
@tl.preconditions("dim(x, 0) == dim(z, 0)")
def normalize(
    z: Annotated[tl.Mut, T, (BM, BN)],
    x: Annotated[tl.Ref, T, 2],
    by: Annotated[float, tl.float64] = 2.0,
    BK: tl.Const[int] = 64,
) -> None:
    """Uses most of what there is."""
    row, column = z.index
    found = Running(tl.full((BM, 1), -1e30, tl.float32), tl.zeros((BM, 1), tl.float32))
    for k in range(x.num_tiles(1, BK)):
        found = found.with_tile(
            x.load_tile((row, k), (BM, BK), padding=tl.Padding.NEG_INF).astype(tl.float32)
        )
    tile = tl.exp2(x.load_tile((row, column), z.tile_shape) - found.peak) / found.total
    z.store(
        (
            tile * by + x.load_tile_like(z, broadcast=0) + tl.load_tile_like(x, z, broadcast=(0, 1))
        ).astype(T)
    )


@tl.kernel
def shares(
    c: Annotated[tl.MappedMut, T, (BM, BN), 8], a: Annotated[tl.Ref, T, 2], p: Annotated[tl.Ptr, T]
) -> None:
    """A persistent kernel."""
    for number in c.tiles:
        at = c.place(number)
        m, n = at.index
        c.store(
            at,
            c.load(at)
            + a.load_tile((m, n), (BM, BN))
            + a.gather((tl.arange(BM, dtype=tl.int32), tl.arange(BN, dtype=tl.int32))),
        )
        c.store(at, 0.0)
