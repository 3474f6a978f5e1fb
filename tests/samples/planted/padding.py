"""Kernels whose results depend on undetermined elements, and next to each one whose do not."""

import cuda.tile as ct

TILE = 16
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def sums_beyond_the_edge(y, x):
    row = ct.load(x, (ct.bid(0), 0), (1, 256))
    ct.store(y, (ct.bid(0),), ct.sum(row, axis=1))


@ct.kernel
def sums_padded_rows(y, x):
    row = ct.load(x, (ct.bid(0), 0), (1, 256), padding_mode=ZERO)
    ct.store(y, (ct.bid(0),), ct.sum(row, axis=1))


@ct.kernel
def sums_masked_rows(y, x):
    inside = ct.reshape(ct.arange(256, dtype=ct.int32), (1, 256)) < x.shape[1]
    row = ct.where(inside, ct.load(x, (ct.bid(0), 0), (1, 256)), 0.0)
    ct.store(y, (ct.bid(0),), ct.sum(row, axis=1))


@ct.kernel
def sums_the_last_tile(y, x):
    # Only the last of its blocks reads beyond the end.
    ct.store(y, (ct.bid(0),), ct.reshape(ct.sum(ct.load(x, (ct.bid(0),), (TILE,))), (1,)))


@ct.kernel
def attends_beyond_the_edge(o, q, k, v):
    # Scores beyond the last key are masked, but 0 times what lies beyond the last value is not 0.
    scores = ct.mma(
        ct.load(q, (0, 0), (16, 16)),
        ct.transpose(ct.load(k, (0, 0), (32, 16))),
        ct.zeros((16, 32), ct.float32),
    )
    inside = ct.reshape(ct.arange(32, dtype=ct.int32), (1, 32)) < k.shape[0]
    weights = ct.exp(ct.where(inside, scores, -1e30))
    values = ct.load(v, (0, 0), (32, 16))
    ct.store(o, (0, 0), ct.mma(weights, values, ct.zeros((16, 16), ct.float32)))


@ct.kernel
def attends_with_padding(o, q, k, v):
    scores = ct.mma(
        ct.load(q, (0, 0), (16, 16)),
        ct.transpose(ct.load(k, (0, 0), (32, 16))),
        ct.zeros((16, 32), ct.float32),
    )
    inside = ct.reshape(ct.arange(32, dtype=ct.int32), (1, 32)) < k.shape[0]
    weights = ct.exp(ct.where(inside, scores, -1e30))
    values = ct.load(v, (0, 0), (32, 16), padding_mode=ZERO)
    ct.store(o, (0, 0), ct.mma(weights, values, ct.zeros((16, 16), ct.float32)))


@ct.kernel
def largest_beyond_the_edge(y, x):
    ct.store(y, (ct.bid(0),), ct.max(ct.load(x, (ct.bid(0), 0), (1, 256)), axis=1))


@ct.kernel
def least_of_masked(y, x):
    inside = ct.reshape(ct.arange(256, dtype=ct.int32), (1, 256)) < x.shape[1]
    ct.store(
        y,
        (ct.bid(0),),
        ct.min(ct.where(inside, ct.load(x, (ct.bid(0), 0), (1, 256)), float("inf")), axis=1),
    )


@ct.kernel
def scales_by_deviation(y, x):
    # Whatever lies beyond the edge, it makes all of this NaN.
    row = ct.load(x, (ct.bid(0), 0), (1, 256))
    off = row - ct.sum(row) / 200.0
    ct.store(y, (ct.bid(0), 0), off * ct.rsqrt(ct.sum(off * off) / 200.0))


@ct.kernel
def adds_up_integers_beyond(y, x):
    ct.store(y, (ct.bid(0),), ct.sum(ct.load(x, (ct.bid(0), 0), (1, 256)), axis=1))


@ct.kernel
def all_are_positive(y, x):
    # Among different values beyond the edge, one is never positive.
    positive = ct.where(ct.load(x, (ct.bid(0),), (TILE,)) > 0.0, 1, 0)
    ct.store(y, (ct.bid(0),), ct.reshape(ct.min(positive), (1,)))


@ct.kernel
def counts_flags(y, x):
    flags = ct.load(x, (ct.bid(0),), (TILE,)).astype(ct.int32)
    ct.atomic_add(y, 0, ct.sum(flags))


@ct.kernel
def counts_flags_inside(y, x):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    flags = ct.load(x, (ct.bid(0),), (TILE,)) & (at < x.shape[0])
    ct.atomic_add(y, 0, ct.sum(flags.astype(ct.int32)))


@ct.kernel
def stores_the_tail(y, x):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) * 2.0)


@ct.kernel
def uses_what_no_atomic_gave(y, x):
    before = ct.atomic_add(x, ct.arange(TILE, dtype=ct.int32), 1)
    ct.store(y, (0,), ct.reshape(ct.sum(before), (1,)))


@ct.kernel
def asserts_of_the_tail(y, x):
    tile = ct.load(x, (ct.bid(0),), (TILE,))
    ct.assert_(tile < 2.0, "x must be small")  # noqa: PT009
    ct.store(y, (ct.bid(0),), tile)


@ct.kernel
def gathers_by_the_tail(y, x, index):
    at = ct.load(index, (ct.bid(0),), (TILE,))
    ct.store(y, (ct.bid(0),), ct.gather(x, at, check_bounds=False))


@ct.kernel
def loops_by_the_tail(y, x):
    number = ct.max(ct.load(x, (0,), (TILE,)))
    k = 0
    while k < number:
        k = k + 1
    ct.store(y, (0,), ct.full((1,), 1.0, ct.float32) * k)


@ct.kernel
def needs_two_loads(y, a, b):
    # Only where both go beyond the edge, garbage meets garbage.
    ct.store(
        y, (0,), ct.reshape(ct.sum(ct.load(a, (0,), (TILE,)) * ct.load(b, (0,), (TILE,))), (1,))
    )


@ct.kernel
def gathers_beyond_a_row(y, x):
    # Inside the memory of x, but beyond its second extent: the next row.
    columns = ct.arange(TILE, dtype=ct.int32)
    ct.store(
        y,
        (ct.bid(0), 0),
        ct.reshape(ct.gather(x, (ct.bid(0), columns), check_bounds=False), (1, TILE)),
    )


@ct.kernel
def scatters_beyond_a_row(y, x):
    columns = ct.arange(TILE, dtype=ct.int32)
    row = ct.reshape(ct.load(x, (ct.bid(0), 0), (1, TILE)), (TILE,))
    ct.scatter(y, (2 * ct.bid(0), columns), row, check_bounds=False)


@ct.kernel
def gathers_up_to_the_row(y, x):
    columns = ct.arange(TILE, dtype=ct.int32)
    tile = ct.gather(x, (ct.bid(0), columns), mask=columns < x.shape[1], check_bounds=False)
    ct.store(y, (ct.bid(0), 0), ct.reshape(tile, (1, TILE)))
