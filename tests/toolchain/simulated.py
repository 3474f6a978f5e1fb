"""The kernels of examples/simt in numba's simulator, each thread in Python, held against their
references.

`NUMBA_ENABLE_CUDASIM=1 python simulated.py FOLDER`: the simulator takes the place of numba's
compiler for a whole process. It has no warp shuffles, so block_sums is left to a GPU.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
from numba import cuda


def launched(module: Any, name: str, grid: Any, block: Any, *arguments: Any) -> None:
    """Run a kernel; axes have the values that the manifest gives them."""
    kernel = getattr(module, name)
    cuda.jit(getattr(kernel, "function", None) or kernel.fn)[grid, block](*arguments)


def main(folder: str) -> None:
    sys.path.insert(0, folder)
    elementwise, reduce, whole, reference = map(
        importlib.import_module, ("elementwise", "reduce", "whole_grid", "reference")
    )
    reduce.BINS = 64
    rng = np.random.default_rng(0)
    found = []

    def held(name: str, value: Any, expected: Any, **tolerance: float) -> None:
        np.testing.assert_allclose(value, expected, **tolerance)
        found.append(name)

    x, y = rng.normal(size=(2, 70)).astype(np.float32)
    expected = reference.saxpy(x, y, 2.5)
    launched(elementwise, "saxpy", 3, 32, y, x, 2.5)
    held("saxpy", y, expected, rtol=1e-6)
    z, matrix, row = (
        np.zeros((9, 40), np.float32),
        rng.normal(size=(40, 9)).astype(np.float32).T,
        x[:40].copy(),
    )
    launched(elementwise, "add_rows", (2, 2), (8, 32), z, matrix, row)
    held("add_rows", z, reference.add_rows(matrix, row))
    counts, keys = np.zeros(64, np.int32), rng.integers(0, 64, 300).astype(np.int32)
    launched(reduce, "histogram", 2, 64, counts, keys)
    held("histogram", counts, reference.histogram(keys))
    a, b, c = rng.normal(size=(9, 11)), rng.normal(size=(11, 7)), np.zeros((9, 7))
    launched(reduce, "matmul", (3, 2), (4, 4), c, a, b, 4)
    held("matmul", c, reference.matmul(a, b), rtol=1e-4, atol=1e-5)
    u, v = rng.random(50).astype(np.float32), np.zeros(50, np.float32)
    expected = reference.diffuse(u, v, 4, 0.25)
    launched(whole, "diffuse", 1, 32, u, v, 4, 0.25)
    held("diffuse", u, expected["u"], rtol=1e-5)
    hits = np.zeros(40, np.int32)
    launched(whole, "count_inside", 2, 32, hits, np.uint64(42), 20)
    held("count_inside", hits, reference.count_inside(hits, 42, 20))
    sys.stdout.write(" ".join(found))


if __name__ == "__main__":
    main(sys.argv[1])
