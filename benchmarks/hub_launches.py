"""What a launch costs in the hub form, beside the generated package and torch's own operator.

    python benchmarks/hub_launches.py [--out FILE]

Needs a GPU, torch and the built examples (`tilec build`). Launches of three small tensors, in turns
of each way, microseconds of the host: the median of the turns. Writes JSON.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from tilec.package.hub import hub_files
from tilec_runtime.bundle.read import Bundle

ROOT = Path(__file__).resolve().parents[1]
TURNS, LAUNCHES = 15, 2000


def loaded(folder: Path, bundle: Path) -> ModuleType:
    opened = Bundle.open(bundle)
    for name, data in hub_files(opened.info, bundle.read_bytes(), opened.index_digest).items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    name = json.loads((folder / "metadata.json").read_text())["id"]
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cost(launch: Callable[[], object]) -> float:
    """Microseconds of the host for one launch."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(LAUNCHES):
        launch()
    spent = time.perf_counter() - started
    torch.cuda.synchronize()
    return spent / LAUNCHES * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/hub_launches.json")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "dist"))
    package = importlib.import_module("tilec_examples")
    (bundle,) = (ROOT / "dist" / "tilec_examples").glob("*.tilec")
    kernels = package.load(0)
    x, y = torch.randn(2, 4096, device="cuda")
    z = torch.empty_like(x)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        hub = loaded(Path(folder), bundle)
        imported = time.perf_counter() - started
        ways: dict[str, Callable[[], object]] = {
            "hub": lambda: hub.safe_add(z, x, y),
            "package": lambda: kernels.safe_add(z, x, y),
            "torch.add": lambda: torch.add(x, y, out=z),
        }
        for launch in ways.values():
            launch()
        rows = {name: [0.0] * TURNS for name in ways}
        for turn in range(TURNS):
            for name, launch in ways.items():
                rows[name][turn] = cost(launch)
    found = {
        "device": torch.cuda.get_device_name(0),
        "launches": LAUNCHES,
        "import_ms": round(imported * 1e3, 1),
        "us": {name: round(statistics.median(turns), 2) for name, turns in rows.items()},
        "turns": {name: [round(one, 2) for one in turns] for name, turns in rows.items()},
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["us"]))


if __name__ == "__main__":
    main()
