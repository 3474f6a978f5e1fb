"""On a GPU: what operators of a package cost in torch, beside torch's own and beside operators
written by hand: called, differentiated, compiled, captured.

usage: PYTHONPATH=.:runtime python benchmarks/torch_ops.py OUT.json [--dist dist] [--processes 3]
[--device cuda]. Needs torch, and the examples' package in --dist, with its module `torch`. Small
arrays, so that the host's time counts; all ways of a row take turns, and a row's numbers are
microseconds a call, medians over the turns. The row `device` has the device's time for large
arrays. With --device cpu the cpu device runs the kernels, and only the host's rows are measured,
which shows that the program works and says nothing else.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import gpu_machine
from processes import several

Call = Callable[[], Any]
TURNS, CALLS, WARM = 15, 1000, 200
IN_GRAPH = 100
PARTS = ("empty define/impl operator", "launcher", "torch.empty")
OURS, BY_HAND, TORCH = "tilec operator", "define/impl operator by hand", "torch's own"


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    dist = Path(__file__).resolve().parents[1] / "dist"
    parser.add_argument("--dist", type=Path, default=dist, help="folder of tilec_examples")
    parser.add_argument("--processes", type=int, default=3, help="whose medians count")
    parser.add_argument("--calls", type=int, default=CALLS, help="calls of each way in a turn")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    import torch

    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    machine = gpu_machine(torch) if arguments.device == "cuda" else {"device": "cpu"}
    document: dict[str, Any] = {"schema_version": 1, "benchmark": "torch_ops", "machine": machine}
    if arguments.processes > 1:
        alone = ["--processes", "1", "--dist", str(arguments.dist), "--device", arguments.device]
        alone += ["--calls", str(arguments.calls)]
        tables = [one["rows"] for one in several(__file__, alone, arguments.processes)]
        document["rows"] = {
            name: {way: statistics.median(t[name][way] for t in tables) for way in row}
            for name, row in tables[0].items()
        }
    else:
        setting = Setting(torch, arguments.dist.resolve(), arguments.device, arguments.calls)
        document["rows"] = setting.rows()
    document["ratios"] = ratios(document["rows"])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for name, row in {**document["rows"], "ratios": document["ratios"]}.items():
        for way, number in row.items():
            print(f"{name:22} {way:52} {number:9.3f}")
    return 0


def ratios(rows: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The ratios that are promised or reported."""
    found = {}
    for name in ("vector_add", "softmax"):
        row = rows[name]
        found[f"{name}: operator / (empty operator + launcher + torch.empty)"] = row[OURS] / sum(
            row[part] for part in PARTS
        )
        found[f"{name}: operator / operator by hand"] = row[OURS] / row[BY_HAND]
    for name, row in rows.items():
        if TORCH in row and OURS in row:
            found[f"{name}: operator / torch's own"] = row[OURS] / row[TORCH]
    return found


