"""What `tilec inspect` takes for a bundle of 1,000 kernels x 6 targets, each image with bytes of
its own: time, CPU time and memory.

usage: PYTHONPATH=.:runtime python benchmarks/inspect_large.py [OUT.json]. Needs no compiler and no
GPU. Exits with 1 where one takes more than 2 seconds of CPU time or 300 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tilec.package.write import write_bundle
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind

KERNELS, TARGETS = 1000, ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
MOST_SECONDS, MOST_BYTES = 2.0, 300_000_000
WAYS: dict[str, tuple[str, ...]] = {
    "text": (),
    "json": ("--json",),
    "verify": ("--verify",),
    "diff": ("--diff", "BUNDLE"),
}
USED = Resources(
    registers=40, spill_stores=8, spill_loads=8, stack=16, shared=1024, constant=400, code=2048
)


def write_large(path: Path) -> None:
    """A bundle of so many kernels."""
    blobs: dict[str, bytes] = {}

    def image(kernel: int, target: str) -> ImageInfo:
        data = sha256(f"{kernel} {target}".encode()).encode() * 80  # 5 KiB
        digest = sha256(data)
        blobs[digest] = data
        return ImageInfo(
            target=Target.parse(target),
            digest=digest,
            size=len(data),
            symbol=f"scale_{kernel}",
            resources=USED,
        )

    def kernel(number: int) -> KernelInfo:
        name = f"scale_{number}"
        return KernelInfo(
            name=name,
            language="cuda",
            location=Location(file="scale.cu", line=number + 1),
            doc="Multiplies.",
            params=tuple(
                Param(name=n, kind=ParamKind.TENSOR, dtype="f32", rank=1, out=n == "y")
                for n in "yx"
            ),
            launch=LaunchInfo(
                grid=("cdiv(x.size, 256)",), block=("256",), requires=("x.size == y.size",)
            ),
            variants=(
                VariantInfo(id=name, images=tuple(image(number, target) for target in TARGETS)),
            ),
        )

    package = PackageInfo(name="large", version="1.0", module="large")
    write_bundle(
        path,
        BundleInfo(package=package, kernels=tuple(map(kernel, range(KERNELS)))),
        blobs.__getitem__,
    )


def measured(command: list[str]) -> dict[str, float]:
    """One run: seconds, seconds of the CPU, and the most memory, of that process alone."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begun
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)} failed")
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 3),
        "peak_bytes": used.ru_maxrss * 1024,
    }


def main() -> int:
    """Measure each way, the best of three."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "large.tilec")
        write_large(path)
        rows = {}
        for name, options in WAYS.items():
            words = [str(path) if word == "BUNDLE" else word for word in options]
            command = [sys.executable, "-m", "tilec", "inspect", str(path), *words]
            rows[name] = min(
                (measured(command) for _ in range(3)), key=lambda row: row["cpu_seconds"]
            )
        found = {
            "schema_version": 1,
            "benchmark": "inspect_large",
            "kernels": KERNELS,
            "images": KERNELS * len(TARGETS),
            "bundle_bytes": path.stat().st_size,
            "limits": {"cpu_seconds": MOST_SECONDS, "peak_bytes": MOST_BYTES},
            "ways": rows,
        }
    text = json.dumps(found, indent=2)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
    print(text)
    return int(
        any(
            row["cpu_seconds"] > MOST_SECONDS or row["peak_bytes"] > MOST_BYTES
            for row in rows.values()
        )
    )


if __name__ == "__main__":
    sys.exit(main())
