"""The SIMT half: every thread looks at its own element, and takes its own branch."""

from numba import cuda, float32

from tilec import simt


@simt.kernel
def threshold_scale(
    y: simt.Mut[float32, 2], x: simt.Ref[float32, 2], threshold: float32, scale: float32
):
    """y = scale x where x is above the threshold, else 0."""
    i, j = cuda.grid(2)
    if i < y.shape[0] and j < y.shape[1]:
        value = x[i, j]
        if value > threshold:
            y[i, j] = value * scale
        else:
            y[i, j] = float32(0)
