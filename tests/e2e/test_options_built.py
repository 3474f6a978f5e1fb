"""Options from the manifest to a launch: hints as axes, elements that share bytes, and compiler
flags that tilec does not know.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, Cli, environment, write
from tilec_runtime import Device, DeviceBuffer, api, load, use_device
from tilec_runtime.errors import ArgumentError

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


ROOT = Path(__file__).resolve().parents[2]


TUNED = ADD.replace(
    "matrix = { TILE = [128] }",
    "matrix = { TILE = [128], occupancy = [1, 4] }\ndispatch = { default = { occupancy = 4 } }",
)


USE = """
import numpy as np
import acme
from tilec_runtime.errors import VariantError
from tilec_runtime import Device, Tensor, use_device

kernels = acme.load("cpu")
z, x = np.zeros(1000, np.float32), np.ones(1000, np.float32)
print(kernels["add"].explain(z, x).variant.id, kernels["add"].options(occupancy=1).explain(z, x).variant.id)
kernels.add(z, x, occupancy=1)
Device("cpu").sync()
print(z[0])
with use_device("cpu"):
    t = Tensor.from_foreign(z)
    t, _ = acme.ops.add(t, x).options(occupancy=1).sync()
    try:
        acme.ops.add(t, x).options(occupancy=2)
    except VariantError as error:
        print(error)
    print(t)
"""


def test_hints_of_the_matrix(cli: Cli, tmp_path: Path) -> None:
    root = write(tmp_path / "project", HEAD + TUNED)
    cli.good(root, "build", "--targets", "sm_90,tileir")
    jobs = cli.good(root, "build", "--list").out
    assert "add-TILE128-occupancy1-sm_90" in jobs
    assert "add-TILE128-occupancy4-sm_90" in jobs
    shown = cli.good(root, "inspect", "dist/acme").out
    assert "occupancy = 1, 4 (default 4)" in shown
    assert "add-TILE128-occupancy1  (occupancy=1)" in shown
    (kernel,) = json.loads(cli.good(root, "inspect", "dist/acme", "--json").out)["kernels"]
    assert [variant["hints"] for variant in kernel["variants"]] == [
        {target: {"occupancy": value} for target in ("sm_90", "tileir")} for value in (1, 4)
    ]
    images = {
        variant["id"]: [image["sha256"] for image in variant["images"]]
        for variant in kernel["variants"]
    }
    assert len({digest for digests in images.values() for digest in digests}) == 4, (
        "each hint made code of its own"
    )
    text = (root / "dist" / "acme" / "__init__.pyi").read_text()
    assert "occupancy: Literal[1, 4] | None = None" in text

    code = f"import sys; sys.path[:0] = [{str(root / 'dist')!r}, {str(ROOT)!r}]\n{USE}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    assert done.stdout.split("\n")[:5] == [
        "add-TILE128-occupancy4 add-TILE128-occupancy1",
        "2.0",
        "add: no variant was built with the options occupancy=2; options that were built: occupancy=1; occupancy=4",
        "  fix: choose what was built, or add the option to the matrix of kernel.add (occupancy = [...]) and build again",
        "<Tensor f32[1000] on cpu>",
    ]


MANIFEST = """edition = 1
[package]
name = "fours"
version = "1.0.0"
[targets]
default = ["sm_100", "tileir"]
[kernel.widen]
source = "k/widen.py:widen"
matrix = { TILE = [64] }
launch = { grid = ["cdiv(y.shape[1], TILE)", "y.shape[0]"], requires = ["nbytes(y) == 8 * nbytes(x)"] }
[kernel.widen.params]
y = { dtype = "f32", rank = 2, out = true }
x = { dtype = "f4e2m1", rank = 2 }
[kernel.widen.assume]
sets = [{ divisible = { x = [1, 32] }, aligned = 16 }, {}]
[kernel.pairs]
source = "k/pairs.cu"
launch = { grid = ["cdiv(x.size, 512)"], block = [256] }
"""


FILES = {
    "k/widen.py": """import cuda.tile as ct


@ct.kernel
def widen(y, x, TILE: ct.Constant[int]):
    column, row = ct.bid(0), ct.bid(1)
    ct.store(y, index=(row, column), tile=ct.load(x, index=(row, column), shape=(1, TILE)).astype(ct.float32))
""",
    "k/pairs.cu": """#include <cuda_fp4.h>

extern "C" __global__ void pairs(float* y, const __nv_fp4x2_e2m1* x, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (2 * i < n) {
        const float2 both = float2(x[i]);
        y[2 * i] = both.x;
        y[2 * i + 1] = both.y;
    }
}
""",
}


def test_a_kernel_reads_pairs_of_elements(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, MANIFEST, FILES)
    cli.good(tmp_path, "build")
    shown = cli.good(tmp_path, "inspect", "dist/fours-1.0.0.tilec").out
    assert "widen(out y: f32[2], x: f4e2m1[2])" in shown
    assert "x: f4e2m1[*]" in shown
    source = (np.arange(6 * 200).reshape(6, 200) % 13 - 6).astype(ml_dtypes.float4_e2m1fn)
    module = load(tmp_path / "dist" / "fours-1.0.0.tilec", "cpu")
    with use_device("cpu") as device:
        x = api.from_host(source).sync()
        y, x = module.ops.widen(api.from_host(np.zeros((6, 200), np.float32)), x).sync()
        assert np.array_equal(y.to_host(), source.astype(np.float32))
        with x[1:3] as rows:  # contiguous, and aligned to no more than its bytes
            part = np.zeros((2, 200), np.float32)
            module.widen(part, rows)
            Device(device).sync()
        assert np.array_equal(part, source[1:3].astype(np.float32))
        out = np.zeros((6, 200), np.float32)
        module.widen(out, DeviceBuffer.from_host(source, "cpu"))
        Device(device).sync()
        assert np.array_equal(out, source.astype(np.float32))
        with pytest.raises(ArgumentError, match="whose elements may lie one in a byte there"):
            module.widen(out, source)


def test_unchecked_flags_keep_images_out_of_the_cache(tmp_path: Path) -> None:
    """Each build compiles it, nothing of it is kept, and its images say so."""
    flags = 'unchecked-flags = true\nflags = ["--split-compile=1"]\nparams'
    other = TWICE.replace("kernel.twice", "kernel.other").replace(
        '"k/twice.cu"', '"k/twice.cu:twice"'
    )
    root = write(tmp_path / "project", HEAD + TWICE.replace("params", flags) + other)
    cache = tmp_path / "cache"
    cli = Cli(environment(cache))
    assert cli.good(root, "build").jobs == {"twice-sm_90", "other-sm_90"}
    again = cli.good(root, "build")
    assert again.jobs == {"twice-sm_90"}
    assert (
        "note: twice-sm_90: not reproducible, so another build may give other bytes: unchecked-flags is on\n"
        in again.err
    )
    assert len([path for path in cache.glob("v*/images/*/*") if path.is_file()]) == 1
    shown = cli.good(root, "inspect", "dist/acme-1.0.0.tilec")
    assert shown.out.count("not reproducible: another build may give other bytes") == 1
    told = json.loads(cli.good(root, "inspect", "dist/acme-1.0.0.tilec", "--json").out)
    images = {
        kernel["name"]: kernel["variants"][0]["images"][0]["reproducible"]
        for kernel in told["kernels"]
    }
    assert images == {"twice": False, "other": True}
