"""What the reasons of misses rest on: the same launch with one thing changed, in turns; see
docs/background/vendor-kernels.md.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from vendor_tasks import Bench, Run, Task
from vendor_timing import Clock, Plan, in_turns, interval

ONE = {"BM": 128, "BN": 256, "BK": 64, "num_worker_warps": 8, "num_ctas": 1}
PAIR = {"BM": 256, "BN": 256, "BK": 64, "num_worker_warps": 8, "num_ctas": 2}
Found = Iterator[tuple[str, int, dict[str, Run]]]


def pitch(b: Bench, kernels: Any, stream: Callable[[], Any]) -> Found:
    """A product whose extents are whole tiles, or not, at pitches that are multiples of 128 bytes,
    or of 16.
    """
    for m, n, k, pitches in (
        (4096, 4096, 4096, (4096, 4096, 4096)),
        (4096, 4096, 4096, (4120, 4096, 4096)),
        (4096, 4096, 4096, (4096, 4120, 4096)),
        (4096, 4096, 4096, (4120, 4120, 4120)),
        (4104, 4088, 4120, (4160, 4160, 4160)),
        (4104, 4088, 4120, (4120, 4120, 4120)),
    ):
        sets = b.sets((m * k + k * n + m * n) * 2)
        shapes = ((m, n, pitches[2]), (m, k, pitches[0]), (k, n, pitches[1]))
        data = [
            [b.randn(rows, each, dtype="bf16")[:, :columns] for rows, columns, each in shapes]
            for _ in range(sets)
        ]
        ways: dict[str, Run] = {
            "torch.matmul": lambda i, data=data, sets=sets: _product(b, data[i % sets])
        }
        for name, axes in (("one multiprocessor", ONE), ("pairs", PAIR)):
            ways[name] = _launches(
                kernels.kernels["gemm_persistent"], axes, [tuple(each) for each in data], stream
            )
        whole = m // 256 * 256
        parts = [(c[:whole], c[whole:], x[:whole], x[whole:], y) for c, x, y in data if whole < m]
        ways |= (
            {
                "edge in a second loop": _launches(
                    kernels.kernels["raw_gemm_split"], PAIR, parts, stream
                )
            }
            if parts
            else {}
        )
        yield (
            f"{m} x {n} x {k}, rows of a, b, c {', '.join(str(2 * each) for each in pitches)} bytes apart",
            sets,
            ways,
        )


def in_place(b: Bench, kernels: Any, stream: Callable[[], Any]) -> Found:
    """y = alpha * x + y of bf16, and the same sum put somewhere else, which needs no order between
    loads and store.
    """
    n = b.size(1 << 28, 4096)
    data = b.several(lambda: [b.randn(n, dtype="bf16") for _ in range(3)])  # z, y, x
    sets = len(data)
    axes = {"TILE": 1024, "num_worker_warps": 4}
    ways: dict[str, Run] = {
        "torch.add_": lambda i: data[i % sets][1].add_(data[i % sets][2], alpha=1e-4),
        "torch.add into another": lambda i: b.torch.add(
            data[i % sets][1], data[i % sets][2], alpha=1e-4, out=data[i % sets][0]
        ),
        "in place": _launches(
            kernels.kernels["raw_saxpy"], axes, [(y, x, 1e-4) for _, y, x in data], stream
        ),
        "into another": _launches(
            kernels.kernels["raw_axpy"], axes, [(*each, 1e-4) for each in data], stream
        ),
    }
    yield f"bf16 {n}", sets, ways


def weights(b: Bench, kernels: Any, stream: Callable[[], Any]) -> Found:
    """RMS norm of rows of 8192 with the weights loaded where the compiler likes, and copied ahead."""
    rows, length = b.size(8192, 4), 8192
    weight = b.randn(length, dtype="bf16")
    data = b.several(lambda: [b.randn(rows, length, dtype="bf16") for _ in range(2)])
    axes = {"ROWS": 1, "COLS": length, "num_worker_warps": 4, "occupancy": 4}
    arguments = [(y, x, weight, 1e-6) for y, x in data]
    ways = {
        name: _launches(kernels.kernels["rms_norm"], {**axes, "AHEAD": ahead}, arguments, stream)
        for name, ahead in (("behind the sum", False), ("ahead of it", True))
    }
    yield f"bf16 {rows} x {length}", len(data), ways


CAUSES: Mapping[str, Callable[[Bench, Any, Callable[[], Any]], Found]] = {
    "pitch": pitch,
    "in_place": in_place,
    "weights": weights,
}


def explained(
    name: str, bench: Bench, kernels: Any, clock: Clock, plan: Plan
) -> Iterator[dict[str, Any]]:
    """The medians of one cause, as JSON."""
    for what, sets, ways in CAUSES[name](bench, kernels, clock.stream):
        nothing = {
            "launches": {},
            "fits": bool,
            "vendors": {},
            "reset": dict,
            "found": list,
            "expected": list,
        }
        task = Task(row=name, size=what, unit="us", amount=1.0, sets=sets, **nothing)  # type: ignore[arg-type]
        samples = in_turns(task, ways, clock, plan, lambda _: True)
        spans = {way: interval(taken) for way, taken in samples.items()}
        yield {
            "cause": name,
            "size": what,
            "us": {way: round(statistics.median(taken) * 1e6, 3) for way, taken in samples.items()},
            "us_95": {
                way: [round(low * 1e6, 3), round(high * 1e6, 3)]
                for way, (low, high) in spans.items()
            },
            "samples": min(map(len, samples.values()), default=math.nan),
        }


def _product(b: Bench, data: Any) -> Any:
    return b.torch.matmul(data[1], data[2], out=data[0])


def _launches(
    kernel: Any,
    axes: Mapping[str, Any],
    arguments: list[tuple[Any, ...]],
    stream: Callable[[], Any],
) -> Run:
    """Launches of the variant with these axes, of set i."""
    found = next(dict(v.axes) for v in kernel.info.variants if axes.items() <= dict(v.axes).items())
    bound = {param.dtype for param in kernel.info.params}
    axes = {axis: value for axis, value in found.items() if axis not in bound}
    return lambda i: kernel(*arguments[i % len(arguments)], **axes, stream=stream())
