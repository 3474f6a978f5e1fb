"""A thread per element: scale and add, clamp into a box that comes by value, and a transpose of any
strides.
"""

import numpy as np
from numba import cuda, float32

from tilec import simt

T = simt.dtype("T")
BOX = np.dtype([("low", np.float32), ("high", np.float32)], align=True)


@simt.kernel
def saxpy(y: simt.Mut[T], x: simt.Ref[T], a: T):
    """y = a x + y."""
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@simt.kernel
def clamp(y: simt.Mut[float32], x: simt.Ref[float32], box: simt.Struct[BOX]):
    """Every element of x, moved into a box."""
    for i in range(cuda.grid(1), y.size, cuda.gridsize(1)):
        y[i] = min(max(x[i], box.low), box.high)


@simt.kernel
def add_rows(z: simt.Mut[float32, 2], x: simt.Ref[float32, 2], row: simt.Ref[float32]):
    """z = x + row, of matrices of any strides."""
    i, j = cuda.grid(2)
    if i < z.shape[0] and j < z.shape[1]:
        z[i, j] = x[i, j] + row[j]
