"""On a GPU: the kernels of examples/kernels side by side with torch and their twins in cuda.tile:
the built package, or every candidate.

usage: PYTHONPATH=.:runtime python benchmarks/vendor_kernels.py BUNDLE OUT.json [--package
examples/kernels/dist] [--rows gemm,softmax] [--quick]. Needs torch and what vendor_candidates.py
and `tilec build` made elsewhere; no compiler. Contenders take turns; medians, 95 % intervals.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from vendor_causes import CAUSES, explained
from vendor_package import compared as compared_shipped
from vendor_rows import ROWS
from vendor_tasks import Bench, Task
from vendor_timing import (
    Clock,
    DeviceClock,
    HostClock,
    Plan,
    in_turns,
    ratio,
    relative_error,
    spread,
    vendor_ways,
)

FINALISTS = 4  # variants that are close in a few samples are told apart in turns
FULL, QUICK = (
    Plan(sample=4e-3, choosing=5, rounds=41, most=123),
    Plan(sample=2e-3, choosing=3, rounds=15, most=63),
)


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("bundle", type=Path, help="what vendor_candidates.py built")
    parser.add_argument(
        "out", type=Path, help="where to write the JSON; a table goes beside it, as .md"
    )
    parser.add_argument(
        "--package",
        type=Path,
        help="measure the launchers of the package in this folder, each as it chooses by itself",
    )
    parser.add_argument(
        "--causes", action="store_true", help="measure what the reasons of misses rest on, too"
    )
    parser.add_argument(
        "--rows", default="", help=f"rows, by comma (default: all): {', '.join(ROWS)}"
    )
    parser.add_argument("--sizes", default="", help="only sizes that contain this text")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples")
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="begin no further size after so long; what is left out is listed",
    )
    parser.add_argument(
        "--device", default="cuda:0", help="cpu tries the program itself, on small sizes"
    )
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    arguments = parser.parse_args()
    names = [name for name in arguments.rows.split(",") if name] or list(ROWS)
    for name in names:
        if name not in ROWS:
            print(f"no row {name!r}: rows are {', '.join(ROWS)}", file=sys.stderr)
            return 2
    if arguments.package and not (arguments.package / "tilec_kernels").is_dir():
        print(
            f"there is no tilec_kernels in {arguments.package}: build it with `tilec build` in examples/kernels",
            file=sys.stderr,
        )
        return 2
    if not arguments.bundle.is_file():
        print(
            f"there is no bundle {arguments.bundle}: build it with benchmarks/vendor_candidates.py",
            file=sys.stderr,
        )
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
    bench = Bench(
        torch=torch,
        device=arguments.device,
        small=host,
        compiled=not (host or arguments.no_compile),
    )
    found = measured(bench, names, arguments)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    arguments.out.with_suffix(".md").write_text(table(found), encoding="utf-8")
    print(table(found))
    return 1 if any("error" in row for row in found["rows"]) else 0


def measured(bench: Bench, names: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything, as JSON."""
    from tilec_runtime import load

    kernels = load(str(arguments.bundle), arguments.device)
    package = packaged(arguments.package, arguments.device) if arguments.package else None
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
                done = (
                    compared_shipped(task, package, kernels, clock, plan)
                    if package
                    else compared(task, kernels, clock, plan)
                )
                rows.append(
                    {"row": task.row, "size": task.size, "unit": task.unit, **done, **clock.seen()}
                )
            except Exception as error:  # noqa: BLE001 - the others are measured all the same
                rows.append(
                    {
                        "row": task.row,
                        "size": task.size,
                        "error": f"{type(error).__name__}: {error}".split("\n")[0],
                    }
                )
            print(
                json.dumps({key: value for key, value in rows[-1].items() if key != "candidates"}),
                flush=True,
            )
            del task
    causes = (
        [cause for name in CAUSES for cause in explained(name, bench, kernels, clock, plan)]
        if arguments.causes
        else []
    )
    found = {
        "schema_version": 1,
        "benchmark": "vendor_kernels",
        "machine": machine(bench),
        "rows": rows,
        "left_out": left,
    }
    return {**found, "of": "package" if package else "candidates", "causes": causes}


def packaged(folder: Path, device: str) -> Any:
    """The kernels of the package that `tilec build` of examples/kernels put into a folder."""
    sys.path.insert(0, str(folder.resolve()))
    try:
        return importlib.import_module("tilec_kernels").load(device)
    finally:
        del sys.path[0]


