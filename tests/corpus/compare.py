"""Runs the corpus on a GPU and on the cpu device, and says how far their results are apart.

`python -m tests.corpus.compare BUNDLE --out FILE` on a machine with a GPU; it needs no compiler.
With `--record` it also writes what the GPU gave (`recorded.py` reads it), so that machines without
one can be held against it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.corpus.entries import Array, Entry, inputs_of
from tests.corpus.tolerances import tolerance
from tests.corpus.write import entries
from tilec.case.cases import BoundCase
from tilec.case.device import ModuleDevice
from tilec_runtime.device.devices import process_driver
from tilec_runtime.errors import TilecError
from tilec_runtime.launch.load import load


def ulps(one: Array, two: Array, scale: Array | None = None) -> Array:
    """Distance of each pair of elements: numbers of their dtype between them. Two NaNs are equal; a
    NaN and a number infinitely far.

    With `scale`, units in the last place are those of the numbers there: a sum is as exact as its
    largest terms let it be.
    """
    if one.dtype.kind in "biu":
        return (one != two).astype(np.float64) * np.abs(
            one.astype(np.float64) - two.astype(np.float64)
        )
    with np.errstate(all="ignore"):
        wide_one, wide_two = one.astype(np.float64), two.astype(np.float64)
        nan_one, nan_two = np.isnan(wide_one), np.isnan(wide_two)
        if scale is None:
            distance = np.abs(_ordered(one) - _ordered(two)).astype(np.float64)
        else:
            unit = np.abs(scale.astype(np.float64)) * float(ml_dtypes.finfo(one.dtype).eps)
            distance = np.where(wide_one == wide_two, 0.0, np.abs(wide_one - wide_two) / unit)
    found: Array = np.where(nan_one & nan_two, 0.0, np.where(nan_one | nan_two, np.inf, distance))
    return found


def canonical(array: Array) -> bytes:
    """Bytes of an array, with one NaN for all NaNs: which of them an operation gives is left open."""
    if array.dtype.kind in "biu":
        return array.tobytes()
    clean = array.copy()
    with np.errstate(all="ignore"):
        clean[np.isnan(array.astype(np.float64))] = np.nan
    return clean.tobytes()


def run(entry: Entry, device: ModuleDevice, *, absolute: bool = False) -> dict[str, Array]:
    """Launch one entry, with its inputs or with their absolute values; its outputs."""
    given = inputs_of(entry)
    if absolute:
        given = {
            name: np.abs(array) if array.dtype.kind not in "bu" else array
            for name, array in given.items()
        }
    arguments = {arg.name: device.to_device(given[arg.name], arg.dtype) for arg in entry.args}
    device.launch(BoundCase(name=entry.name, kernel=entry.name), arguments)
    return {arg.name: device.from_device(arguments[arg.name]) for arg in entry.args if arg.out}


class Record:
    """What a GPU gave: the digest of every entry, and the arrays of those that the cpu device may
    give a little otherwise.
    """

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.arrays: dict[str, Array] = {}

    def take(self, entry: Entry, outputs: dict[str, Array]) -> None:
        """Keep an entry's outputs."""
        self.digests[entry.name] = digest(outputs)
        if tolerance(entry):
            self.arrays.update(
                (f"{entry.name}.{name}", array.view(np.uint8)) for name, array in outputs.items()
            )

    def write(self, path: Path, **about: Any) -> None:
        """Write PATH.json and PATH.npz."""
        text = json.dumps({**about, "digests": self.digests}, indent=0, sort_keys=True)
        path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
        with path.with_suffix(".npz").open("wb") as file:
            np.savez_compressed(file, **self.arrays)  # type: ignore[arg-type]


def digest(outputs: dict[str, Array]) -> str:
    """What outputs are, in 16 characters."""
    return hashlib.sha256(b"".join(canonical(array) for array in outputs.values())).hexdigest()[:16]


def hold(
    entry: Entry, gpu: dict[str, Array], cpu: dict[str, Array], scale: dict[str, Array]
) -> dict[str, Any]:
    """One row of the report; `scale` is empty where the distance is that of the results themselves."""
    row: dict[str, Any] = {
        "name": entry.name,
        "operation": entry.operation,
        "allowed": tolerance(entry),
    }
    worst, off, first = 0.0, 0, None
    for name, expected in gpu.items():
        distance = ulps(cpu[name], expected, scale.get(name))
        worst = max(worst, float(distance.max(initial=0.0)))
        off += int((distance > 0).sum())
        if first is None and (distance > tolerance(entry)).any():
            place = np.unravel_index(int(np.argmax(distance)), distance.shape)
            first = {
                "index": [int(n) for n in place],
                "cpu": str(cpu[name][place]),
                "gpu": str(expected[place]),
            }
    status = "equal" if worst == 0 else "within" if worst <= tolerance(entry) else "differs"
    row |= {"status": status, "ulps": worst if np.isfinite(worst) else "inf", "off": off}
    return row | ({"first": first} if first else {})


def compare(
    chosen: Iterable[Entry], bundle: Path, device: str, record: Record | None = None
) -> dict[str, Any]:
    """The whole report; `record` takes what the GPU gave."""
    driver = process_driver()
    module = load(bundle, device, driver=driver)
    gpu, cpu = ModuleDevice(module, driver), cpu_device(bundle)
    rows = []
    for entry in chosen:
        try:
            one, two = run(entry, gpu), run(entry, cpu)
            scale = {} if entry.ordered else run(entry, cpu, absolute=True)
            rows.append(hold(entry, one, two, scale))
            if record is not None:
                record.take(entry, one)
        except TilecError as error:
            rows.append(
                {
                    "name": entry.name,
                    "operation": entry.operation,
                    "status": "error",
                    "error": str(error),
                }
            )
    counts = {
        status: sum(row["status"] == status for row in rows)
        for status in ("equal", "within", "differs", "error")
    }
    return {
        "device": module.device.name,
        "driver": list(module.device.driver),
        "counts": counts,
        "entries": rows,
    }


def cpu_device(bundle: Path) -> ModuleDevice:
    """The bundle on the cpu device."""
    from tilec_runtime.cpu.driver import cpu_driver

    driver = cpu_driver()
    return ModuleDevice(load(bundle, "cpu", driver=driver), driver)


def _ordered(array: Array) -> Array:
    """Bits of floats as integers in the order of the numbers; +0 and -0 are one apart."""
    width = array.dtype.itemsize
    bits = array.view(f"i{width}").astype(np.int64)
    lowest = np.int64(-(2 ** (8 * width - 1)))
    found: Array = np.where(bits >= 0, bits, lowest - bits - 1)
    return found


def main() -> int:
    """Exit code 0 if nothing differs by more than the table says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--record",
        type=Path,
        metavar="NAME",
        help="write NAME.json and NAME.npz: what the GPU gave",
    )
    parser.add_argument("-k", default="", help="only entries whose name contains this")
    chosen = parser.parse_args()
    record = Record() if chosen.record else None
    report = compare(
        [entry for entry in entries() if chosen.k in entry.name],
        chosen.bundle,
        chosen.device,
        record,
    )
    if record is not None:
        record.write(chosen.record, device=report["device"], driver=report["driver"])
    chosen.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{report['device']}: {report['counts']}\n")
    return 1 if report["counts"]["differs"] or report["counts"]["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
