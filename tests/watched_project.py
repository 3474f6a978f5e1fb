"""A project whose one kernel runs on a pretended GPU, and tools of NVIDIA's that are shell scripts."""

from __future__ import annotations

import ctypes
from pathlib import Path

from tests.bundle_samples import write_kernels
from tests.page_samples import SOURCE
from tests.runtime_samples import TENSOR, fake_driver, image, kernel, slot
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param

ABI = (slot("ptr", "y.ptr"), slot("i32", "y.size"))
SCALE = kernel(
    "scale",
    (Param(name="y", kind=TENSOR, dtype="f32", rank=1, out=True),),
    (VariantInfo(id="scale", abi=ABI, images=(image("scale"),)),),
    launch=LaunchInfo(grid=("cdiv(y.size, 256)",), block=("256",)),
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
    return fake_driver(SCALE, run=scale)


def write_project(folder: Path) -> None:
    (folder / "tilec.toml").write_text(MANIFEST)
    (folder / "scale.cu").write_text(SOURCE)
    write_kernels(folder / "acme.tilec", SCALE)


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