def compared(task: Task, kernels: Any, clock: Clock, plan: Plan) -> dict[str, Any]:
    """One size: every candidate is checked and tried; the best few, the twin of the best, and
    torch's ways take turns.
    """
    expected = [each.float() for each in task.expected()]
    tried = [
        tried_one(task, kernels, name, axes, clock, plan, expected)
        for name, axes in candidates(task, kernels)
    ]
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
        contenders[f"raw {best['id']}"] = launches(
            task, kernels, twin, best["kernel"], best["axes"], clock
        )
    samples = in_turns(task, contenders, clock, plan)
    safe = min(
        (one["id"] for one in right[:FINALISTS]), key=lambda name: statistics.median(samples[name])
    )
    result: dict[str, Any] = {
        "safe": spread(samples[safe], task),
        "variant": safe,
        "others": refused,
    }
    result["vendors"] = {name: spread(samples[name], task) for name in vendors}
    rivals = [name for name in vendors if not name.startswith("copy")]
    if rivals:
        rival = min(rivals, key=lambda name: statistics.median(samples[name]))
        result["against"] = {"name": rival, **ratio(samples[rival], samples[safe])}
    raw = f"raw {best['id']}"
    if raw in samples:
        result["against_raw"] = ratio(samples[raw], samples[best["id"]])
    result["candidates"] = [
        {key: value for key, value in one.items() if key != "run"} for one in tried
    ]
    return result


def candidates(task: Task, kernels: Any) -> list[tuple[str, dict[str, Any]]]:
    """The variants that do this size: kernel and axes."""
    found = []
    for name in task.launches:
        if name in kernels.kernels:
            points = {
                tuple(sorted(variant.axes)) for variant in kernels.kernels[name].info.variants
            }
            found += [
                (name, dict(point)) for point in sorted(points, key=str) if task.fits(dict(point))
            ]
    return found


def launches(
    task: Task, kernels: Any, kernel: str, of: str, axes: Mapping[str, Any], clock: Clock
) -> Callable[[int], Any]:
    """Launches of one variant, one for each set of arguments."""
    ready = [
        launch_of(kernels.kernels[kernel], axes, task.launches[of](i)) for i in range(task.sets)
    ]
    if of not in task.before:
        return lambda i: ready[i % len(ready)](clock.stream())
    name, arguments = task.before[of]
    first = [launch_of(kernels.kernels[name], axes, arguments(i)) for i in range(task.sets)]

    def both(i: int) -> Any:
        first[i % len(ready)](clock.stream())
        return ready[i % len(ready)](clock.stream())

    return both


def launch_of(
    launcher: Any, axes: Mapping[str, Any], arguments: Sequence[Any]
) -> Callable[[Any], Any]:
    """A launch of the variant with these axes, of those that the kernel has and the arguments leave
    open.
    """
    taken = {param.dtype for param in launcher.info.params}
    points = [dict(variant.axes) for variant in launcher.info.variants]
    fits = next(
        point
        for point in points
        if all(point[name] == value for name, value in axes.items() if name in point)
    )
    open_axes = {name: value for name, value in fits.items() if name not in taken}
    return lambda stream: launcher(*arguments, **open_axes, stream=stream)


def tried_one(
    task: Task,
    kernels: Any,
    name: str,
    axes: dict[str, Any],
    clock: Clock,
    plan: Plan,
    expected: Sequence[Any],
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
                return {
                    **one,
                    "error": f"wrong: relative error {error:.3g}, and {task.tolerance} is allowed",
                }
        replay, count = clock.prepared(run, task.sets, plan.sample)
        replay()
        one["us"] = round(
            statistics.median(replay() for _ in range(plan.choosing)) / count * 1e6, 3
        )
    except Exception as error:  # noqa: BLE001 - a candidate that fails is a record with its reason
        return {**one, "error": f"{type(error).__name__}: {error}".split("\n")[0]}
    return {**one, "run": run}


def machine(bench: Bench) -> dict[str, Any]:
    """Where the numbers come from."""
    torch = bench.torch
    found = {"torch": torch.__version__, "python": platform.python_version()}
    if bench.device != "cpu":
        found |= {"gpu": torch.cuda.get_device_name(bench.device), "cuda": torch.version.cuda}
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        found["driver"] = (
            subprocess.run(asked, capture_output=True, text=True, check=False)
            .stdout.split("\n")[0]
            .strip()
        )
    return found


def table(found: Mapping[str, Any]) -> str:
    """For reading."""
    lines = [
        "| kernel | size | tilec | torch | times | of raw | variant |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        if "error" in row:
            lines.append(f"| {row['row']} | {row['size']} | {row['error']} | | | | |")
            continue
        against, raw = row.get("against"), row.get("against_raw")
        rival = f"{row['vendors'][against['name']]['rate']} ({against['name']})" if against else ""
        times = (
            f"{against['times']:.3f} [{against['times_95'][0]:.3f}, {against['times_95'][1]:.3f}]"
            if against
            else ""
        )
        same = (
            f"{raw['times']:.3f} [{raw['times_95'][0]:.3f}, {raw['times_95'][1]:.3f}]"
            if raw
            else ""
        )
        lines.append(
            f"| {row['row']} | {row['size']} | {row['safe']['rate']} {row['unit']} | {rival} | {times} | {same} | {row['variant']} |"
        )
    where = ", ".join(f"{name} {value}" for name, value in found["machine"].items())
    return (
        "\n".join(
            [
                *lines,
                "",
                f"{where}; all in one run.",
                *(f"left out: {name}" for name in found["left_out"]),
            ]
        )
        + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
