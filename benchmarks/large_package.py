"""Writes a project of 100 small CUDA kernels, each for seven targets: 700 images, for
`cold_start.py --large`.

usage: python benchmarks/large_package.py FOLDER [--kernels 100]; then `tilec -C FOLDER build`,
which takes a minute or two.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "compute_80")
HEAD = """edition = 1

[package]
name = "tilec-large"
version = "1.0.0"
description = "Many small kernels"
license = "Apache-2.0"
module = "tilec_large"

[targets]
default = [{targets}]
min-driver = "580"
"""
KERNEL = """
[kernel.{name}]
source = "kernels/{name}.cu:{name}"
params = {{ z = {{ dtype = "f32", rank = 1, out = true }}, x = {{ dtype = "f32", rank = 1 }}, y = {{ dtype = "f32", rank = 1 }} }}
args = ["z.ptr", "x.ptr", "y.ptr", "i64(z.size)"]
launch = {{ requires = ["x.size == z.size", "y.size == z.size"], grid = ["cdiv(z.size, 256)"], block = [256] }}
"""
SOURCE = """/// z = x + y, and {number} that no input reaches.
extern "C" __global__ void {name}(float* z, const float* x, const float* y, long long n) {{
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i] + (n < 0 ? {number}.0f : 0.0f);
}}
"""


def write(folder: Path, kernels: int) -> None:
    """Write the manifest and a source for each kernel."""
    names = [f"add_{number:03}" for number in range(kernels)]
    (folder / "kernels").mkdir(parents=True, exist_ok=True)
    targets = ", ".join(f'"{target}"' for target in TARGETS)
    text = HEAD.format(targets=targets) + "".join(KERNEL.format(name=name) for name in names)
    (folder / "tilec.toml").write_text(text, encoding="utf-8")
    for number, name in enumerate(names):
        (folder / "kernels" / f"{name}.cu").write_text(
            SOURCE.format(name=name, number=number), encoding="utf-8"
        )


def main() -> int:
    """Write the project."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kernels", type=int, default=100)
    arguments = parser.parse_args()
    write(arguments.folder, arguments.kernels)
    print(f"{arguments.folder}/tilec.toml: {arguments.kernels} kernels for {len(TARGETS)} targets")
    return 0


if __name__ == "__main__":
    sys.exit(main())
