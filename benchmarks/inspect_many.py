"""`tilec inspect` of a bundle of 1,000 kernels for six targets: time and peak memory of text, JSON, one kernel, a verification, a diff.

The images have the size and form of real ones: each is a cubin of the examples, made another one by a few bytes behind its end.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import ROOT, cores, environment, median, options, save, tilec

from tilec.bundle.write import write_bundle
from tilec.inspection.container import open_container
from tilec.model.arch import Target
from tilec.model.digest import sha256

KERNELS = 1000
TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
WANTED = "wanted: under 2 s and 300 MB"


def main() -> None:
    """Measure and save."""
    parser = options(__doc__ or "", repeats=5)
    parser.add_argument("--like", type=Path, default=ROOT / "dist" / "tilec-examples-0.1.0.tilec", help="bundle of the examples")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path, other = Path(scratch) / "many.tilec", Path(scratch) / "other.tilec"
        write(path, arguments.like, "1.0")
        write(other, arguments.like, "1.1")
        lines = {
            "inspect": [str(path)],
            "inspect --json": [str(path), "--json"],
            "inspect --select kernel_500": [str(path), "--select", "kernel_500"],
            "inspect --verify": [str(path), "--verify"],
            "inspect --diff": [str(other), "--diff", str(path)],
        }
        found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in lines}
        for _ in range(arguments.repeats):
            for name, words in lines.items():
                found[name].append(inspected(words))
        size = path.stat().st_size
    table = [("bundle", f"{KERNELS} kernels for {len(TARGETS)} targets, {size / 2**20:.0f} MiB")]
    for name, rows in found.items():
        wall, cpu, peak = (median([row[i] for row in rows]) for i in range(3))
        table.append((f"tilec {name}", f"{wall:.2f} s, {cpu:.2f} s of processor time, {peak / 2**20:.0f} MiB ({WANTED})"))
    busy = f"{os.getloadavg()[0]:.1f} processes on {cores()} cores"
    table.append(("load of the machine", busy))
    save("inspect_many", arguments.out, {"bytes": size, "seconds, processor seconds, bytes": found, "load": busy}, table)


def write(path: Path, like: Path, version: str) -> None:
    """A bundle of many kernels that are one of the examples'."""
    bundle = open_container(like).bundle
    (model,) = (kernel for kernel in bundle.info.kernels if kernel.name == "saxpy")
    variant = model.variants[0]
    image = next(one for one in variant.images if str(one.target) == "sm_90")
    data = bundle.image(image.digest)
    blobs: dict[str, bytes] = {}
    kernels = []
    for number in range(KERNELS):
        images = []
        for target in TARGETS:
            blob = data + f"{number} {target} {version}".encode()
            digest = sha256(blob)
            blobs[digest] = blob
            images.append(dataclasses.replace(image, target=Target.parse(target), digest=digest, size=len(blob)))
        name = f"kernel_{number}"
        variants = (dataclasses.replace(variant, id=name, images=tuple(images)),)
        kernels.append(dataclasses.replace(model, name=name, variants=variants))
    package = dataclasses.replace(bundle.info.package, version=version)
    write_bundle(path, dataclasses.replace(bundle.info, package=package, kernels=tuple(kernels)), blobs.__getitem__)


def inspected(words: list[str]) -> tuple[float, float, int]:
    """(seconds, processor seconds, peak bytes) of one command.

    Raises:
        SystemExit: it failed.
    """
    start = time.perf_counter()
    process = subprocess.Popen([tilec(), "inspect", *words], stdout=subprocess.DEVNULL, env=environment({}))
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"tilec inspect {' '.join(words)} exited with {os.waitstatus_to_exitcode(status)}")
    process.returncode = 0  # it was waited for above
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


if __name__ == "__main__":
    main()
