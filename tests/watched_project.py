"""A project whose one kernel runs on a pretended GPU, and tools of NVIDIA's that are shell scripts."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tests.page_samples import SOURCE
from tilec.package.write import write_bundle
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

IMAGE = b"an image"
ABI = (
    AbiSlot(type="ptr", expr="y.ptr", size=8, align=8),
    AbiSlot(type="i32", expr="y.size", size=4, align=4),
)
INFO = BundleInfo(
    package=PackageInfo(name="acme", version="1.0", module="acme"),
    kernels=(
        KernelInfo(
            name="scale",
            language="cuda",
            location=Location(file="scale.cu", line=1),
            params=(Param(name="y", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),),
            launch=LaunchInfo(grid=("cdiv(y.size, 256)",), block=("256",)),
            variants=(
                VariantInfo(
                    id="scale",
                    abi=ABI,
                    images=(
                        ImageInfo(
                            target=Target.parse("sm_90"),
                            digest=sha256(IMAGE),
                            size=len(IMAGE),
                            symbol="scale",
                        ),
                    ),
                ),
            ),
        ),
    ),
    sources=(("scale.cu", sha256(SOURCE.encode())),),
)
MANIFEST = """\
edition = 1
[package]
name = "acme"
version = "1.0"
[targets]
default = ["sm_80", "sm_90", "compute_80"]
[kernel.scale]
source = "scale.cu"
launch = { grid = ["cdiv(y.size, 256)"], block = [256] }
args = ["y.ptr", "i32(y.size)"]
params = { y = { rank = 1, out = true } }
[kernel.scale.case.some]
inputs.y = { shape = [300], dtype = "f32", dist = "ones" }
[kernel.scale.case.more]
inputs.y = { shape = [3000], dtype = "f32", dist = "ones" }
"""


def scale(y: int, n: int) -> None:
    target = ctypes.cast(y, ctypes.POINTER(ctypes.c_float))
    for i in range(n):
        target[i] = 2 * target[i]


def driver() -> FakeDriver:
    return FakeDriver(kernels={"scale": FakeKernel(abi=ABI, run=scale)})


def write_project(folder: Path) -> None:
    (folder / "tilec.toml").write_text(MANIFEST)
    (folder / "scale.cu").write_text(SOURCE)
    write_bundle(folder / "acme.tilec", INFO, lambda _digest: IMAGE)


def write_tool(folder: Path, name: str, script: str) -> Path:
    """A tool in folder/bin that notes in folder/calls how it is called."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        f'#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done >> {folder}/calls\necho "--" >> {folder}/calls\n{script}\n'
    )
    path.chmod(0o755)
    return path


def write_ncu(folder: Path) -> None:
    """An ncu that writes a report, and prints its details."""
    write_tool(
        folder,
        "ncu",
        'if [ "$1" = --import ]; then echo "  Speed Of Light"; exit; fi\n'
        'while [ "$1" != --export ]; do shift; done; echo report > "$2"; echo "==PROF== Disconnected"',
    )


def calls(folder: Path) -> list[list[str]]:
    """The command lines of the tools, in order."""
    return [
        text.split("\n")
        for text in (folder / "calls").read_text().removesuffix("\n--\n").split("\n--\n")
    ]
