"""What threads do together: scans and records in shared memory, shuffles and votes, atomics of all kinds, dynamic shared memory."""

import numpy as np
from numba import cuda, float32, float64, int32, int64, uint32

from tilec import simt

WHOLE = 0xFFFFFFFF
POINT = np.dtype([("x", np.float32), ("y", np.float32)], align=True)


@simt.kernel
def largest(result: simt.Mut[float64], at: simt.Mut[int32], values: simt.Ref[float64, 2]):
    """The largest, the smallest and how many are above 2, by atomics on a matrix's elements."""
    tid, bid, width = cuda.threadIdx.x, cuda.blockIdx.x, cuda.blockDim.x
    i = bid * width + tid
    for j in range(values.shape[1]):
        if i < values.shape[0]:
            cuda.atomic.max(result, 0, values[i, j])
            cuda.atomic.min(result, 1, values[i, j])
            if values[i, j] > 2.0:
                cuda.atomic.add(at, 0, 1)
                cuda.atomic.or_(at, 1, 1 << j % 31)
                cuda.atomic.cas(at, 2, 0, 7)
                cuda.atomic.exch(at, 3, 5)


@simt.kernel
def running_sums(out: simt.Mut[int64], x: simt.Ref[int64]):
    """Inclusive sums of one block, between two halves of dynamic shared memory."""
    halves = cuda.shared.array(0, int64)
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    first, second = halves[:n], halves[n : 2 * n]
    first[t] = x[t] if t < x.size else 0
    cuda.syncthreads()
    offset = 1
    while offset < n:
        second[t] = first[t] + (first[t - offset] if t >= offset else 0)
        cuda.syncthreads()
        first, second = second, first
        offset *= 2
    if t < x.size:
        out[t] = first[t]


@simt.kernel
def warp_facts(out: simt.Mut[int32, 2], x: simt.Ref[int32]):
    """By shuffles, votes and matches: left neighbour, sum of the warp, mask of odd ones, whether all and any are odd, those that are alike."""
    i = cuda.grid(1)
    value = x[i] if i < x.size else 0
    odd = value % 2 != 0
    left = cuda.shfl_up_sync(WHOLE, value, 1)
    total = value
    for k in range(5):
        total += cuda.shfl_xor_sync(WHOLE, total, 1 << k)
    mask = cuda.ballot_sync(WHOLE, odd)
    every = cuda.all_sync(WHOLE, odd)
    some = cuda.any_sync(WHOLE, odd)
    alike = cuda.match_any_sync(WHOLE, value)
    if i < x.size:
        out[i, 0] = left
        out[i, 1] = total
        out[i, 2] = cuda.popc(mask)
        out[i, 3] = (2 if every else 0) + (1 if some else 0)
        out[i, 4] = cuda.popc(alike)
        out[i, 5] = cuda.ffs(uint32(alike)) - 1


@simt.kernel
def mirrored(y: simt.Mut[float32, 2], x: simt.Ref[float32, 2]):
    """Points of a block in reverse order, turned by a quarter; records in shared memory."""
    points = cuda.shared.array(64, POINT)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 64 + t
    points[t].x = x[i, 0]
    points[t]["y"] = x[i, 1]
    cuda.syncthreads()
    other = points[63 - t]
    y[i, 0], y[i, 1] = -other.y, other.x


@simt.kernel
def block_votes(out: simt.Mut[int32, 2], x: simt.Ref[int32]):
    """Of each block: how many are odd, whether all are, whether any is."""
    odd = x[cuda.grid(1)] % 2
    many = cuda.syncthreads_count(odd)
    every = cuda.syncthreads_and(odd)
    some = cuda.syncthreads_or(odd)
    if cuda.threadIdx.x == 0:
        row = out[cuda.blockIdx.x]
        row[0], row[1], row[-1] = many, 1 if every else 0, 1 if some else 0
