"""A field that goes on step by step through shared memory, and sessions of clicks with a barrier of the whole grid."""

from numba import cuda, float32

from tilec import simt


@simt.kernel
def wave(u: simt.Mut[float32, 2], now: simt.Ref[float32, 2], past: simt.Ref[float32, 2], c: float32):
    """A five-point stencil through a tile of shared memory with a halo; the rim stays as it is."""
    tile = cuda.shared.array((18, 18), float32)
    y, x = cuda.grid(2)
    j, i = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    rows, columns = now.shape
    inside = y < rows and x < columns
    if inside:
        tile[j, i] = now[y, x]
        if j == 1 and y > 0:
            tile[0, i] = now[y - 1, x]
        if j == 16 and y + 1 < rows:
            tile[17, i] = now[y + 1, x]
        if i == 1 and x > 0:
            tile[j, 0] = now[y, x - 1]
        if i == 16 and x + 1 < columns:
            tile[j, 17] = now[y, x + 1]
    cuda.syncthreads()
    if inside:
        if 0 < y < rows - 1 and 0 < x < columns - 1:
            around = tile[j - 1, i] + tile[j + 1, i] + tile[j, i - 1] + tile[j, i + 1]
            u[y, x] = 2 * tile[j, i] - past[y, x] + c * (around - 4 * tile[j, i])
        else:
            u[y, x] = tile[j, i]


@cuda.jit
def sessionize(user_id, timestamp, results):
    """Numbers sessions of clicks: a click begins one where the user is another, or the one before is an hour ago."""
    gid = cuda.grid(1)
    size = len(user_id)
    is_first = gid < size
    if 0 < gid < size:
        is_first = user_id[gid] != user_id[gid - 1] or timestamp[gid] - timestamp[gid - 1] > 3600
    if gid < size:
        results[gid] = gid if is_first else 0
    grid = cuda.cg.this_grid()
    grid.sync()
    if is_first:
        look = gid + 1
        while look < size and results[look] == 0:
            results[look] = gid
            look += 1
