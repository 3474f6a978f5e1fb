"""Tile kernels on the cpu device against Triton's interpreter, in turns; cost of a block from 10 to
100,000 of them; memory of a launch.

Triton runs in a Python of its own, which --triton-python names: pip install triton torch numpy.
"""

from __future__ import annotations

import dataclasses
import io
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import median, options, save

TRITON = Path(__file__).with_name("triton_interpreter.py")
FACTORS = {"vector add": 20, "softmax": 20, "matmul": 10}
GRIDS = (10, 100, 1_000, 10_000, 100_000)
SMALL = 64  # elements of a tile where the cost of a block is measured


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A launch: what runs it, where its result goes, and whether that is right."""

    run: Callable[[], None]
    result: np.ndarray
    right: Callable[[], bool]

    def seconds(self) -> float:
        """Run it once, over a result that was forgotten."""
        self.result.fill(np.nan)
        start = time.perf_counter()
        self.run()
        found = time.perf_counter() - start
        if not self.right():
            sys.exit("wrong result")
        return found


def main() -> None:
    """Measure and save."""
    parser = options(__doc__ or "", repeats=7)
    parser.add_argument(
        "--triton-python", help="a Python with triton and torch; without one only tilec is measured"
    )
    args = parser.parse_args()
    cases = {
        "vector add": vector_add(1 << 20, 1024),
        "softmax": softmax(4096, 1024),
        "matmul": matmul(512, 64, 64, 32),
    }
    triton = start_triton(args.triton_python) if args.triton_python else None
    ours: dict[str, list[float]] = {name: [] for name in cases}
    theirs: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(args.repeats + 1):
        for name, case in cases.items():
            spent = case.seconds()
            other = ask(triton, name) if triton else 0.0
            if turn:  # the first one warms up
                ours[name].append(spent)
                theirs[name].append(other)
    result: dict[str, Any] = {
        name: entry(name, ours[name], theirs[name] if triton else None) for name in cases
    }
    blocks = {str(count): per_block(count, args.repeats) for count in GRIDS}
    memory = {str(count): peak(count) for count in (1_000, 100_000)}
    table = [(name, told(found)) for name, found in result.items()]
    table += [(f"a block of {count}", f"{cost} us") for count, cost in blocks.items()]
    table += [(f"peak memory of {count} blocks", f"{size} MiB") for count, size in memory.items()]
    save(
        "cpu_interpreter",
        args.out,
        {"cases": result, "block_us": blocks, "peak_mib": memory},
        table,
    )


def entry(name: str, ours: list[float], theirs: list[float] | None) -> dict[str, Any]:
    """What is saved of a case."""
    found: dict[str, Any] = {
        "tilec_ms": round(1e3 * median(ours), 2),
        "runs_ms": [round(1e3 * t, 2) for t in ours],
    }
    if theirs is not None:
        found |= {
            "triton_interpreter_ms": round(1e3 * median(theirs), 1),
            "times_faster": round(median(theirs) / median(ours), 1),
            "wanted": FACTORS[name],
        }
    return found


def told(found: dict[str, Any]) -> str:
    """A case in a line of the table."""
    if "times_faster" not in found:
        return f"{found['tilec_ms']} ms"
    return f"{found['tilec_ms']} ms, Triton's interpreter {found['triton_interpreter_ms']} ms: {found['times_faster']} times faster"


def start_triton(python: str) -> subprocess.Popen[str]:
    """The process that runs Triton's interpreter."""
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    return subprocess.Popen(
        [python, str(TRITON)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def ask(process: subprocess.Popen[str], name: str) -> float:
    """Seconds that Triton takes for a case."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    return float(answer) if answer else sys.exit("Triton's interpreter failed")


def launch(
    kernel: Any, grid: tuple[int, int, int], arrays: list[np.ndarray], constants: list[int]
) -> Callable[[], None]:
    """What launches a kernel on the cpu device; compiled and bound beforehand, as a loaded bundle's
    is.
    """
    import cuda.tile as ct
    import cuda.tile.compilation as ctc

    from tilec_runtime.cpu.tileir.execute import execute
    from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
    from tilec_runtime.cpu.tileir.program import prepare
    from tilec_runtime.cpu.tileir.read import read_module

    arguments = [
        ctc.ArrayConstraint(
            ct.float32,
            a.ndim,
            index_dtype=ct.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
        )
        for a in arrays
    ]
    constraints = [*arguments, *(ctc.ConstantConstraint(value) for value in constants)]
    output = io.BytesIO()
    signature = ctc.KernelSignature(
        constraints, ctc.CallingConvention.cutile_python_v2(), symbol="kernel"
    )
    ctc.export_kernel(
        kernel,
        [signature],
        output,
        gpu_code=None,
        output_format="tileir_bytecode",
        bytecode_version="13.3",
    )
    program = prepare(read_module(output.getvalue()))
    memory = Memory(
        MemoryRegion(f"array{place}", array.ctypes.data, array.reshape(-1).view(np.uint8))
        for place, array in enumerate(arrays)
    )
    flat = [
        v for a in arrays for v in (a.ctypes.data, *a.shape, *(s // a.itemsize for s in a.strides))
    ]
    return lambda: execute(program, flat, grid, memory)


def vector_add(elements: int, tile: int) -> Case:
    """A sum of vectors."""
    import cpu_kernels

    x, y, z = random(elements), random(elements), np.zeros(elements, np.float32)
    run = launch(cpu_kernels.vector_add, (elements // tile, 1, 1), [x, y, z], [tile])
    return Case(run=run, result=z, right=lambda: bool((z == x + y).all()))


def softmax(rows: int, columns: int) -> Case:
    """Softmax of rows, one a tile."""
    import cpu_kernels

    x, y = random(rows, columns), np.zeros((rows, columns), np.float32)
    powers = np.exp(x - x.max(1, keepdims=True))
    wanted = powers / powers.sum(1, keepdims=True)
    run = launch(cpu_kernels.softmax, (rows, 1, 1), [x, y], [columns])
    return Case(run=run, result=y, right=lambda: bool(np.allclose(y, wanted, atol=1e-6)))


def matmul(size: int, tm: int, tn: int, tk: int) -> Case:
    """A product of square matrices."""
    import cpu_kernels

    a, b, c = random(size, size), random(size, size), np.zeros((size, size), np.float32)
    run = launch(cpu_kernels.matmul, (size // tm, size // tn, 1), [a, b, c], [tm, tn, tk])
    return Case(run=run, result=c, right=lambda: bool(np.allclose(c, a @ b, rtol=1e-4)))


def random(*shape: int) -> np.ndarray:
    """Numbers from 0 to 1, the same in every run."""
    return np.random.default_rng(0).random(shape, dtype=np.float32)


def per_block(count: int, repeats: int) -> float:
    """Microseconds of a block of a small sum, where there are so many of them."""
    case = vector_add(SMALL * count, SMALL)
    case.seconds()
    return round(1e6 * median([case.seconds() for _ in range(repeats)]) / count, 3)


def peak(count: int) -> float:
    """MiB that a launch of so many blocks takes at most, besides the arrays of the caller."""
    case = vector_add(SMALL * count, SMALL)
    case.seconds()
    tracemalloc.start()
    case.run()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(found / (1 << 20), 2)


if __name__ == "__main__":
    main()
