"""On a GPU: what a launch through generated launchers costs against other ways, and what the example kernels reach against torch.

usage: python benchmarks/gpu_launch.py OUT.json [--dist dist] [--small] [--processes 5]. Needs the built package and torch; the C loop,
cuda.core, CuPy and Triton are measured where they are installed. All ways take turns; medians of 9 batches of 2000 launches, of several
processes, and of 15 timed launches.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import launch_ways as ways
from processes import merged, several

BATCHES, LAUNCHES, WARM, TIMED = 9, 2000, 300, 15
SAME = "C loop over cuLaunchKernel, same kernel and arguments"


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument("--dist", type=Path, default=Path(__file__).resolve().parents[1] / "dist", help="where tilec_examples lies")
    parser.add_argument("--small", action="store_true", help="sixteen times less data, for cards with little memory")
    parser.add_argument("--launches-only", action="store_true", help="leave the throughput out")
    parser.add_argument("--processes", type=int, default=5, help="that launches are measured in; their medians count")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("torch is not installed: nothing was measured", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    torch.zeros(1, device="cuda")
    sys.path.insert(0, str(arguments.dist.resolve()))
    module = importlib.import_module("tilec_examples").load("cuda:0")
    if arguments.processes > 1:
        alone = ["--launches-only", "--processes", "1", "--dist", str(arguments.dist)]
        launches = merged([made["launch_us"] for made in several(__file__, alone, arguments.processes)])
    else:
        launches = launch_costs(torch, module)
    document = {
        "schema_version": 1,
        "benchmark": "gpu_launch",
        "machine": machine(torch),
        "launch_us": launches,
        "throughput": [] if arguments.launches_only else list(throughputs(torch, module, small=arguments.small)),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for name, found in launches.items():
        print(f"{name:56} {found}")
    for found in document["throughput"]:
        print(found)
    return 0


# ---- launch cost: a kernel of one block over 256 elements, so that the device keeps up


def launch_costs(torch: Any, module: Any) -> dict[str, dict[str, Any]]:
    """Microseconds per launch for each way. All take turns, batch by batch: a machine whose clock changes has the same ratios."""
    n = 256
    y, x, z = (torch.ones(n, device="cuda") for _ in range(3))
    stream = torch.cuda.current_stream()
    names = {"m": module, "stream": stream, "y": y, "x": x, "z": z, "torch": torch}
    makers: dict[str, Callable[[], ways.Timed]] = {
        SAME: lambda: ways.c_loop_of(module["vector_add"], 0, y, x, z),
        "C loop over cuLaunchKernel, 4 arguments": lambda: ways.c_loop(y, x, z, n),
        "tilec, tile kernel, 3 tilec tensors": lambda: ways.own(module, n),
        "tilec, tile kernel, 3 tilec tensors, tilec stream": lambda: ways.own_with_stream(module, n),
        "tilec, tile kernel, 3 tilec tensors, two sets in turn": lambda: ways.own_in_turn(module, n),
        "tilec, tile kernel, own buffers": lambda: ways.own_buffers(module, n),
        "tilec, tile kernel, 3 torch tensors": lambda: ways.timed("m.vector_add(stream, y, x, z)", **names),
        "tilec, CUDA C++ kernel, 2 torch tensors": lambda: ways.timed("m.elementwise(stream, y, x, 2.0, 0.5)", **names),
        "tilec, bound, 3 tilec tensors": lambda: ways.bound(module, ways.own_tensors(n), 0),
        "tilec, bound, 3 torch tensors": lambda: ways.bound(module, (y, x, z), stream),
        "torch.add(out=)": lambda: ways.timed("torch.add(x, z, out=y)", **names),
        "cuda.core.launch, ready config": lambda: ways.cuda_core(y, x, z, n),
        "CuPy RawKernel": lambda: ways.cupy_raw(n),
        "Triton": lambda: ways.triton_kernel(y, x, z, n),
        "numba-cuda": lambda: ways.numba_cuda(y, x, z, n),
    }
    calls, rows = {}, {}
    for name, make in makers.items():
        try:
            calls[name] = make()
            once(torch, name, calls[name], WARM)
        except Exception as error:  # noqa: BLE001 (a way that is not installed, or refuses this GPU, is a row)
            calls.pop(name, None)
            rows[name] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    turns = [{name: once(torch, name, call, LAUNCHES) for name, call in calls.items()} for _ in range(BATCHES)]
    for name in makers:
        if name in calls:
            rows[name] = row([turn[name] for turn in turns], [turn.get(SAME) for turn in turns])
    return {name: rows[name] for name in makers}


def row(each: list[float], base: list[float | None]) -> dict[str, Any]:
    """Minimum and median over batches, and the median of the ratios to the C loop of the same turn."""
    found: dict[str, Any] = {"minimum": round(min(each), 3), "median": round(statistics.median(each), 3)}
    if all(base):
        found["times_c_loop"] = round(statistics.median(mine / other for mine, other in zip(each, base, strict=True) if other), 3)
    return found


def once(torch: Any, name: str, call: ways.Timed, count: int) -> float:
    """Microseconds per launch over one batch."""
    torch.cuda.synchronize()
    seconds = call(count)
    torch.cuda.synchronize()
    return float(seconds / count / (2 if name.endswith("in turn") else 1) * 1e6)


# ---- throughput


def throughputs(torch: Any, module: Any, *, small: bool) -> Iterator[dict[str, Any]]:
    """Rates of the examples and of torch on the same data; each function lets go of its data before the next one starts."""
    size = 1 << (24 if small else 28)
    yield vector_add(torch, module, size)
    yield vector_add(torch, module, size - 3)
    yield softmax(torch, module, size // 1024, 1024)
    yield reduce_sum(torch, module, size)
    side = 2048 if small else 8192
    yield gemm(torch, module, side, torch.bfloat16)
    yield gemm(torch, module, side, torch.float16)


def vector_add(torch: Any, module: Any, size: int) -> dict[str, Any]:
    """f32; sizes that 16 does not divide take the general variant."""
    x, y = torch.randn(size, device="cuda"), torch.randn(size, device="cuda")
    z, stream = torch.empty_like(x), torch.cuda.current_stream()
    work = {"name": f"vector_add f32 {size}", "unit": "TB/s", "amount": 3 * x.nbytes / 1e12}
    ours, theirs = (lambda: module.vector_add(stream, z, x, y)), (lambda: torch.add(x, y, out=z))
    return compared(torch, work, ours, theirs, lambda: torch.testing.assert_close(z, x + y))


def softmax(torch: Any, module: Any, rows: int, columns: int) -> dict[str, Any]:
    """f32 over rows."""
    x = torch.randn(rows, columns, device="cuda")
    y, stream = torch.empty_like(x), torch.cuda.current_stream()
    work = {"name": f"softmax f32 {rows} x {columns}", "unit": "TB/s", "amount": 2 * x.nbytes / 1e12}
    ours, theirs = (lambda: module.softmax(stream, y, x)), (lambda: torch.softmax(x, 1, out=y))
    return compared(torch, work, ours, theirs, lambda: torch.testing.assert_close(y, torch.softmax(x, 1)))


def reduce_sum(torch: Any, module: Any, size: int) -> dict[str, Any]:
    """f32 to one number."""
    x, total = torch.rand(size, device="cuda"), torch.zeros(1, device="cuda")
    stream = torch.cuda.current_stream()
    work = {"name": f"reduce_sum f32 {size}", "unit": "TB/s", "amount": x.nbytes / 1e12}
    ours, theirs = (lambda: module.reduce_sum(stream, total, x)), (lambda: torch.sum(x))
    return compared(torch, work, ours, theirs, lambda: torch.testing.assert_close(total[0], x.sum(), rtol=1e-4, atol=0))


def gemm(torch: Any, module: Any, side: int, dtype: Any) -> dict[str, Any]:
    """Square matrices."""
    a, b = (torch.randn(side, side, device="cuda", dtype=dtype) for _ in range(2))
    c, stream = torch.empty_like(a), torch.cuda.current_stream()
    work = {"name": f"gemm {str(dtype).removeprefix('torch.')} {side}^3", "unit": "TFLOP/s", "amount": 2 * side**3 / 1e12}
    ours, theirs = (lambda: module.gemm(stream, c, a, b)), (lambda: torch.matmul(a, b, out=c))
    return compared(torch, work, ours, theirs, lambda: torch.testing.assert_close(c, a @ b, rtol=2e-2, atol=0.01 * side**0.5))


def compared(
    torch: Any, work: dict[str, Any], ours: Callable[[], Any], theirs: Callable[[], Any], check: Callable[[], None]
) -> dict[str, Any]:
    """Both rates and their ratio, measured in turns; the result of ours is checked first."""
    row: dict[str, Any] = {"name": work["name"], "unit": work["unit"]}
    try:
        ours()
        torch.cuda.synchronize()
        check()
        turns = [(device_seconds(torch, ours), device_seconds(torch, theirs)) for _ in range(3)]
    except Exception as error:  # noqa: BLE001 (one kernel that fails must not hide the others)
        return {**row, "error": f"{type(error).__name__}: {error}"}
    mine, other = (statistics.median(times) for times in zip(*turns, strict=True))
    return {**row, "tilec": round(work["amount"] / mine, 3), "torch": round(work["amount"] / other, 3), "ratio": round(other / mine, 3)}


def device_seconds(torch: Any, call: Callable[[], Any]) -> float:
    """Median seconds of one call on the device."""
    for _ in range(3):
        call()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(TIMED)]
    for begin, end in events:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events) / 1000


def machine(torch: Any) -> dict[str, Any]:
    """Where the numbers come from."""
    facts = torch.cuda.get_device_properties(0)
    driver = Path("/proc/driver/nvidia/version")
    return {
        "device": facts.name,
        "compute_capability": [facts.major, facts.minor],
        "driver": driver.read_text(encoding="utf-8").splitlines()[0] if driver.is_file() else "unknown",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
