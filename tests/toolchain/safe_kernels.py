"""Pairs of kernels, in the safe language and as one would write them in cuda.tile: what both
compile to is held side by side.
"""

HEAD = """
import cuda.tile as ct

import tilec.lang as tl

T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")
ZERO = ct.PaddingMode.ZERO
"""

ADD = """
@tl.kernel
def safe(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2]):
    z.store(x.load_tile_like(z) + tl.load_tile_like(y, z))


@ct.kernel
def plain(z, x, y, BM: ct.Constant[int], BN: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    a = ct.load(x, (i, j), (BM, BN), padding_mode=ZERO)
    b = ct.load(y, (i, j), (BM, BN), padding_mode=ZERO)
    ct.store(z, (i, j), a + b)
"""

SOFTMAX = """
@tl.kernel
def safe(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2]):
    logits = x.load_tile_like(z, padding=tl.Padding.NEG_INF)
    weight = tl.exp2((logits - tl.max(logits, 1, keepdims=True)) * 1.4426950408889634)
    z.store(weight / tl.sum(weight, 1, keepdims=True))


@ct.kernel
def plain(z, x, BM: ct.Constant[int], BN: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    logits = ct.load(x, (i, j), (BM, BN), padding_mode=ct.PaddingMode.NEG_INF)
    weight = ct.exp2((logits - ct.max(logits, 1, keepdims=True)) * 1.4426950408889634)
    ct.store(z, (i, j), weight / ct.sum(weight, 1, keepdims=True))
"""

GEMM = """
@tl.kernel
def safe(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2], BK: tl.Const[int]):
    m, n = z.index
    acc = tl.zeros(z.tile_shape, tl.float32)
    for k in range(x.num_tiles(1, BK)):
        acc = tl.mma(x.load_tile((m, k), (BM, BK)), y.load_tile((k, n), (BK, BN)), acc)
    z.store(acc.astype(T))


@ct.kernel
def plain(z, x, y, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]):
    m, n = ct.bid(0), ct.bid(1)
    acc = ct.zeros((BM, BN), ct.float32)
    for k in range(ct.cdiv(x.shape[1], BK)):
        a = ct.load(x, (m, k), (BM, BK), padding_mode=ZERO)
        b = ct.load(y, (k, n), (BK, BN), padding_mode=ZERO)
        acc = ct.mma(a, b, acc)
    ct.store(z, (m, n), acc.astype(z.dtype))
"""

PERSISTENT = """
@tl.kernel
def safe(z: tl.MappedMut[T, (BM, BN), 8], x: tl.Ref[T, 2], y: tl.Ref[T, 2], BK: tl.Const[int]):
    for tile in z.tiles:
        at = z.place(tile)
        m, n = at.index
        acc = tl.zeros(z.tile_shape, tl.float32)
        for k in range(x.num_tiles(1, BK)):
            acc = tl.mma(x.load_tile((m, k), (BM, BK)), y.load_tile((k, n), (BK, BN)), acc)
        z.store(at, acc.astype(T))


@ct.kernel
def plain(z, x, y, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]):
    rows, columns = ct.cdiv(z.shape[0], BM), ct.cdiv(z.shape[1], BN)
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        first = tile // (8 * columns) * 8
        height = min(rows - first, 8)
        inside = tile % (8 * columns)
        m, n = first + inside % height, inside // height
        acc = ct.zeros((BM, BN), ct.float32)
        for k in range(ct.cdiv(x.shape[1], BK)):
            a = ct.load(x, (m, k), (BM, BK), padding_mode=ZERO)
            b = ct.load(y, (k, n), (BK, BN), padding_mode=ZERO)
            acc = ct.mma(a, b, acc)
        ct.store(z, (m, n), acc.astype(z.dtype))
"""

PAIRS = {
    "add": (ADD, "f32", ("x", "y", "z"), {"BM": 16, "BN": 64}),
    "softmax": (SOFTMAX, "f32", ("x", "z"), {"BM": 8, "BN": 1024}),
    "gemm": (GEMM, "f16", ("x", "y", "z"), {"BM": 128, "BN": 128, "BK": 64}),
    "persistent": (PERSISTENT, "f16", ("x", "y", "z"), {"BM": 128, "BN": 128, "BK": 64}),
}
