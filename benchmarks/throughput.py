"""On a GPU: what the example kernels reach against torch on the same data.

usage: python benchmarks/throughput.py OUT.json [--dist dist] [--small]. Needs the built package and
torch. Medians of 15 timed launches; both take turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import gpu_machine

TIMED = 15


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument(
        "--dist",
        type=Path,
        default=Path(__file__).resolve().parents[1] / "dist",
        help="folder of tilec_examples",
    )
    parser.add_argument(
        "--small", action="store_true", help="sixteen times less data, for cards with little memory"
    )
    arguments = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    torch.zeros(1, device="cuda")
    sys.path.insert(0, str(arguments.dist.resolve()))
    module = importlib.import_module("tilec_examples").load("cuda:0")
    document = {
        "schema_version": 1,
        "benchmark": "throughput",
        "machine": gpu_machine(torch),
        "throughput": list(throughputs(torch, module, small=arguments.small)),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for found in document["throughput"]:
        print(found)
    return 0


def throughputs(torch: Any, module: Any, *, small: bool) -> Iterator[dict[str, Any]]:
    """Rates of the examples and of torch on the same data; each function lets go of its data before
    the next one starts.
    """
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
    ours, theirs = (
        (lambda: module.vector_add(z, x, y, stream=stream)),
        (lambda: torch.add(x, y, out=z)),
    )
    return compared(torch, work, ours, theirs, lambda: torch.testing.assert_close(z, x + y))


def softmax(torch: Any, module: Any, rows: int, columns: int) -> dict[str, Any]:
    """f32 over rows."""
    x = torch.randn(rows, columns, device="cuda")
    y, stream = torch.empty_like(x), torch.cuda.current_stream()
    work = {
        "name": f"softmax f32 {rows} x {columns}",
        "unit": "TB/s",
        "amount": 2 * x.nbytes / 1e12,
    }
    ours, theirs = (
        (lambda: module.softmax(y, x, stream=stream)),
        (lambda: torch.softmax(x, 1, out=y)),
    )
    return compared(
        torch, work, ours, theirs, lambda: torch.testing.assert_close(y, torch.softmax(x, 1))
    )


def reduce_sum(torch: Any, module: Any, size: int) -> dict[str, Any]:
    """f32 to one number."""
    x, total = torch.rand(size, device="cuda"), torch.zeros(1, device="cuda")
    stream = torch.cuda.current_stream()
    work = {"name": f"reduce_sum f32 {size}", "unit": "TB/s", "amount": x.nbytes / 1e12}
    ours, theirs = (lambda: module.reduce_sum(total, x, stream=stream)), (lambda: torch.sum(x))
    return compared(
        torch,
        work,
        ours,
        theirs,
        lambda: torch.testing.assert_close(total[0], x.sum(), rtol=1e-4, atol=0),
    )


def gemm(torch: Any, module: Any, side: int, dtype: Any) -> dict[str, Any]:
    """Square matrices."""
    a, b = (torch.randn(side, side, device="cuda", dtype=dtype) for _ in range(2))
    c, stream = torch.empty_like(a), torch.cuda.current_stream()
    work = {
        "name": f"gemm {str(dtype).removeprefix('torch.')} {side}^3",
        "unit": "TFLOP/s",
        "amount": 2 * side**3 / 1e12,
    }
    ours, theirs = (
        (lambda: module.gemm(c, a, b, stream=stream)),
        (lambda: torch.matmul(a, b, out=c)),
    )
    return compared(
        torch,
        work,
        ours,
        theirs,
        lambda: torch.testing.assert_close(c, a @ b, rtol=2e-2, atol=0.01 * side**0.5),
    )


def compared(
    torch: Any,
    work: dict[str, Any],
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    check: Callable[[], None],
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
    return {
        **row,
        "tilec": round(work["amount"] / mine, 3),
        "torch": round(work["amount"] / other, 3),
        "ratio": round(other / mine, 3),
    }


def device_seconds(torch: Any, call: Callable[[], Any]) -> float:
    """Median seconds of one call on the device."""
    for _ in range(3):
        call()
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(TIMED)
    ]
    for begin, end in events:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events) / 1000


if __name__ == "__main__":
    sys.exit(main())
