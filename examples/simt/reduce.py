"""What threads do together: a sum through warp shuffles, a histogram through atomics in shared
memory, a product of matrices by tiles.
"""

from numba import cuda, float32, int32

from tilec import simt

BINS = simt.size("BINS")
WHOLE = 0xFFFFFFFF


@cuda.jit(device=True)
def warp_sum(value):
    """The sum over a warp, in its first thread."""
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(WHOLE, value, offset)
        offset //= 2
    return value


@simt.kernel
def block_sums(out: simt.Mut[float32], x: simt.Ref[float32], BLOCK: simt.Const[int] = 256):
    """One sum for each block."""
    partial = cuda.shared.array(32, float32)  # one of each warp; a block has 32 at most
    thread = cuda.threadIdx.x
    value = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        value += x[i]
    value = warp_sum(value)
    if thread % 32 == 0:
        partial[thread // 32] = value
    cuda.syncthreads()
    if thread < 32:
        value = warp_sum(partial[thread] if thread < BLOCK // 32 else float32(0))
        if thread == 0:
            out[cuda.blockIdx.x] = value


@simt.kernel
def histogram(counts: simt.Mut[int32], x: simt.Ref[int32]):
    """How often each of 0 .. BINS-1 stands in x; counts start at zero."""
    local = cuda.shared.array(BINS, int32)
    for b in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        local[b] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(local, x[i], 1)
    cuda.syncthreads()
    for b in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        cuda.atomic.add(counts, b, local[b])


@simt.kernel
def matmul(
    c: simt.Mut[float32, 2], a: simt.Ref[float32, 2], b: simt.Ref[float32, 2], TILE: simt.Const[int]
):
    """c = a b, by tiles in shared memory."""
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    row, column = cuda.grid(2)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(0, a.shape[1], TILE):
        left[i, j] = a[row, k + j] if row < a.shape[0] and k + j < a.shape[1] else float32(0)
        right[i, j] = b[k + i, column] if k + i < b.shape[0] and column < b.shape[1] else float32(0)
        cuda.syncthreads()
        for step in range(TILE):
            total += left[i, step] * right[step, j]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total
