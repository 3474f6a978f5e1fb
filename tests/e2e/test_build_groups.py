"""Variants that are compiled in one go: the bundle is the same whatever is built with how many
workers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, Cli, write
from tilec_runtime.bundle.read import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

MANIFEST = HEAD.replace(
    'default = ["sm_90"]', 'default = ["sm_80", "sm_90", "compute_80"]\nmin-driver = "580"'
) + (
    """
[kernel.scale]
source = "k/scale.cu"
symbol = "scale<{T}, {N}>"
matrix = { T = ["f16", "f32"], N = [1, 2] }
params = { y = { out = true } }
args = ["y.ptr"]
launch = { grid = ["1"], block = [32] }

[kernel.other]
source = "k/other.cu"
launch = { grid = ["1"], block = [32] }
"""
)
FILES = {
    "k/scale.cu": """#include <cuda_fp16.h>
#include "factor.cuh"
template <typename T, int N> __global__ void scale(T* y) {
    static_assert(N < 8, "N is too large");
    for (int i = 0; i < N; ++i) y[threadIdx.x + i] = T(FACTOR * float(y[threadIdx.x + i]));
}
""",
    "k/factor.cuh": "#define FACTOR 2.0f\n",
    "k/other.cu": "__global__ void other(float* y) { y[threadIdx.x] = 1.0f; }\n",
}
SCALE = {
    f"scale-{t}-N{n}-{target}"
    for t in ("f16", "f32")
    for n in (1, 2)
    for target in ("sm_80", "sm_90", "compute_80")
}
OTHER = {f"other-{target}" for target in ("sm_80", "sm_90", "compute_80")}


def images(root: Path) -> dict[str, tuple[str, str]]:
    """(digest, symbol) of every image by the id of its job."""
    bundle = Bundle.open(root / "dist" / "acme-1.0.0.tilec")
    bundle.verify()
    return {
        f"{variant.id}-{image.target}": (image.digest, image.symbol)
        for kernel in bundle.info.kernels
        for variant in kernel.variants
        for image in variant.images
    }


def test_workers_directories_and_selection_change_no_byte(cli: Cli, tmp_path: Path) -> None:
    built = write(tmp_path / "project", MANIFEST, FILES)
    assert cli.good(built, "build", "-j", "1").jobs == SCALE | OTHER
    elsewhere = write(tmp_path / "deeper" / "project", MANIFEST, FILES)
    cli.good(elsewhere, "build", "-j", "3", TILEC_CACHE_DIR="off")
    assert (elsewhere / "dist" / "acme-1.0.0.tilec").read_bytes() == (
        built / "dist" / "acme-1.0.0.tilec"
    ).read_bytes()
    some = ("--select", "scale-f32-N2,other-sm_80", "--targets", "sm_80,compute_80")
    cli.good(elsewhere, "build", *some, TILEC_CACHE_DIR="off")
    selected = images(elsewhere)
    assert set(selected) == {"scale-f32-N2-sm_80", "scale-f32-N2-compute_80", "other-sm_80"}
    assert selected.items() <= images(built).items()
