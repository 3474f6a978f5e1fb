"""Fields that go on step by step, with barriers of the whole grid: Laplace's equation, Conway's life, waves; and sessions of clicks."""

from numba import cuda, float32

from tilec import simt


@cuda.jit
def solve_heat(buf_0, buf_1, timesteps, k):
    """Heat in a rod whose ends are held, in one launch; both buffers hold the field in turns."""
    i = cuda.grid(1)
    next_step = False
    grid = cuda.cg.this_grid()
    for _ in range(timesteps):
        data, next_data = (buf_1, buf_0) if next_step else (buf_0, buf_1)
        if i < len(data):
            curr = data[i]
            if i == 0:
                next_data[i] = curr + k * (data[i + 1] - 2 * curr)
            elif i == len(data) - 1:
                next_data[i] = curr + k * (data[i - 1] - 2 * curr)
            else:
                next_data[i] = curr + k * (data[i - 1] - 2 * curr + data[i + 1])
        grid.sync()
        next_step = not next_step


@simt.kernel
def life(after: simt.Mut["u8", 2], before: simt.Ref["u8", 2]):
    """One generation on a torus."""
    y, x = cuda.grid(2)
    rows, columns = before.shape
    if y < rows and x < columns:
        near = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                if dy != 0 or dx != 0:
                    near += before[(y + dy + rows) % rows, (x + dx + columns) % columns]
        after[y, x] = 1 if near == 3 or (near == 2 and before[y, x] == 1) else 0


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
