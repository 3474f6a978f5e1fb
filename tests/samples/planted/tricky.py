"""Kernels whose blocks wait for each other, share elements or go round in loops: some do it right, those in the second half do not."""

import cuda.tile as ct

TILE = 16
RELAXED = ct.MemoryOrder.RELAXED
ACQUIRE = ct.MemoryOrder.ACQUIRE
RELEASE = ct.MemoryOrder.RELEASE


@ct.kernel
def grid_stride(y, x, n):
    for i in range(ct.bid(0), n // TILE, ct.num_blocks(0)):
        ct.store(y, (i,), ct.load(x, (i,), (TILE,)) * 2.0)


@ct.kernel
def work_queue(y, x, ticket, n):
    i = ct.atomic_add(ticket, 0, 1, memory_order=RELAXED)
    while i < n // TILE:
        ct.store(y, (i,), ct.load(x, (i,), (TILE,)) * 2.0)
        i = ct.atomic_add(ticket, 0, 1, memory_order=RELAXED)


@ct.kernel
def spin_lock(total, lock, x):
    part = ct.sum(ct.load(x, (ct.bid(0),), (TILE,)), keepdims=True)
    while ct.atomic_cas(lock, 0, 0, 1, memory_order=ACQUIRE) == 1:
        pass
    ct.store(total, (0,), ct.load(total, (0,), (1,)) + part)
    ct.atomic_xchg(lock, 0, 0, memory_order=RELEASE)


@ct.kernel
def ticket_lock(total, ticket, serving, x):
    part = ct.sum(ct.load(x, (ct.bid(0),), (TILE,)), keepdims=True)
    mine = ct.atomic_add(ticket, 0, 1, memory_order=RELAXED)
    while ct.atomic_or(serving, 0, 0, memory_order=ACQUIRE) != mine:
        pass
    ct.store(total, (0,), ct.load(total, (0,), (1,)) + part)
    ct.atomic_add(serving, 0, 1, memory_order=RELEASE)


@ct.kernel
def stream_k(c, partial, flag, a, b):
    # Two blocks for one tile: the odd one leaves its part, the even one waits and adds.
    block = ct.bid(0)
    t = block // 2
    half = block % 2
    acc = ct.matmul(ct.load(a, (t, half), (16, 16)), ct.load(b, (half, 0), (16, 16)))
    if half == 0:
        ct.store(partial, (t, 0), acc)
        ct.atomic_xchg(flag, t, 1, memory_order=RELEASE)
    else:
        while ct.atomic_or(flag, t, 0, memory_order=ACQUIRE) == 0:
            pass
        ct.store(c, (t, 0), acc + ct.load(partial, (t, 0), (16, 16)))


@ct.kernel
def chain_scan(y, carry, flag, x):
    # Each block waits for the block before it.
    block = ct.bid(0)
    tile = ct.cumsum(ct.load(x, (block,), (TILE,)), 0)
    if block == 0:
        before = ct.zeros((1,), ct.float32)
    else:
        while ct.atomic_or(flag, block - 1, 0, memory_order=ACQUIRE) == 0:
            pass
        before = ct.load(carry, (block - 1,), (1,))
    ct.store(y, (block,), tile + before)
    ct.store(carry, (block,), before + ct.sum(ct.load(x, (block,), (TILE,)), keepdims=True))
    ct.atomic_xchg(flag, block, 1, memory_order=RELEASE)


@ct.kernel
def in_place(y):
    ct.store(y, (ct.bid(0),), ct.load(y, (ct.bid(0),), (TILE,)) * 2.0)


@ct.kernel
def padded_in_place(y):
    # 60 elements: the last tile is beyond.
    ct.store(y, (ct.bid(0),), ct.load(y, (ct.bid(0),), (TILE,), padding_mode=ct.PaddingMode.ZERO) + 1.0)


@ct.kernel
def transpose_in_place(a):
    # Block pairs: the block above the diagonal does both.
    i = ct.bid(0)
    j = ct.bid(1)
    if i <= j:
        upper = ct.load(a, (i, j), (4, 4))
        lower = ct.load(a, (j, i), (4, 4))
        ct.store(a, (i, j), ct.transpose(lower))
        ct.store(a, (j, i), ct.transpose(upper))


@ct.kernel
def two_pass(total, partial, count, x):
    block = ct.bid(0)
    ct.store(partial, (block,), ct.sum(ct.load(x, (block,), (TILE,)), keepdims=True))
    if ct.atomic_add(count, 0, 1) == ct.num_blocks(0) - 1:
        ct.store(total, (0,), ct.sum(ct.load(partial, (0,), (4,)), keepdims=True))
        ct.atomic_xchg(count, 0, 0, memory_order=RELAXED)


@ct.kernel
def max_by_cas(best, x):
    mine = ct.bid(0) * 7 % 5
    old = ct.atomic_or(best, 0, 0, memory_order=RELAXED)
    while old < mine:
        seen = ct.atomic_cas(best, 0, old, mine, memory_order=RELAXED)
        old = mine if seen == old else seen


@ct.kernel
def masked_diagonal(y, x):
    at = ct.arange(TILE, dtype=ct.int32)
    ct.scatter(y, at, ct.gather(x, at), mask=at % ct.num_blocks(0) == ct.bid(0))


@ct.kernel
def grid_barrier(y, tmp, arrived, x):
    block = ct.bid(0)
    ct.store(tmp, (block,), ct.load(x, (block,), (TILE,)))
    ct.atomic_add(arrived, 0, 1)
    while ct.atomic_or(arrived, 0, 0) < ct.num_blocks(0):
        pass
    ct.store(y, (block,), ct.load(tmp, ((block + 1) % ct.num_blocks(0),), (TILE,)))


@ct.kernel
def barrier_in_place(y, arrived):
    # All read, then all write.
    block = ct.bid(0)
    beside = ct.load(y, ((block + 1) % ct.num_blocks(0),), (TILE,))
    ct.atomic_add(arrived, 0, 1)
    while ct.atomic_or(arrived, 0, 0) < ct.num_blocks(0):
        pass
    ct.store(y, (block,), beside)


@ct.kernel
def stride_off_by_one(y, x, n):
    for i in range(ct.bid(0), n // TILE, ct.num_blocks(0) - 1):
        ct.store(y, (i,), ct.load(x, (i,), (TILE,)) * 2.0)


@ct.kernel
def lock_without_release(total, lock, x):
    part = ct.sum(ct.load(x, (ct.bid(0),), (TILE,)), keepdims=True)
    while ct.atomic_cas(lock, 0, 0, 1, memory_order=ACQUIRE) == 1:
        pass
    ct.store(total, (0,), ct.load(total, (0,), (1,)) + part)
    ct.atomic_xchg(lock, 0, 0, memory_order=RELAXED)


@ct.kernel
def lock_released_early(total, lock, x):
    part = ct.sum(ct.load(x, (ct.bid(0),), (TILE,)), keepdims=True)
    while ct.atomic_cas(lock, 0, 0, 1, memory_order=ACQUIRE) == 1:
        pass
    seen = ct.load(total, (0,), (1,))
    ct.atomic_xchg(lock, 0, 0, memory_order=RELEASE)
    ct.store(total, (0,), seen + part)


@ct.kernel
def stream_k_flag_first(c, partial, flag, a, b):
    block = ct.bid(0)
    t = block // 2
    half = block % 2
    acc = ct.matmul(ct.load(a, (t, half), (16, 16)), ct.load(b, (half, 0), (16, 16)))
    if half == 0:
        ct.atomic_xchg(flag, t, 1, memory_order=RELEASE)
        ct.store(partial, (t, 0), acc)
    else:
        while ct.atomic_or(flag, t, 0, memory_order=ACQUIRE) == 0:
            pass
        ct.store(c, (t, 0), acc + ct.load(partial, (t, 0), (16, 16)))


@ct.kernel
def chain_wrong_flag(y, carry, flag, x):
    block = ct.bid(0)
    if block > 1:
        while ct.atomic_or(flag, block - 2, 0, memory_order=ACQUIRE) == 0:
            pass
    if block > 0:
        ct.store(y, (block,), ct.load(carry, (block - 1,), (1,)) + ct.load(x, (block,), (TILE,)))
    ct.store(carry, (block,), ct.sum(ct.load(x, (block,), (TILE,)), keepdims=True))
    ct.atomic_xchg(flag, block, 1, memory_order=RELEASE)


@ct.kernel
def reads_again_after_release(y, flag, x):
    # Block 1 reads, releases, and reads again, while block 0 writes after the release.
    if ct.bid(0) == 1:
        first = ct.load(y, (0,), (TILE,))
        ct.atomic_xchg(flag, 0, 1, memory_order=RELEASE)
        ct.store(y, (1,), ct.load(y, (0,), (TILE,)) + first)
    if ct.bid(0) == 0:
        while ct.atomic_or(flag, 0, 0, memory_order=ACQUIRE) == 0:
            pass
        ct.store(y, (0,), ct.load(x, (0,), (TILE,)))


@ct.kernel
def middle_reader_is_not_ordered(y, flag, x):
    # Blocks 1 and 3 say that they have read; block 2 does not.
    block = ct.bid(0)
    if block == 0:
        while ct.atomic_or(flag, 0, 0, memory_order=ACQUIRE) < 2:
            pass
        ct.store(y, (0,), ct.load(x, (0,), (TILE,)))
    else:
        ct.store(y, (block,), ct.load(y, (0,), (TILE,)))
        if block != 2:
            ct.atomic_add(flag, 0, 1, memory_order=RELEASE)


@ct.kernel
def transpose_twice(a):
    i = ct.bid(0)
    j = ct.bid(1)
    upper = ct.load(a, (i, j), (4, 4))
    lower = ct.load(a, (j, i), (4, 4))
    ct.store(a, (i, j), ct.transpose(lower))
    ct.store(a, (j, i), ct.transpose(upper))


@ct.kernel
def last_block_misses_one(total, partial, count, x):
    block = ct.bid(0)
    done = ct.atomic_add(count, 0, 1)
    ct.store(partial, (block,), ct.sum(ct.load(x, (block,), (TILE,)), keepdims=True))
    if done == ct.num_blocks(0) - 1:
        ct.store(total, (0,), ct.sum(ct.load(partial, (0,), (4,)), keepdims=True))


@ct.kernel
def broadcast_equal(y, x):
    ct.store(y, (0,), ct.full((TILE,), 1.0, ct.float32))


@ct.kernel
def barrier_missing(y, tmp, arrived, x):
    block = ct.bid(0)
    ct.store(tmp, (block,), ct.load(x, (block,), (TILE,)))
    ct.atomic_add(arrived, 0, 1)
    ct.store(y, (block,), ct.load(tmp, ((block + 1) % ct.num_blocks(0),), (TILE,)))


@ct.kernel
def polls_without_atomics(y, flag, x):
    if ct.bid(0) == 0:
        ct.store(y, (0,), ct.load(x, (0,), (TILE,)))
        ct.store(flag, (0,), ct.full((1,), 1, ct.int32))
    elif ct.gather(flag, 0) == 1:
        ct.store(y, (ct.bid(0),), ct.load(y, (0,), (TILE,)))


@ct.kernel
def ticket_order_matters(y, ticket, x):
    mine = ct.atomic_add(ticket, 0, 1)
    ct.store(y, (mine,), ct.load(x, (ct.bid(0),), (TILE,)))


def helper(y, at):
    return ct.gather(y, at, check_bounds=False)


def outer_helper(y, at):
    return helper(y, at + 1) + 1.0


@ct.kernel
def in_helper(y, x):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    ct.store(y, (ct.bid(0),), outer_helper(x, at))


@ct.kernel
def unicode_lines(y, x):
    größe = ct.bid(0) * TILE  # ширина → 幅
    ct.scatter(y, größe + ct.arange(TILE, dtype=ct.int32) + 1, ct.load(x, (ct.bid(0),), (TILE,)), check_bounds=False)


@ct.kernel
def lands_in_another(y, z, x):
    # Far beyond y: where z happens to lie (or before it).
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    ct.scatter(y, at + 64 * 1024, ct.gather(x, at), check_bounds=False)
    ct.scatter(z, at, ct.gather(x, at))


@ct.kernel
def writes_the_input(y, x):
    ct.store(y, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)))
    ct.store(x, (0,), ct.zeros((TILE,), ct.float32))
