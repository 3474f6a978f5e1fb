"""Attention forward with an online softmax, causal or not; several heads of queries may share one
of keys and values (GQA).

Heads of all sequences are one dimension: queries are (heads, length, D), keys and values (heads /
GROUP, length, D).
"""

import tilec.lang as tl

T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")
D = tl.size("D")
LOG2_E = 1.4426950408889634


@tl.kernel
@tl.preconditions(
    "o.shape == q.shape",
    "dim(o, 2) == D",
    "k.shape == v.shape",
    "dim(q, 0) == dim(k, 0) * GROUP",
    "dim(q, 1) == dim(k, 1)",
    "dim(q, 2) == D",
    "dim(k, 2) == D",
)
def attention(
    o: tl.MappedMut[T, (1, BM, D), tl.BACKWARD],
    q: tl.Ref[T, 3],
    k: tl.Ref[T, 3],
    v: tl.Ref[T, 3],
    scale: float,
    GROUP: tl.Const[int],
    CAUSAL: tl.Const[bool],
) -> None:
    """o = softmax(q @ k.T * scale) @ v, for each head; the last rows, which look at the most keys,
    are begun first.
    """
    for tile in o.tiles:
        at = o.place(tile)
        head, m, _ = at.index
        queries = tl.reshape(q.load_tile((head, m, 0), (1, BM, D)), (BM, D))
        rows = m * BM + tl.expand_dims(tl.arange(BM, dtype=tl.int32), 1)
        factor = scale * LOG2_E
        acc = tl.zeros((BM, D), tl.float32)
        peak = tl.full((BM, 1), -float("inf"), tl.float32)
        total = tl.zeros((BM, 1), tl.float32)
        tiles = k.num_tiles(1, BN)
        # Tiles of keys that every row of this tile sees whole need no mask; those behind its last
        # row are not looked at.
        whole = min(m * BM // BN, tiles) if CAUSAL else min(k.shape[1] // BN, tiles)
        last = min(tl.cdiv((m + 1) * BM, BN), tiles) if CAUSAL else tiles
        for n in range(whole):
            keys = tl.reshape(k.load_tile((head // GROUP, n, 0), (1, BN, D)), (BN, D))
            score = tl.mma(queries, tl.transpose(keys), tl.zeros((BM, BN), tl.float32))
            top = tl.maximum(peak, tl.max(score, 1, keepdims=True) * factor)
            weight = tl.exp2(score * factor - top, flush_to_zero=True)
            before = tl.exp2(peak - top, flush_to_zero=True)
            total = total * before + tl.sum(weight, 1, keepdims=True)
            values = tl.reshape(v.load_tile((head // GROUP, n, 0), (1, BN, D)), (BN, D))
            acc = tl.mma(weight.astype(T), values, acc * before)
            peak = top
        for edge in range(whole, last):
            keys = tl.reshape(k.load_tile((head // GROUP, edge, 0), (1, BN, D)), (BN, D))
            score = tl.mma(queries, tl.transpose(keys), tl.zeros((BM, BN), tl.float32))
            columns = edge * BN + tl.expand_dims(tl.arange(BN, dtype=tl.int32), 0)
            # What is behind the end is behind the diagonal too, of every row that is stored.
            seen = columns <= rows if CAUSAL else columns < k.shape[1]
            score = tl.where(seen, score, -float("inf"))
            top = tl.maximum(peak, tl.max(score, 1, keepdims=True) * factor)
            weight = tl.exp2(score * factor - top, flush_to_zero=True)
            before = tl.exp2(peak - top, flush_to_zero=True)
            total = total * before + tl.sum(weight, 1, keepdims=True)
            values = tl.reshape(v.load_tile((head // GROUP, edge, 0), (1, BN, D)), (BN, D))
            acc = tl.mma(weight.astype(T), values, acc * before)
            peak = top
        o.store(at, tl.reshape(acc * (1.0 / total), (1, BM, D)).astype(T))
