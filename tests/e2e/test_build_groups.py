"""Variants that are compiled in one go: the bundle is the same whatever is built with how many
workers, and failures are told apart.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, Cli, environment, write
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


@pytest.fixture(scope="module")
def built(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write(tmp_path_factory.mktemp("project"), MANIFEST, FILES)
    assert cli.good(root, "build", "-j", "1").jobs == SCALE | OTHER
    return root


def test_workers_directories_and_selection_change_no_byte(
    cli: Cli, built: Path, tmp_path: Path
) -> None:
    elsewhere = write(tmp_path / "deeper" / "project", MANIFEST, FILES)
    cli.good(elsewhere, "build", "-j", "3", TILEC_CACHE_DIR="off")
    assert (elsewhere / "dist" / "acme-1.0.0.tilec").read_bytes() == (
        built / "dist" / "acme-1.0.0.tilec"
    ).read_bytes()
    some = ("scale-f32-N2", "other-sm_80")
    cli.good(
        elsewhere,
        "build",
        "--select",
        ",".join(some),
        "--targets",
        "sm_80,compute_80",
        TILEC_CACHE_DIR="off",
    )
    selected = images(elsewhere)
    assert set(selected) == {"scale-f32-N2-sm_80", "scale-f32-N2-compute_80", "other-sm_80"}
    assert selected.items() <= images(built).items()


def test_a_variant_that_fails_is_the_one_that_is_told(tmp_path: Path) -> None:
    cli = Cli(
        environment(tmp_path / "cache")
    )  # its own: the others count on what the first build of the file finds compiled
    root = write(tmp_path / "project", MANIFEST.replace("N = [1, 2]", "N = [1, 2, 9]"), FILES)
    done = cli(root, "build", "--targets", "sm_80,compute_80")
    assert done.code == 1
    assert "4 of 14 jobs failed" in done.err
    assert 'k/scale.cu:4:5: error: static assertion failed with "N is too large"' in done.err
    kept = {path.name for path in (root / ".tilec" / "failed").iterdir()}
    assert kept == {
        f"scale-{t}-N9-{target}" for t in ("f16", "f32") for target in ("sm_80", "compute_80")
    }
    assert not (root / "dist").exists()
    # The good ones were compiled: with the bad ones kept from the target they are a group again,
    # and make it anew.
    more = '\n[[override]]\nselect = "scale-*-N9-*"\ntargets = ["sm_90"]\n'
    (root / "tilec.toml").write_text(
        (root / "tilec.toml").read_text(encoding="utf-8") + more, encoding="utf-8"
    )
    cli.good(root, "build", "--targets", "sm_80,compute_80")
    assert len({digest for job, (digest, _) in images(root).items() if job in SCALE}) == 2