class Setting:
    """The package on the device, and operators of the same kernels written by hand."""

    def __init__(self, torch: Any, dist: Path, device: str, calls: int) -> None:
        """Load tilec_examples, and define the operators."""
        self.torch, self.device, self.calls = torch, device, calls
        sys.path.insert(0, str(dist))
        self.kernels: Any = importlib.import_module("tilec_examples").load(
            0 if device == "cuda" else "cpu"
        )
        self.ops: Any = importlib.import_module("tilec_examples.torch")
        self.library = torch.library.Library("by_hand", "FRAGMENT")
        self._by_hand()

    def _by_hand(self) -> None:
        torch, add, softmax = self.torch, self.kernels["vector_add"], self.kernels["softmax"]
        backward = self.kernels["softmax_backward"]

        def run_add(x: Any, y: Any) -> Any:
            z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            add(z, x, y)
            return z

        def run_softmax(x: Any) -> Any:
            y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
            softmax(y, x)
            return y

        operators = {
            "empty1(Tensor x) -> Tensor": lambda x: x,
            "empty2(Tensor x, Tensor y) -> Tensor": lambda x, _y: x,
            "add(Tensor x, Tensor y) -> Tensor": run_add,
            "softmax(Tensor x) -> Tensor": run_softmax,
        }
        for schema, run in operators.items():
            self.library.define(schema)
            self.library.impl(schema.partition("(")[0], run, self.device.upper())
        self.hand = torch.ops.by_hand

        registered = torch.library.custom_op(
            "by_hand::registered", run_softmax, mutates_args=(), schema="(Tensor x) -> Tensor"
        )

        def keep(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001 - torch names them
            ctx.save_for_backward(output)

        def gradient(ctx: Any, grad: Any) -> Any:
            (y,) = ctx.saved_tensors
            found = torch.empty(y.shape, dtype=y.dtype, device=y.device)
            backward(found, grad.contiguous(), y)
            return found

        registered.register_autograd(gradient, setup_context=keep)
        self.registered = registered

    def wait(self) -> None:
        """Wait for the device."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def host(self, ways: Mapping[str, Call]) -> dict[str, float]:
        """Microseconds of the host for a call of each way, which take turns."""
        for call in ways.values():
            for _ in range(min(WARM, self.calls)):
                call()
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(TURNS):
            for name, call in ways.items():
                self.wait()
                start = time.perf_counter_ns()
                for _ in range(self.calls):
                    call()
                found[name].append((time.perf_counter_ns() - start) / self.calls / 1000)
        self.wait()
        return {name: statistics.median(times) for name, times in found.items()}

    def rows(self) -> dict[str, dict[str, float]]:
        """Every row."""
        found = {
            "vector_add": self.vector_add(),
            "softmax": self.softmax(),
            "softmax, gradient": self.gradient(),
            "softmax, compiled": self.compiled(),
        }
        if self.device == "cuda":
            found["softmax, in a graph"] = self.captured()
            found["device, 4096 x 1024"] = self.large()
        return found

    def vector_add(self) -> dict[str, float]:
        """An elementwise operator without a gradient."""
        torch, add = self.torch, self.kernels["vector_add"]
        x, y, z = (torch.ones(1024, device=self.device) for _ in range(3))
        empty, hand = self.hand.empty2.default, self.hand.add.default
        own = torch.ops.tilec_examples.vector_add.default
        return self.host(
            {
                OURS: lambda: self.ops.vector_add(x, y),
                "its overload, without the typed function": lambda: own(x, y),
                BY_HAND: lambda: hand(x, y),
                PARTS[0]: lambda: empty(x, y),
                PARTS[1]: lambda: add(z, x, y),
                PARTS[2]: lambda: torch.empty(x.shape, dtype=x.dtype, device=x.device),
                "a call that allocates, without an operator": lambda: self.kernels.vector_add(x, y),
                TORCH: lambda: x + y,
            }
        )

    def softmax(self) -> dict[str, float]:
        """An operator with a gradient, called without one."""
        torch, softmax = self.torch, self.kernels["softmax"]
        x, y = (torch.randn(8, 1024, device=self.device) for _ in range(2))
        empty, hand = self.hand.empty1.default, self.hand.softmax.default
        return self.host(
            {
                OURS: lambda: self.ops.softmax(x),
                BY_HAND: lambda: hand(x),
                PARTS[0]: lambda: empty(x),
                PARTS[1]: lambda: softmax(y, x),
                PARTS[2]: lambda: torch.empty(x.shape, dtype=x.dtype, device=x.device),
                TORCH: lambda: torch.softmax(x, 1),
            }
        )

    def gradient(self) -> dict[str, float]:
        """Forward and backward together, and the forward that keeps what the backward takes."""
        torch = self.torch
        x = torch.randn(8, 1024, device=self.device, requires_grad=True)
        grad = torch.randn(8, 1024, device=self.device)

        def both(forward: Callable[[Any], Any]) -> Call:
            return lambda: torch.autograd.grad(forward(x), x, grad)

        def own(array: Any) -> Any:
            return torch.softmax(array, 1)

        return self.host(
            {
                OURS: both(self.ops.softmax),
                "custom_op with register_autograd": both(self.registered),
                TORCH: both(own),
                "forward alone: tilec operator": lambda: self.ops.softmax(x),
                "forward alone: register_autograd": lambda: self.registered(x),
                "forward alone: torch's own": lambda: own(x),
            }
        )

    def compiled(self) -> dict[str, float]:
        """A call of a function that torch.compile made, of one graph."""
        torch = self.torch
        x = torch.randn(8, 1024, device=self.device)

        def ours(array: Any) -> Any:
            return self.ops.softmax(array * 2) + 1

        def own(array: Any) -> Any:
            return torch.softmax(array * 2, 1) + 1

        made = {OURS: ours, TORCH: own}
        calls = {name: torch.compile(call, fullgraph=True) for name, call in made.items()}
        return self.host({name: lambda call=call: call(x) for name, call in calls.items()})

    def captured(self) -> dict[str, float]:
        """One operator of a hundred in a replayed graph: the device's time."""
        torch = self.torch
        x = torch.randn(8, 1024, device=self.device)
        found = {}
        ways = {OURS: self.ops.softmax, TORCH: lambda array: torch.softmax(array, 1)}
        for name, call in ways.items():
            call(x)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(IN_GRAPH):
                    call(x)
            found[name] = self.on_device(graph.replay) / IN_GRAPH
        return found

    def on_device(self, call: Call) -> float:
        """Microseconds of the device for a call."""
        torch = self.torch
        for _ in range(10):
            call()
        times = []
        for _ in range(TURNS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(20):
                call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1000 / 20)
        return statistics.median(times)

    def large(self) -> dict[str, float]:
        """Forward, and forward with backward, where the device's time counts."""
        torch = self.torch
        x = torch.randn(4096, 1024, device=self.device)
        y, grad = torch.softmax(x, 1), torch.randn_like(x)
        own_backward = torch.ops.aten._softmax_backward_data.default  # noqa: SLF001 - its only name
        return {
            OURS: self.on_device(lambda: self.ops.softmax(x)),
            TORCH: self.on_device(lambda: torch.softmax(x, 1)),
            "backward: tilec operator": self.on_device(lambda: self.ops.softmax_backward(grad, y)),
            "backward: torch's own": self.on_device(lambda: own_backward(grad, y, 1, x.dtype)),
        }


if __name__ == "__main__":
    sys.exit(main())
