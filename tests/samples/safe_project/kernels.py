"""Kernels in the safe tile language, and one that is not."""

import cuda.tile as ct

import tilec.lang as tl

T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")


@tl.kernel
@tl.preconditions("dim(x, 1) == dim(z, 1)")
# A comment between decorators and function is nobody's business.
def add(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2]) -> None:
    """z = x + y."""
    z.store(x.load_tile_like(z) + tl.load_tile_like(y, z))


def step(acc: tl.Tile, a: tl.Tile, b: tl.Tile) -> tl.Tile:
    return tl.mma(a, b, acc)


@tl.kernel(occupancy=2)
def gemm(c: tl.Mut[T, (BM, BN)], a: tl.Ref[T, 2], b: tl.Ref[T, 2], BK: tl.Const[int] = 32) -> None:
    """c = a @ b."""
    m, n = c.index
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(a.num_tiles(1, BK)):
        acc = step(acc, a.load_tile((m, k), (BM, BK)), b.load_tile((k, n), (BK, BN)))
    c.store(acc.astype(T))


@tl.kernel
def persistent(c: tl.MappedMut[T, (BM, BN), 8], a: tl.Ref[T, 2], b: tl.Ref[T, 2], BK: tl.Const[int]) -> None:
    """c = a @ b, by blocks that stay."""
    for tile in c.tiles:
        at = c.place(tile)
        m, n = at.index
        acc = tl.zeros(c.tile_shape, tl.float32)
        for k in range(a.num_tiles(1, BK)):
            acc = tl.mma(a.load_tile((m, k), (BM, BK)), b.load_tile((k, n), (BK, BN)), acc)
        c.store(at, acc.astype(c.dtype))


@tl.kernel
def scale_in_place(z: tl.MappedMut[tl.float32, (8, 4, 2)], by: float = 3.0) -> None:
    """z = z * by."""
    for tile in z.tiles:
        z.store(z.place(tile), z.load(z.place(tile)) * by)


@tl.kernel
def shifted(z: tl.Mut[tl.float32, 128], x: tl.Ref[tl.float32, 1], by: int, scale: float = 2.0) -> None:
    """z = 2 x, some tiles further on."""
    (i,) = z.index
    z.store(x.load_tile((i - by,), (128,), padding=tl.Padding.NEG_INF) * scale)


@ct.kernel
def plain(z, x):
    """z = x."""
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (128,)))
