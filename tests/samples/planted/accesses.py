"""Kernels that go beyond their memory, read what nothing wrote or break a promise, and next to each one that does not."""

import cuda.tile as ct

TILE = 16


@ct.kernel
def gathers_beyond_the_end(y, x):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    ct.store(y, (ct.bid(0),), ct.gather(x, at + 1, check_bounds=False))


@ct.kernel
def gathers_with_bounds(y, x):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    ct.store(y, (ct.bid(0),), ct.gather(x, at + 1))


@ct.kernel
def gathers_before_the_start(y, x):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    ct.store(y, (ct.bid(0),), ct.gather(x, at - 1, check_bounds=False))


@ct.kernel
def gathers_masked(y, x):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32) - 1
    ct.store(y, (ct.bid(0),), ct.gather(x, at, mask=at >= 0, check_bounds=False))


@ct.kernel
def scatters_beyond_the_end(y, x):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    ct.scatter(y, at + 3, ct.load(x, (ct.bid(0),), (TILE,)), check_bounds=False)


@ct.kernel
def loads_unchecked_tail(y, x):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,), check_bounds=False))


@ct.kernel
def loads_checked_tail(y, x):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,), padding_mode=ct.PaddingMode.ZERO))


@ct.kernel
def loads_tile_outside(y, x):
    # Its last block has no part of x, which ends with the third tile.
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,), padding_mode=ct.PaddingMode.ZERO))


@ct.kernel
def stores_tile_outside(y, x):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)))


@ct.kernel
def rounds_the_grid_up(y, x):
    # Its last tiles have one element inside.
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,), padding_mode=ct.PaddingMode.ZERO))


@ct.kernel
def stores_unchecked_tail(y, x):
    tile = ct.load(x, (ct.bid(0),), (TILE,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(y, (ct.bid(0),), tile, check_bounds=False)


@ct.kernel
def leaves_the_row(y, x):
    # Inside the memory of x, but beyond its second extent: the next row.
    ct.store(y, (ct.bid(0), 0), ct.load(x, (ct.bid(0), 0), (1, TILE), check_bounds=False))


@ct.kernel
def adds_to_unwritten(y, x):
    tile = ct.load(y, (ct.bid(0),), (TILE,))
    ct.store(y, (ct.bid(0),), tile + ct.load(x, (ct.bid(0),), (TILE,)))


@ct.kernel
def adds_to_what_it_wrote(y, x):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)))
    tile = ct.load(y, (ct.bid(0),), (TILE,))
    ct.store(y, (ct.bid(0),), tile + 1.0)


@ct.kernel
def counts_into_unwritten(count, x):
    ct.atomic_add(count, 0, 1)


@ct.kernel
def reads_more_than_it_wrote(y, x):
    ct.store(y, (2 * ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE // 2,)))
    tile = ct.load(y, (ct.bid(0),), (TILE,))
    ct.store(y, (ct.bid(0),), tile)


@ct.kernel
def promises_divisible(y, x, n):
    n = ct.assume_divisible_by(n, 8)
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    ct.scatter(y, at, ct.gather(x, at, mask=at < n))


@ct.kernel
def asserts_positive(y, x):
    tile = ct.load(x, (ct.bid(0),), (TILE,))
    ct.assert_(tile > 0.0, "x must be positive")  # noqa: PT009
    ct.store(y, (ct.bid(0),), tile)


@ct.kernel
def takes_log(y, x):
    ct.store(y, (ct.bid(0),), ct.log(ct.load(x, (ct.bid(0),), (TILE,))))


@ct.kernel
def divides_by_sum(y, x):
    tile = ct.load(x, (ct.bid(0),), (TILE,))
    ct.store(y, (ct.bid(0),), tile / ct.sum(tile))


@ct.kernel
def never_ends(y, x):
    k = 0
    while k >= 0:
        k = (k + 1) % 4
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) + k)


@ct.kernel
def waits_for_nobody(y, flag, x):
    while ct.atomic_or(flag, 0, 0) == 0:
        pass
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)))


@ct.kernel
def ends_after_a_while(y, x):
    k = 0
    while k < 1000:
        k = k + 1
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) + k)
