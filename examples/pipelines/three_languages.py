"""Kernels of three languages in one CUDA graph: a tile layer, then CUDA C++, then SIMT Python,
replayed by one call.
"""

import pipelines
import reference
from common import GPU_ONLY, check, matrix, on_cpu, run, shared

from tilec_runtime import Stream, api, current_device

ROWS, INNER, COLUMNS, FACTOR, MOST = 61, 70, 45, 2.5, 20.0


def chain(x, w, buffers):
    """The kernels one after another, into memory that is there before the capture."""
    op = pipelines.ops.layer(buffers[0], x, w).first()
    if on_cpu():
        return op
    return op.then(lambda h: pipelines.ops.scale(buffers[1], h, FACTOR).first()).then(
        lambda h: pipelines.ops.clip(buffers[2], h, MOST).first()
    )


def expected(x, w):
    """What NumPy makes of the same numbers."""
    found = reference.layer(x, w)
    return found if on_cpu() else reference.clip(reference.scale(found, FACTOR), MOST)


def main():
    """Capture once, replay with other inputs, and compare each result with NumPy."""
    x, w, *buffers = (
        api.zeros(shape).sync()
        for shape in ((ROWS, INNER), (INNER, COLUMNS), *[(ROWS, COLUMNS)] * 3)
    )
    with (
        Stream(current_device()) as stream,
        chain(x.borrow(), w.borrow(), buffers).graph_on(stream) as graph,
    ):
        output = graph.take_output()
        for seed in range(3):
            given = matrix(seed, ROWS, INNER), matrix(seed + 10, INNER, COLUMNS)
            for tensor, array in zip((x, w), given, strict=True):
                graph.update(api.memcpy(tensor, shared(array)))
            graph.launch().sync_on(stream)
            check(output.to_host(), expected(*given))
        if on_cpu():
            return f"PASS: a graph of {graph.nodes} tile kernel, replayed 3 times on the cpu device: {GPU_ONLY}"
        return f"PASS: tile, CUDA C++ and SIMT Python in one graph of {graph.nodes} kernels, replayed 3 times"


if __name__ == "__main__":
    run(main)
