"""Kernels whose places are data: embedding, appending to a KV cache, the largest k of a row. Every
index that is read is checked.
"""

import tilec.lang as tl

T = tl.dtype("T")
ROWS = tl.size("ROWS")
COLS = tl.size("COLS")
PEAKS = tl.size("PEAKS")
K = tl.size("K")
NONE = -(2**63)  # the key of what is no number


@tl.kernel
@tl.preconditions("dim(ids, 0) == dim(y, 0)", "dim(y, 1) == dim(table, 1)")
def embedding(y: tl.Mut[T, (1, COLS)], table: tl.Ref[T, 2], ids: tl.Ref[tl.int32, 1]) -> None:
    """y[i] = table[ids[i]]; an id that the table does not have gives zeros."""
    i, j = y.index
    row = ids.load_tile((i,), (1,)).item()
    y.store(table.load_tile((row, j), (1, COLS)))


@tl.kernel
@tl.preconditions(
    "dim(new, 0) == dim(cache, 0)", "dim(start, 0) == dim(cache, 0)", "dim(new, 2) == dim(cache, 2)"
)
def kv_append(
    cache: tl.SpanMut[T, (1, 1, COLS), 1], new: tl.Ref[T, 3], start: tl.Ref[tl.int32, 1]
) -> None:
    """cache[i, start[i] + t] = new[i, t] for each sequence i; what would lie outside of the cache
    is left out.
    """
    i, _, j = cache.index
    at = start.load_tile((i,), (1,)).item()
    for t in range(new.num_tiles(1, 1)):
        cache.store_tile(at + t, new.load_tile((i, t, j), (1, 1, COLS)))


@tl.kernel
@tl.preconditions(
    "dim(peaks, 0) == dim(x, 0)", "dim(peaks, 1) == cdiv(dim(x, 1), GROUP)", "PART == PEAKS * GROUP"
)
def group_peaks(
    peaks: tl.Mut[tl.float32, (1, PEAKS)],
    x: tl.Ref[T, 2],
    PART: tl.Const[int],
    GROUP: tl.Const[int],
) -> None:
    """The largest of each GROUP elements of a row: the first step of `top_k`."""
    row, part = peaks.index
    values = x.load_tile(
        (row, part), (1, PART), padding=tl.Padding.NEG_INF, allow_tma=False
    ).astype(tl.float32)
    peaks.store(tl.max(tl.reshape(values, (1, PEAKS, GROUP)), 2), allow_tma=False)


@tl.kernel
@tl.preconditions(
    "places.shape == values.shape",
    "dim(values, 0) == dim(x, 0)",
    "dim(values, 1) == K",
    "dim(peaks, 0) == dim(x, 0)",
    "dim(peaks, 1) == cdiv(dim(x, 1), GROUP)",
    "dim(peaks, 1) <= COLS",
)
def top_k(
    values: tl.Mut[tl.float32, (1, K)],
    places: tl.Mut[tl.int32, (1, K)],
    x: tl.Ref[T, 2],
    peaks: tl.Ref[tl.float32, 2],
    GROUP: tl.Const[int],
) -> None:
    """The K largest of each row, largest first, and where they stand; of equal ones, those that
    stand first. `peaks` are its groups'.

    The K groups with the largest peaks hold the K largest elements: no others are looked at.
    """
    row, _ = values.index
    column = tl.expand_dims(tl.arange(COLS, dtype=tl.int32), 0)
    groups = _largest(
        _keys(peaks.load_tile((row, 0), (1, COLS), allow_tma=False), column, peaks.shape[1])
    )
    inside = tl.reshape(tl.arange(GROUP, dtype=tl.int32), (1, 1, GROUP))
    place = tl.reshape(tl.reshape(_places(groups), (1, K, 1)) * GROUP + inside, (1, K * GROUP))
    some = x.gather((tl.zeros((1, K * GROUP), tl.int32) + row, place)).astype(tl.float32)
    found = _largest(_keys(some, place, x.shape[1]))
    values.store(_numbers(found), allow_tma=False)
    places.store(_places(found), allow_tma=False)


def _keys(numbers: tl.Tile, places: tl.Tile, end: int) -> tl.Tile:
    """Keys that are ordered as the numbers are and, where those are equal, as the places are
    backwards; NONE for NaN and behind the end.
    """
    bits = tl.bitcast(numbers, tl.int32)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    key = (ordered.astype(tl.int64) << 32) | (2147483647 - places).astype(tl.int64)
    return tl.where((numbers == numbers) & (places >= 0) & (places < end), key, NONE)


def _largest(left: tl.Tile) -> tl.Tile:
    """The K largest keys, largest first: keys differ, so that each is taken out alone."""
    slot = tl.expand_dims(tl.arange(K, dtype=tl.int32), 0)
    found = tl.full((1, K), NONE, tl.int64)
    for k in range(K):
        top = tl.max(left, 1, keepdims=True)
        found = tl.where(slot == k, top, found)
        left = tl.where(left == top, NONE, left)
    return found


def _places(keys: tl.Tile) -> tl.Tile:
    return tl.where(keys == NONE, -1, 2147483647 - (keys & 0xFFFFFFFF).astype(tl.int32))


def _numbers(keys: tl.Tile) -> tl.Tile:
    ordered = (keys >> 32).astype(tl.int32)
    return tl.where(
        keys == NONE,
        -float("inf"),
        tl.bitcast(ordered ^ ((ordered >> 31) & 0x7FFFFFFF), tl.float32),
    )
