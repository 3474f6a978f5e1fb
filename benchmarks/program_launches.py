"""On a GPU: what launches cost as programs make them: with new shapes, other tensors, other dtypes
and layouts, new outputs.

usage: python benchmarks/program_launches.py OUT.json [--dist dist] [--programs
benchmarks/programs/dist] [--processes 5] [--only ROW ...]. Needs torch, tilec_examples in --dist
and, for the row of classes, tilec_programs in --programs; the C loop comes from build/c_loop.so or
from `cc`. Every way launches the same tensors in the same order, timed one by one, and all ways of
a row take turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import launch_ways as ways
from c_loop import Raw
from common import gpu_machine
from processes import several
from program_cases import CLASSES, Strided, distinct_extents, merged, row, table, turns

ROUNDS, WARM = 5, 300
C_LOOP = "C loop over cuLaunchKernel, same kernel and arguments"
Case = tuple[Any, ...]
Run = Callable[[Sequence[Case]], list[int]]  # nanoseconds of each launch


def main() -> int:
    """Measure and write."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument(
        "--dist", type=Path, default=here.parent / "dist", help="folder of tilec_examples"
    )
    parser.add_argument(
        "--programs", type=Path, default=here / "programs" / "dist", help="folder of tilec_programs"
    )
    parser.add_argument("--processes", type=int, default=5, help="whose medians count")
    parser.add_argument(
        "--only",
        nargs="*",
        default=list(ROWS),
        choices=list(ROWS),
        metavar="ROW",
        help=", ".join(ROWS),
    )
    arguments = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    document = {"schema_version": 1, "benchmark": "program_launches", "machine": gpu_machine(torch)}
    if arguments.processes > 1:
        alone = [
            "--processes",
            "1",
            "--dist",
            str(arguments.dist),
            "--programs",
            str(arguments.programs),
            "--only",
            *arguments.only,
        ]
        tables = [found["rows"] for found in several(__file__, alone, arguments.processes)]
        document["rows"] = {name: merged([one[name] for one in tables]) for name in tables[0]}
    else:
        setting = Setting(torch, arguments.dist.resolve(), arguments.programs.resolve())
        document["rows"] = {name: ROWS[name](setting) for name in arguments.only}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for name, found in document["rows"].items():
        for way, numbers in found.items():
            print(f"{name:16} {way:56} {numbers}")
    return 0


class Setting:
    """The machine, the packages, and what is the same in all rows."""

    def __init__(self, torch: Any, dist: Path, programs: Path) -> None:
        """Load tilec_examples."""
        self.torch, self.dist, self.programs = torch, dist, programs
        torch.zeros(1, device="cuda")
        sys.path[:0] = [str(dist), str(programs)]
        self.module = importlib.import_module("tilec_examples").load("cuda:0")
        self.stream = torch.cuda.current_stream()
        self.timer = statistics.median(each(lambda *_: None)([(None, None, None)] * 10_000))

    def raw(self, package: str) -> Raw:
        """A package's kernels for the C loop."""
        folder = Path(importlib.import_module(package).__path__[0])
        return Raw(next(folder.glob("*.tilec")))

    def vectors(self, extents: Sequence[int]) -> list[Case]:
        """Output and inputs of one extent each, in memory of their own; equal extents are other
        tensors.
        """
        return [tuple(self.torch.ones(n, device="cuda") for _ in range(3)) for n in extents]


def each(call: Callable[..., Any]) -> Run:
    """Launches with three tensors, each timed."""

    def run(cases: Sequence[Case]) -> list[int]:
        clock, times = time.perf_counter_ns, []
        for z, x, y in cases:
            start = clock()
            call(z, x, y)
            times.append(clock() - start)
        return times

    return run


def each_on(stream: Any, call: Callable[..., Any]) -> Run:
    """The same for launches that are told the stream."""

    def run(cases: Sequence[Case]) -> list[int]:
        clock, times = time.perf_counter_ns, []
        for z, x, y in cases:
            start = clock()
            call(z, x, y, stream=stream)
            times.append(clock() - start)
        return times

    return run


