"""On a GPU: the kernels of examples/kernels, every candidate variant, side by side with torch and their twins in cuda.tile.

usage: PYTHONPATH=. python benchmarks/vendor_kernels.py BUNDLE OUT.json [--rows gemm,softmax] [--quick] [--seconds 100] [--device cuda:0].
Needs torch and a bundle that vendor_candidates.py built elsewhere; no compiler. What is compared takes turns; medians, 95 % intervals.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from vendor_rows import ROWS
from vendor_tasks import Bench, Task

Replay = Callable[[], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured: seconds of a sample, samples to choose a variant by, samples of what is compared."""

    sample: float
    choosing: int
    rounds: int


FINALISTS = 4  # variants that are close in a few samples are told apart in turns
FULL, QUICK = Plan(sample=4e-3, choosing=5, rounds=41), Plan(sample=2e-3, choosing=3, rounds=15)


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("bundle", type=Path, help="what vendor_candidates.py built")
    parser.add_argument("out", type=Path, help="where to write the JSON; a table goes beside it, as .md")
    parser.add_argument("--rows", default="", help=f"rows, by comma (default: all): {', '.join(ROWS)}")
    parser.add_argument("--sizes", default="", help="only sizes that contain this text")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further size after so long; what is left out is listed")
    parser.add_argument("--device", default="cuda:0", help="cpu tries the program itself, on small sizes")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    arguments = parser.parse_args()
    names = [name for name in arguments.rows.split(",") if name] or list(ROWS)
    for name in names:
        if name not in ROWS:
            print(f"no row {name!r}: rows are {', '.join(ROWS)}", file=sys.stderr)
            return 2
    if not arguments.bundle.is_file():
        print(f"there is no bundle {arguments.bundle}: build it with benchmarks/vendor_candidates.py", file=sys.stderr)
        return 2
    try:
        import torch
    except ImportError:
        print("torch is not installed: nothing was measured", file=sys.stderr)
        return 3
    host = arguments.device == "cpu"
    if not host and not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    bench = Bench(torch=torch, device=arguments.device, small=host, compiled=not (host or arguments.no_compile))
    found = measured(bench, names, arguments)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    arguments.out.with_suffix(".md").write_text(table(found), encoding="utf-8")
    print(table(found))
    return 1 if any("error" in row for row in found["rows"]) else 0


