"""Kernels with the short spelling of annotations: pyright takes it as it is, mypy with `plugins =
["tilec.mypy"]`.
"""

import tilec.lang as tl

T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")


@tl.kernel
def gemm(c: tl.Mut[T, (BM, BN)], a: tl.Ref[T, 2], b: tl.Ref[T, 2], BK: tl.Const[int]) -> None:
    """c = a @ b."""
    m, n = c.index
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(a.num_tiles(1, BK)):
        acc = tl.mma(a.load_tile((m, k), (BM, BK)), b.load_tile((k, n), (BK, BN)), acc)
    c.store(acc.astype(T))


@tl.kernel
def shares(
    c: tl.MappedMut[tl.float32, (16, BN), 8], p: tl.Ptr[T], n: int, scale: float = 1.0
) -> None:
    """A persistent kernel."""
    for number in c.tiles:
        c.store(c.place(number), scale * n)
