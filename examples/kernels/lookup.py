"""Kernels whose places are data: embedding, appending to a KV cache, the largest k of a row. Every index that is read is checked."""

import tilec.lang as tl

T = tl.dtype("T")
ROWS = tl.size("ROWS")
COLS = tl.size("COLS")
K = tl.size("K")


@tl.kernel
@tl.preconditions("dim(ids, 0) == dim(y, 0)", "dim(y, 1) == dim(table, 1)")
def embedding(y: tl.Mut[T, (1, COLS)], table: tl.Ref[T, 2], ids: tl.Ref[tl.int32, 1]) -> None:
    """y[i] = table[ids[i]]; an id that the table does not have gives zeros."""
    i, j = y.index
    row = ids.load_tile((i,), (1,)).item()
    y.store(table.load_tile((row, j), (1, COLS)))


@tl.kernel
@tl.preconditions("dim(new, 0) == dim(cache, 0)", "dim(start, 0) == dim(cache, 0)", "dim(new, 2) == dim(cache, 2)")
def kv_append(cache: tl.SpanMut[T, (1, 1, COLS), 1], new: tl.Ref[T, 3], start: tl.Ref[tl.int32, 1]) -> None:
    """cache[i, start[i] + t] = new[i, t] for each sequence i; what would lie outside of the cache is left out."""
    i, _, j = cache.index
    at = start.load_tile((i,), (1,)).item()
    for t in range(new.num_tiles(1, 1)):
        cache.store_tile(at + t, new.load_tile((i, t, j), (1, 1, COLS)))


@tl.kernel
@tl.preconditions("places.shape == values.shape", "dim(values, 1) == cdiv(dim(x, 1), COLS) * K", "dim(values, 0) == dim(x, 0)", "K <= COLS")
def top_k(values: tl.Mut[tl.float32, (1, K)], places: tl.Mut[tl.int32, (1, K)], x: tl.Ref[T, 2]) -> None:
    """The K largest of each COLS elements of a row, largest first, and where they stand in the row."""
    row, part = values.index
    left = x.load_tile((row, part), (1, COLS), padding=tl.Padding.NEG_INF).astype(tl.float32)
    found, place = _largest(left)
    values.store(found)
    places.store(place + part * COLS)


@tl.kernel
@tl.preconditions(
    "places.shape == values.shape", "among.shape == x.shape", "dim(values, 1) == K", "dim(x, 1) <= COLS", "dim(values, 0) == dim(x, 0)"
)
def top_k_merge(
    values: tl.Mut[tl.float32, (1, K)], places: tl.Mut[tl.int32, (1, K)], x: tl.Ref[tl.float32, 2], among: tl.Ref[tl.int32, 2]
) -> None:
    """The K largest of what `top_k` found in all parts of a row."""
    row, _ = values.index
    left = x.load_tile((row, 0), (1, COLS), padding=tl.Padding.NEG_INF)
    found, place = _largest(left)
    values.store(found)
    places.store(among.gather((tl.zeros((1, K), tl.int32) + row, place)))


def _largest(left: tl.Tile) -> tuple[tl.Tile, tl.Tile]:
    """The K largest of a tile of one row, and their places: the largest is taken out K times."""
    column = tl.expand_dims(tl.arange(COLS, dtype=tl.int32), 0)
    slot = tl.expand_dims(tl.arange(K, dtype=tl.int32), 0)
    found = tl.full((1, K), -float("inf"), tl.float32)
    place = tl.zeros((1, K), tl.int32)
    for k in range(K):
        top = tl.max(left, 1, keepdims=True)
        where = tl.argmax(left, 1, keepdims=True)
        found = tl.where(slot == k, top, found)
        place = tl.where(slot == k, where, place)
        left = tl.where(column == where, -float("inf"), left)
    return found, place