def measured(bench: Bench, names: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything, as JSON."""
    from tilec.runtime import load

    kernels = load(str(arguments.bundle), arguments.device)
    clock = HostClock() if bench.small else DeviceClock(bench.torch)
    plan = QUICK if arguments.quick else FULL
    begun, rows, left = time.monotonic(), [], []
    for name in names:
        for task in ROWS[name](bench):
            if arguments.sizes and arguments.sizes not in task.size:
                continue
            if time.monotonic() - begun > arguments.seconds:
                left.append(f"{task.row} {task.size}")
                continue
            try:
                rows.append({"row": task.row, "size": task.size, "unit": task.unit, **compared(task, kernels, clock, plan), **clock.seen()})
            except Exception as error:  # noqa: BLE001 - the others are measured all the same
                rows.append({"row": task.row, "size": task.size, "error": f"{type(error).__name__}: {error}".split("\n")[0]})
            print(json.dumps({key: value for key, value in rows[-1].items() if key != "candidates"}), flush=True)
            del task
    return {"schema_version": 1, "benchmark": "vendor_kernels", "machine": machine(bench), "rows": rows, "left_out": left}


def compared(task: Task, kernels: Any, clock: Clock, plan: Plan) -> dict[str, Any]:
    """One size: every candidate is checked and tried; the best few, the twin of the best, and torch's ways take turns."""
    expected = [each.float() for each in task.expected()]
    tried = [tried_one(task, kernels, name, axes, clock, plan, expected) for name, axes in candidates(task, kernels)]
    right = sorted((one for one in tried if "us" in one), key=lambda one: one["us"])
    vendors, refused = vendor_ways(task, clock, plan)
    if not tried:
        raise LookupError("the bundle has no variant for this size")
    if not right:
        raise RuntimeError(f"no candidate is right: {[one['error'] for one in tried]}")
    contenders: dict[str, Callable[[int], Any]] = dict(vendors)
    for one in right[:FINALISTS]:
        contenders[one["id"]] = one["run"]
    best = right[0]
    twin = f"raw_{best['kernel']}"
    if twin in kernels.kernels:
        contenders[f"raw {best['id']}"] = launches(task, kernels, twin, best["kernel"], best["axes"], clock)
    samples = in_turns(task, contenders, clock, plan)
    safe = min((one["id"] for one in right[:FINALISTS]), key=lambda name: statistics.median(samples[name]))
    result: dict[str, Any] = {"safe": spread(samples[safe], task), "variant": safe, "others": refused}
    result["vendors"] = {name: spread(samples[name], task) for name in vendors}
    rivals = [name for name in vendors if not name.startswith("copy")]
    if rivals:
        rival = min(rivals, key=lambda name: statistics.median(samples[name]))
        result["against"] = {"name": rival, **ratio(samples[rival], samples[safe])}
    raw = f"raw {best['id']}"
    if raw in samples:
        result["against_raw"] = ratio(samples[raw], samples[best["id"]])
    result["candidates"] = [{key: value for key, value in one.items() if key != "run"} for one in tried]
    return result


def candidates(task: Task, kernels: Any) -> list[tuple[str, dict[str, Any]]]:
    """The variants that do this size: kernel and axes."""
    found = []
    for name in task.launches:
        if name in kernels.kernels:
            points = {tuple(sorted(variant.axes)) for variant in kernels.kernels[name].info.variants}
            found += [(name, dict(point)) for point in sorted(points, key=str) if task.fits(dict(point))]
    return found


def launches(task: Task, kernels: Any, kernel: str, of: str, axes: Mapping[str, Any], clock: Clock) -> Callable[[int], Any]:
    """Launches of one variant, bound to each set of arguments."""
    bound = [bind(kernels.kernels[kernel], axes, task.launches[of](i)) for i in range(task.sets)]
    if of not in task.before:
        return lambda i: bound[i % len(bound)].launch(clock.stream())
    name, arguments = task.before[of]
    first = [bind(kernels.kernels[name], axes, arguments(i)) for i in range(task.sets)]

    def both(i: int) -> Any:
        first[i % len(bound)].launch(clock.stream())
        return bound[i % len(bound)].launch(clock.stream())

    return both


def bind(launcher: Any, axes: Mapping[str, Any], arguments: Sequence[Any]) -> Any:
    """A launch of the variant with these axes, of those that the kernel has and the arguments leave open."""
    bound_by_arguments = {param.dtype for param in launcher.info.params}
    points = [dict(variant.axes) for variant in launcher.info.variants]
    fits = next(point for point in points if all(point[name] == value for name, value in axes.items() if name in point))
    return launcher.bind(*arguments, **{name: value for name, value in fits.items() if name not in bound_by_arguments})


def tried_one(
    task: Task, kernels: Any, name: str, axes: dict[str, Any], clock: Clock, plan: Plan, expected: Sequence[Any]
) -> dict[str, Any]:
    """A candidate: whether it is right, and how fast in a few samples; or why it is neither."""
    label = f"{name}[{', '.join(f'{axis}={value}' for axis, value in axes.items())}]"
    one: dict[str, Any] = {"id": label, "kernel": name, "axes": axes}
    try:
        run = launches(task, kernels, name, name, axes, clock)
        task.reset()
        clock.once(run)
        for found, right in zip(task.found(), expected, strict=True):
            error = relative_error(found, right)
            if not error <= task.tolerance:
                return {**one, "error": f"wrong: relative error {error:.3g}, and {task.tolerance} is allowed"}
        replay, count = clock.prepared(run, task.sets, plan.sample)
        replay()
        one["us"] = round(statistics.median(replay() for _ in range(plan.choosing)) / count * 1e6, 3)
    except Exception as error:  # noqa: BLE001 - a candidate that fails is a record with its reason
        return {**one, "error": f"{type(error).__name__}: {error}".split("\n")[0]}
    return {**one, "run": run}


def relative_error(found: Any, right: Any) -> float:
    """Of the whole output; NaN where it holds any."""
    difference = (found.float().reshape(right.shape) - right).norm() / right.norm().clamp_min(1e-30)
    return float(difference)


def vendor_ways(task: Task, clock: Clock, plan: Plan) -> tuple[dict[str, Callable[[int], Any]], dict[str, str]]:
    """torch's ways that work here, and why the others do not."""
    works, refused = {}, {}
    for name, run in task.vendors.items():

        def turned(i: int, run: Callable[[int], Any] = run) -> Any:
            return run(i % task.sets)

        try:
            run(0)
            clock.prepared(turned, task.sets, plan.sample)  # not everything that runs can be captured
            works[name] = turned
        except Exception as error:  # noqa: BLE001 - a backend that refuses this size is named, with its reason
            refused[name] = f"{type(error).__name__}: {error}".split("\n")[0]
    return works, refused


def in_turns(task: Task, contenders: Mapping[str, Callable[[int], Any]], clock: Clock, plan: Plan) -> dict[str, list[float]]:
    """Seconds of one launch, in rounds: each round has one sample of each, in an order of its own."""
    ready = {name: clock.prepared(run, task.sets, plan.sample) for name, run in contenders.items()}
    found: dict[str, list[float]] = {name: [] for name in ready}
    order = list(ready)
    for number in range(plan.rounds + 2):
        random.Random(number).shuffle(order)
        for name in order:
            replay, count = ready[name]
            taken = replay() / count
            if number >= 2:
                found[name].append(taken)
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median, from the order of the values alone."""
    ordered, n = sorted(values), len(values)
    reach = 0.98 * math.sqrt(n)  # of a binomial distribution with p = 1/2: 1.96 * sqrt(n) / 2
    low, high = max(0, math.floor(n / 2 - reach)), min(n - 1, math.ceil(n / 2 + reach))
    return ordered[low], ordered[high]


def spread(seconds: Sequence[float], task: Task) -> dict[str, Any]:
    """Median time with its interval, and the rate."""
    low, high = interval(seconds)
    middle = statistics.median(seconds)
    outliers = sum(value > 1.2 * middle for value in seconds)
    return {
        "us": round(middle * 1e6, 3),
        "us_95": [round(low * 1e6, 3), round(high * 1e6, 3)],
        "rate": round(task.amount / middle, 3),
        "samples": len(seconds),
        "outliers": outliers,
    }


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, Any]:
    """How many times as fast ours is, by rounds."""
    each = [their / our for their, our in zip(theirs, ours, strict=True)]
    low, high = interval(each)
    return {"times": round(statistics.median(each), 4), "times_95": [round(low, 4), round(high, 4)]}


class DeviceClock:
    """Times CUDA graphs of many launches: what a launch costs is outside."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def once(self, run: Callable[[int], Any]) -> None:
        """One launch, waited for."""
        run(0)
        self._torch.cuda.synchronize()

    def prepared(self, run: Callable[[int], Any], sets: int, sample: float) -> tuple[Replay, int]:
        """A replay of about so many seconds, which returns those it took, and its number of launches."""
        cuda = self._torch.cuda
        stream = cuda.Stream()
        with cuda.stream(stream):
            for i in range(max(2, sets)):  # what is made once is made now
                run(i)
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            start.record()
            for i in range(2 * sets):
                run(i)
            end.record()
            end.synchronize()
            each = max(start.elapsed_time(end) * 1e-3 / (2 * sets), 1e-7)
            count = sets * max(1, min(2000, round(sample / each)) // sets)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, stream=stream):
            for i in range(count):
                run(i)

        def replay() -> float:
            with cuda.stream(stream):
                start.record()
                graph.replay()
                end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) * 1e-3

        return replay, count

    def seen(self) -> dict[str, Any]:
        """Clocks, and whether they were held down."""
        query = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active"
        try:
            done = subprocess.run(
                ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return {}
        return {"device_state": done.stdout.strip().split("\n")[0]}

    def stream(self) -> Any:
        """The stream that launches go to."""
        return self._torch.cuda.current_stream()


class HostClock:
    """Times loops on the host: for the cpu device, to try the program."""

    def __init__(self) -> None:
        from tilec.runtime import Stream

        self._stream = Stream("cpu")

    def once(self, run: Callable[[int], Any]) -> None:
        """One launch, waited for."""
        run(0)
        self._stream.sync()

    def prepared(self, run: Callable[[int], Any], sets: int, sample: float) -> tuple[Replay, int]:
        """Two launches of each set."""
        del sample

        def replay() -> float:
            start = time.perf_counter()
            for i in range(2 * sets):
                run(i)
            self._stream.sync()
            return time.perf_counter() - start

        return replay, 2 * sets

    def seen(self) -> dict[str, Any]:
        """A host has no clocks that are asked for."""
        return {}

    def stream(self) -> Any:
        """The stream that launches go to."""
        return self._stream


Clock = DeviceClock | HostClock


def machine(bench: Bench) -> dict[str, Any]:
    """Where the numbers come from."""
    torch = bench.torch
    found = {"torch": torch.__version__, "python": platform.python_version()}
    if bench.device != "cpu":
        found |= {"gpu": torch.cuda.get_device_name(bench.device), "cuda": torch.version.cuda}
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        found["driver"] = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split("\n")[0].strip()
    return found


def table(found: Mapping[str, Any]) -> str:
    """For reading."""
    lines = ["| kernel | size | tilec | torch | times | of raw | variant |", "|---|---|---|---|---|---|---|"]
    for row in found["rows"]:
        if "error" in row:
            lines.append(f"| {row['row']} | {row['size']} | {row['error']} | | | | |")
            continue
        against, raw = row.get("against"), row.get("against_raw")
        rival = f"{row['vendors'][against['name']]['rate']} ({against['name']})" if against else ""
        times = f"{against['times']:.3f} [{against['times_95'][0]:.3f}, {against['times_95'][1]:.3f}]" if against else ""
        same = f"{raw['times']:.3f} [{raw['times_95'][0]:.3f}, {raw['times_95'][1]:.3f}]" if raw else ""
        lines.append(
            f"| {row['row']} | {row['size']} | {row['safe']['rate']} {row['unit']} | {rival} | {times} | {same} | {row['variant']} |"
        )
    where = ", ".join(f"{name} {value}" for name, value in found["machine"].items())
    return "\n".join([*lines, "", f"{where}; all in one run.", *(f"left out: {name}" for name in found["left_out"])]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
