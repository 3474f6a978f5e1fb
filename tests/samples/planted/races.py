"""Kernels with a race each, and next to each a kernel that looks like it and has none."""

import cuda.tile as ct

TILE = 16


@ct.kernel
def all_write_first_tile(y, x):
    ct.store(y, (0,), ct.load(x, (ct.bid(0),), (TILE,)))


@ct.kernel
def each_writes_its_tile(y, x):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)))


@ct.kernel
def reads_neighbour_in_place(y):
    block = ct.bid(0)
    beside = ct.load(y, ((block + 1) % ct.num_blocks(0),), (TILE,))
    ct.store(y, (block,), beside + 1.0)


@ct.kernel
def reads_neighbour_of_input(y, x):
    block = ct.bid(0)
    beside = ct.load(x, ((block + 1) % ct.num_blocks(0),), (TILE,))
    ct.store(y, (block,), beside + 1.0)


@ct.kernel
def counts_without_atomics(count, x):
    seen = ct.load(count, (0,), (1,))
    ct.store(count, (0,), seen + 1)


@ct.kernel
def counts_with_atomics(count, x):
    ct.atomic_add(count, 0, 1)


@ct.kernel
def resets_what_others_count(count, x):
    if ct.bid(0) == 0:
        ct.store(count, (0,), ct.zeros((1,), ct.int32))
    else:
        ct.atomic_add(count, 0, 1)


@ct.kernel
def last_block_sums_relaxed(total, partial, count, x):
    block = ct.bid(0)
    tile = ct.load(x, (block,), (TILE,))
    ct.store(partial, (block,), ct.sum(tile, keepdims=True))
    done = ct.atomic_add(count, 0, 1, memory_order=ct.MemoryOrder.RELAXED)
    if done == ct.num_blocks(0) - 1:
        ct.store(total, (0,), ct.sum(ct.load(partial, (0,), (4,)), keepdims=True))


@ct.kernel
def last_block_sums(total, partial, count, x):
    block = ct.bid(0)
    tile = ct.load(x, (block,), (TILE,))
    ct.store(partial, (block,), ct.sum(tile, keepdims=True))
    done = ct.atomic_add(count, 0, 1)
    if done == ct.num_blocks(0) - 1:
        ct.store(total, (0,), ct.sum(ct.load(partial, (0,), (4,)), keepdims=True))


@ct.kernel
def ignores_second_axis(y, x):
    # The grid has two axes, the store one: blocks that differ in y alone meet.
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(1), ct.bid(0)), (1, TILE)).reshape((TILE,)))


@ct.kernel
def uses_second_axis(y, x):
    ct.store(y, (ct.bid(1), ct.bid(0)), ct.load(x, (ct.bid(1), ct.bid(0)), (1, TILE)))


@ct.kernel
def split_k_adds(c, a, b):
    part = ct.matmul(ct.load(a, (0, ct.bid(0)), (16, 16)), ct.load(b, (ct.bid(0), 0), (16, 16)))
    rows = ct.arange(16, dtype=ct.int32).reshape((16, 1))
    columns = ct.arange(16, dtype=ct.int32).reshape((1, 16))
    ct.atomic_add(c, (rows, columns), part)


@ct.kernel
def scatters_by_index(y, x, where):
    at = ct.load(where, (ct.bid(0),), (TILE,))
    ct.scatter(y, at, ct.load(x, (ct.bid(0),), (TILE,)))


@ct.kernel
def last_exchange_wins(y, x):
    # No race: exchanges are atomic. But which block's number stays is a matter of order.
    ct.atomic_xchg(y, 0, ct.bid(0) + 1)


@ct.kernel
def largest_wins(y, x):
    ct.atomic_max(y, 0, ct.bid(0) + 1)


@ct.kernel
def waits_for_a_flag(y, flag, x):
    # Block 0 writes, then raises the flag; the others wait for it.
    if ct.bid(0) == 0:
        ct.store(y, (0,), ct.load(x, (0,), (TILE,)))
        ct.atomic_xchg(flag, 0, 1)
    else:
        while ct.atomic_or(flag, 0, 0) == 0:
            pass
        ct.store(y, (ct.bid(0),), ct.load(y, (0,), (TILE,)))


@ct.kernel
def waits_for_a_relaxed_flag(y, flag, x):
    if ct.bid(0) == 0:
        ct.store(y, (0,), ct.load(x, (0,), (TILE,)))
        ct.atomic_xchg(flag, 0, 1, memory_order=ct.MemoryOrder.RELAXED)
    else:
        while ct.atomic_or(flag, 0, 0) == 0:
            pass
        ct.store(y, (ct.bid(0),), ct.load(y, (0,), (TILE,)))
