"""A thread per element, or a stride over the grid: sums, a polynomial by a device function, a fractal, a filter with constant weights."""

import math

import numpy as np
from numba import cuda, float32, float64
from numba.cuda import libdevice

from tilec import simt

T = simt.dtype("T")
WEIGHTS = np.array([0.05, 0.25, 0.4, 0.25, 0.05], dtype=np.float32)


@simt.kernel
def vector_add(out: simt.Mut[T], a: simt.Ref[T], b: simt.Ref[T]):
    """out = a + b."""
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = a[i] + b[i]


@cuda.jit
def increment_a_2d_array(an_array):
    x, y = cuda.grid(2)
    if x < an_array.shape[0] and y < an_array.shape[1]:
        an_array[x, y] += 1


@cuda.jit(device=True)
def polar(x, y):
    """Two results of one function."""
    return math.sqrt(x * x + y * y), math.atan2(y, x)


@simt.kernel
def to_polar(rho: simt.Mut[float64], theta: simt.Mut[float64], x: simt.Ref[float64], y: simt.Ref[float64]):
    i = cuda.grid(1)
    if i < rho.size:
        rho[i], theta[i] = polar(x[i], y[i])


@simt.kernel
def quick_waves(out: simt.Mut[float32], x: simt.Ref[float32]):
    """sin^2 + cos, by functions of libdevice."""
    i = cuda.grid(1)
    if i < out.size:
        s = libdevice.sinf(x[i])
        out[i] = libdevice.fmaf(s, s, libdevice.cosf(x[i]))


@cuda.jit(device=True)
def escapes(x, y, most):
    """After how many steps a point leaves the circle of radius 2."""
    c = complex(x, y)
    z = 0.0j
    for i in range(most):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            return i
    return most


@cuda.jit
def mandelbrot(image, left, right, low, high, most):
    """Every point of the image, in strides over both dimensions."""
    dx, dy = (right - left) / image.shape[1], (high - low) / image.shape[0]
    first_x, first_y = cuda.grid(2)
    step_x, step_y = cuda.gridsize(2)
    for x in range(first_x, image.shape[1], step_x):
        for y in range(first_y, image.shape[0], step_y):
            image[y, x] = escapes(left + x * dx, low + y * dy, most)


@simt.kernel
def smooth(out: simt.Mut[float32], x: simt.Ref[float32]):
    """A filter whose weights are constant memory; at the ends x goes on as it is there."""
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i < x.size:
        total = float32(0)
        for w in range(5):
            total += weights[w] * x[min(max(i + w - 2, 0), x.size - 1)]
        out[i] = total


@simt.kernel
def bessel(out: simt.Mut[float64, 3], x: simt.Ref[float64, 3], order: int):
    """Sums of a series, whose terms are in an array of the thread; a grid of three dimensions."""
    i, j, k = cuda.grid(3)
    if i < x.shape[0] and j < x.shape[1] and k < x.shape[2]:
        terms = cuda.local.array(16, float64)
        terms[0] = (x[i, j, k] / 2) ** order / math.gamma(float64(order + 1))
        for m in range(1, 16):
            terms[m] = -terms[m - 1] * (x[i, j, k] / 2) ** 2 / (m * (m + order))
        total = 0.0
        for m in range(15, -1, -1):
            total += terms[m]
        out[i, j, k] = total


def weighted(*weights):
    """Makes a kernel of numbers that it captures."""

    @simt.kernel
    def columns(out: simt.Mut[float32], x: simt.Ref[float32, 2]):
        i = cuda.grid(1)
        if i < out.size:
            row = x[i]
            total = float32(0)
            for j, weight in enumerate(weights):
                total += float32(weight) * row[j]
            out[i] = total + row[1:][-1]

    return columns


three_columns = weighted(0.5, 2.0, -1.0)
