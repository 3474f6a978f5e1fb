"""On two GPUs of one machine: half of a batch on each through `schedule`, and a kit that both tune,
against one GPU alone.

usage: python benchmarks/two_gpus.py KIT OUT.json [--pipelines examples/pipelines]. Needs a kit of
`tilec tune --prepare`, the built package of examples/pipelines, and torch for the facts of the
machine. Medians; what is compared takes turns in one run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import gpu_machine

ROOT = Path(__file__).resolve().parents[1]
ROWS, WIDTH, LAYERS, TURNS = 8192, 1024, 16, 9


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("kit", type=Path, help="what --prepare wrote")
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument(
        "--pipelines", type=Path, default=ROOT / "examples" / "pipelines", help="where its dist/ is"
    )
    arguments = parser.parse_args()
    import torch

    if torch.cuda.device_count() < 2:
        print("there are no two GPUs: nothing was measured", file=sys.stderr)
        return 3
    document = {
        "schema_version": 1,
        "benchmark": "two_gpus",
        "machine": gpu_machine(torch),
        "data_parallel": data_parallel(arguments.pipelines, (0, 1), (ROWS, WIDTH, LAYERS)),
        "tune": tuning(arguments.kit),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=2))
    return 0


def data_parallel(
    pipelines: Path, devices: Sequence[Any], sizes: tuple[int, int, int]
) -> dict[str, Any]:
    """A batch through a model, whole on the first device, and in parts on all, each part scheduled
    by the policy of its device.
    """
    import numpy as np

    from tilec_runtime import Device, SingleStream, api, use_device

    sys.path[:0] = [str(pipelines), str(pipelines / "dist")]
    package = importlib.import_module("pipelines")
    rows, width, layers = sizes
    policies = [SingleStream(Device(device)) for device in devices]
    batch = np.random.default_rng(1).standard_normal((rows, width)).astype(np.float32)
    weight = (np.random.default_rng(2).standard_normal((width, width)) / width**0.5 * 1.4).astype(
        np.float32
    )
    weights, whole, parts = [], None, []
    for policy, part in zip(policies, np.array_split(batch, len(policies)), strict=True):
        with use_device(policy.device):
            weights.append(api.from_host(weight).sync().share())
            parts.append(api.from_host(part).sync().share())
            whole = whole or api.from_host(batch).sync().share()

    def forward(x: Any, place: int) -> Any:
        def layer(h: Any) -> Any:
            return package.ops.layer(api.empty((h.shape[0], width)), h, weights[place]).first()

        op = layer(x)
        for _ in range(layers - 1):
            op = op.then(layer)
        return op.schedule(policies[place])

    found: dict[str, Any] = {}

    def one() -> None:
        found["one"] = forward(whole, 0).result()

    def all_of_them() -> None:
        futures = [forward(part, place) for place, part in enumerate(parts)]
        found["two"] = [future.result() for future in futures]

    times = in_turns({"one": one, "two": all_of_them})
    right = found["one"].to_host()
    np.testing.assert_allclose(
        np.concatenate([part.to_host() for part in found["two"]]), right, rtol=1e-3, atol=1e-4
    )
    return {
        "rows": rows,
        "width": width,
        "layers": layers,
        "ms": times,
        "speed_up": times["one"] / times["two"],
    }


def in_turns(what: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Median milliseconds of each, until its results are there."""
    samples: dict[str, list[float]] = {name: [] for name in what}
    for turn in range(TURNS + 2):
        for name, run in what.items():
            begun = time.perf_counter()
            run()
            if turn >= 2:
                samples[name].append(1e3 * (time.perf_counter() - begun))
    return {name: statistics.median(taken) for name, taken in samples.items()}


def tuning(kit: Path) -> dict[str, Any]:
    """Wall seconds of a whole `tilec tune --measure`, with every candidate in full, on one GPU and
    on two.
    """
    found: dict[str, Any] = {}
    for name, devices in (("one", "cuda:0"), ("two", "cuda:0,cuda:1")):
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                "-m",
                "tilec",
                "tune",
                "--measure",
                str(kit),
                "--device",
                devices,
                "--search",
                "grid",
                "--json",
            ]
            begun = time.perf_counter()
            done = subprocess.run(
                [*command, "--record", f"{folder}/record.json"],
                capture_output=True,
                encoding="utf-8",
                timeout=300,
                check=True,
            )
            seconds = time.perf_counter() - begun
        (kernel,) = json.loads(done.stdout)["kernels"]
        candidates = [candidate for case in kernel["cases"] for candidate in case["candidates"]]
        shares = {
            device: sum(c.get("device") == device for c in candidates)
            for device in devices.split(",")
        }
        best = {
            case["name"]: {"point": case["best"], "median_us": case["median_us"]}
            for case in kernel["cases"]
        }
        found[name] = {"seconds": seconds, "measured_by": shares, "best": best}
    return {**found, "speed_up": found["one"]["seconds"] / found["two"]["seconds"]}


if __name__ == "__main__":
    sys.exit(main())