def vector_ways(setting: Setting) -> dict[str, Callable[[], Run]]:
    """The sum of two f32 vectors."""
    torch, module = setting.torch, setting.module
    return {
        C_LOOP: lambda: c_loop(setting),
        "tilec": lambda: each_on(setting.stream, module.vector_add),
        "Triton": triton_add,
        "torch.add(out=)": lambda: each(lambda z, x, y: torch.add(x, y, out=z)),
        "cuda.core": cuda_core_add,
        "CuPy RawKernel": cupy_add,
    }


def c_loop(setting: Setting) -> Run:
    """The image that the launcher chooses, for extents that 16 divides and for others."""
    raw, launcher = setting.raw("tilec_examples"), setting.module["vector_add"]
    plans = {
        even: raw.plan(launcher, "vector_add", *setting.vectors([n])[0])
        for even, n in ((True, 256), (False, 255))
    }

    def run(cases: Sequence[Case]) -> list[int]:
        return raw.run(
            [plans[case[0].shape[0] % 16 == 0].packed(*case) for case in cases],
            setting.stream.cuda_stream,
        )

    return run


def triton_add() -> Run:
    """Triton's launcher, with the grid of each shape."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / "programs"))
    import triton_kernels

    add = triton_kernels.compiled(triton_kernels.vector_add)
    return each(lambda z, x, y: add[(-(-(n := x.shape[0]) // 1024),)](z, x, y, n, B=1024))


def cuda_core_add() -> Run:
    """cuda.core with a configuration of each shape, unchecked."""
    import numpy as np

    core = importlib.import_module("cuda.core")
    device = core.Device(0)
    device.set_current()
    stream, kernel = (
        device.default_stream,
        core.ObjectCode.from_ptx(ways.compiled()).get_kernel("scale"),
    )

    def launch(z: Any, x: Any, y: Any) -> None:
        n = x.shape[0]
        config = core.LaunchConfig(grid=-(-n // 256), block=256)
        core.launch(stream, config, kernel, z.data_ptr(), x.data_ptr(), y.data_ptr(), np.int32(n))

    return each(launch)


def cupy_add() -> Run:
    """CuPy's RawKernel, on arrays of its own over the same memory."""
    import cupy

    kernel = cupy.RawKernel(ways.KERNEL, "scale")
    run = each(lambda z, x, y: kernel((-(-x.size // 256),), (256,), (z, x, y, cupy.int32(x.size))))
    return lambda cases: run([tuple(cupy.from_dlpack(tensor) for tensor in case) for case in cases])


def measured(
    setting: Setting,
    makers: dict[str, Callable[[], Run]],
    rounds: Sequence[Sequence[Case]],
    warm: Sequence[Case],
) -> dict[str, dict[str, Any]]:
    """The table of one row: every way in every round.

    Args:
        setting: the machine.
        makers: the ways by name; one that is not installed or refuses gets a row with its error.
        rounds: what is launched, by round.
        warm: what is launched before, by every way.
    """
    runs, rows, times = {}, {}, {}
    for name, make in makers.items():
        try:
            runs[name] = make()
            runs[name](warm)
            setting.torch.cuda.synchronize()
            times[name] = []
        except Exception as error:  # noqa: BLE001 (a way that is not installed, or refuses this GPU, is a row)
            runs.pop(name, None)
            rows[name] = {
                "error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            }
    for names, cases in zip(turns(list(runs), len(rounds)), rounds, strict=True):
        for name in names:
            times[name].append(runs[name](cases))
            setting.torch.cuda.synchronize()
    for name, found in times.items():
        rows[name] = row(found, times.get(C_LOOP), timer=0.0 if name == C_LOOP else setting.timer)
    return {name: rows[name] for name in makers}


# ---- rows


def never_seen(setting: Setting) -> dict[str, dict[str, Any]]:
    """10,000 launches, each with a shape that no launch before had."""
    extents = distinct_extents(10_000 + WARM)
    cases = setting.vectors(extents)
    per = 10_000 // ROUNDS
    rounds = [cases[WARM + number * per :][:per] for number in range(ROUNDS)]
    return measured(setting, vector_ways(setting), rounds, cases[:WARM])


def sets_in_turn(setting: Setting) -> dict[str, dict[str, Any]]:
    """2,000 sets of three tensors of one shape, in turn."""
    cases = setting.vectors([256] * 2000)
    return measured(setting, vector_ways(setting), [cases] * ROUNDS, cases)


def same(setting: Setting) -> dict[str, dict[str, Any]]:
    """The same three tensors at each launch."""
    cases = setting.vectors([256]) * 2000
    return measured(setting, vector_ways(setting), [cases] * ROUNDS, cases)


def own(setting: Setting) -> dict[str, dict[str, Any]]:
    """Three tensors of tilec's own, the same at each launch."""
    cases = [tuple(ways.own_tensors(256))] * 2000
    makers = {
        name: make for name, make in vector_ways(setting).items() if name in (C_LOOP, "tilec")
    }
    return measured(setting, makers, [cases] * ROUNDS, cases)


def new_output(setting: Setting) -> dict[str, dict[str, Any]]:
    """A new output at each launch: what is added to torch.empty_like, less what the C loop takes."""
    torch, clock = setting.torch, time.perf_counter_ns
    cases = setting.vectors([256] * 2000)
    stream = setting.stream
    alone = "torch.empty_like"

    def allocating(call: Callable[..., Any]) -> Run:
        def run(cases: Sequence[Case]) -> list[int]:
            times = []
            for _, x, y in cases:
                start = clock()
                call(torch.empty_like(x), x, y, stream=stream)
                times.append(clock() - start)
            return times

        return run

    makers = {
        C_LOOP: lambda: c_loop(setting),
        alone: lambda: allocating(lambda *_, **__: None),
        "tilec": lambda: allocating(setting.module.vector_add),
        "torch: x + y": lambda: each(lambda _, x, y: x + y),
    }
    found = measured(setting, makers, [cases] * ROUNDS, cases)
    floor, launched = found[alone]["median_us"], found[C_LOOP]["median_us"]
    for name in ("tilec", "torch: x + y"):
        found[name]["added_us"] = round(found[name]["median_us"] - floor, 3)
        found[name]["added_over_c_loop_us"] = round(found[name]["added_us"] - launched, 3)
    return found


def full_table(setting: Setting) -> dict[str, dict[str, Any]]:
    """5,000 shapes in 50 classes of dtype and layout, in turn, again and again."""
    torch = setting.torch
    module = importlib.import_module("tilec_programs").load("cuda:0")
    views = table(5000)
    cases = [tuple(view(torch, one) for _ in range(3)) for one in views]
    raw, launcher = setting.raw("tilec_programs"), module["add"]
    plans = [raw.plan(launcher, "add", *case) for case in cases[: len(CLASSES)]]
    packed = [plans[place % len(CLASSES)].packed(*case) for place, case in enumerate(cases)]
    makers: dict[str, Callable[[], Run]] = {
        C_LOOP: lambda: lambda some: raw.run(packed[: len(some)], setting.stream.cuda_stream),
        "tilec": lambda: each_on(setting.stream, module.add),
        "Triton": triton_strided,
        "torch.add(out=)": lambda: each(lambda z, x, y: torch.add(x, y, out=z)),
    }
    return measured(setting, makers, [cases] * 3, cases)


def view(torch: Any, one: Strided) -> Any:
    """A tensor with memory of its own."""
    return torch.ones(one.extent, device="cuda", dtype=getattr(torch, one.dtype)).as_strided(
        one.shape, one.strides, one.offset
    )


def triton_strided() -> Run:
    """Triton's launcher, with the grid and the strides of each call."""
    sys.path.insert(0, str(Path(__file__).resolve().parent / "programs"))
    import triton_kernels

    add = triton_kernels.compiled(triton_kernels.add)

    def launch(z: Any, x: Any, y: Any) -> None:
        rows, columns = z.shape
        add[(-(-rows // 4), -(-columns // 64))](
            z, x, y, rows, columns, *z.stride(), *x.stride(), *y.stride(), R=4, C=64
        )

    return each(launch)


ROWS: dict[str, Callable[[Setting], dict[str, dict[str, Any]]]] = {
    "never-seen": never_seen,
    "sets": sets_in_turn,
    "classes": full_table,
    "new-output": new_output,
    "same": same,
    "own": own,
}

if __name__ == "__main__":
    sys.exit(main())
