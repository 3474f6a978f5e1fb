"""The kernel of scale.tilebc: a helper, a loop, a branch and a reduction."""

import cuda.tile as ct


def scaled(tile, factor):
    return tile * factor


@ct.kernel
def scale(x, y, steps, factor: ct.Constant[float]):
    row = ct.bid(0)
    total = ct.zeros((4,), ct.float32)
    for step in range(steps):
        tile = ct.load(x, (row, step), (4, 8), padding_mode=ct.PaddingMode.ZERO)
        if step == 0:
            tile = tile + 1.0
        total = total + ct.sum(scaled(tile, factor), 1)
    ct.store(y, (row,), total)
