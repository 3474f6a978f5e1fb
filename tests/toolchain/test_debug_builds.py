"""Code for debuggers: its variables by language, read off the image; the same wherever it is built;
and nothing of it in a release.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.toolchain import cuda_jobs, projects, tile_jobs
from tilec_runtime.bundle.cubin import section
from tilec_runtime.model.image import Image

pytestmark = pytest.mark.toolchain

SOURCE = """#include "h.h"
__global__ void scale(float* y, const float* x, int n)
{
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < n) {
        float loaded = x[index];
        y[index] = twice(loaded);
    }
}
"""
HEADER = "__device__ float twice(float value) { float doubled = value * 2.0f; return doubled; }\n"
FOUND = ("twice", "value", "doubled", "scale", "y", "x", "n", "index", "loaded")


def names(image: Image, *asked: str) -> set[str]:
    """Which of these names a debugger can read off an image."""
    texts = section(image.data, ".debug_info") + section(image.data, ".debug_str")
    return {name for name in asked if name.encode() + b"\0" in texts}


def cuda(root: Path, target: str = "sm_90", options: Mapping[str, Any] = {}, **spec: Any) -> Image:
    projects.write(root, {"k/a.cu": SOURCE, "include/h.h": HEADER})
    return cuda_jobs.frontend().compile(
        cuda_jobs.job(
            root,
            "scale",
            target,
            options={"include": ("include",), **options},
            **{"debug": True, **spec},
        )
    )


def simt(root: Path, target: str = "sm_90", **spec: Any) -> Image:
    pytest.importorskip("numba_cuda")
    from tests.toolchain import simt_jobs

    return simt_jobs.frontend().compile(
        simt_jobs.job(simt_jobs.write(root), "add", target, **{"debug": True, **spec})
    )


def triton(root: Path, target: str = "sm_90", **spec: Any) -> Image:
    pytest.importorskip("triton")
    from tests.toolchain import triton_jobs

    return triton_jobs.frontend().compile(
        triton_jobs.job(triton_jobs.write(root), target=target, **{"debug": True, **spec})
    )


def tile(root: Path, target: str = "sm_90", **spec: Any) -> Image:
    frontend = tile_jobs.frontend()
    params = (tile_jobs.tensor("a"), tile_jobs.tensor("b"), tile_jobs.tensor("c", out=True))
    made = tile_jobs.job(
        frontend,
        tile_jobs.sample_at(root),
        "kernels/vector.py",
        "add",
        params,
        axes={"TILE": 256},
        target=target,
        **{"debug": True, **spec},
    )
    return frontend.compile(made)


@pytest.mark.parametrize("compiler", ["nvrtc", "nvcc"])
def test_cuda_kernels_have_their_variables(tmp_path: Path, compiler: str) -> None:
    if compiler == "nvcc" and not shutil.which("g++"):
        pytest.skip("no host compiler")
    image = cuda(tmp_path, options={"compiler": compiler})
    assert names(image, *FOUND) == set(FOUND)
    assert b"include\0" in section(
        image.data, ".debug_line"
    )  # sources by the project's names, which a debugger finds
    assert b"<system>" not in image.data
    release = cuda(tmp_path, debug=False, options={"compiler": compiler})
    assert not section(release.data, ".debug_info")
    assert image.info.resources.code > release.info.resources.code


def test_ptx_of_a_debug_build_is_assembled_with_its_variables(tmp_path: Path) -> None:
    text = cuda(tmp_path, "compute_80").data.decode()
    assert ".target sm_80, debug" in text
    assert ".section\t.debug_info" in text


@pytest.mark.parametrize(
    ("make", "asked", "found"),
    [
        (simt, ("z", "scaled", "factor"), ()),
        (triton, ("x_ptr", "y_ptr", "z_ptr", "n", "o"), ("x_ptr", "y_ptr", "z_ptr", "n", "o")),
        (tile, ("a", "b", "c"), ()),
    ],
)
def test_kernels_have_lines_and_these_variables(
    tmp_path: Path, make: Callable[..., Image], asked: tuple[str, ...], found: tuple[str, ...]
) -> None:
    image, release = make(tmp_path, opt=3), make(tmp_path, opt=3, debug=False)
    assert names(image, *asked) == set(found)
    assert section(image.data, ".debug_line")
    assert not section(release.data, ".debug_info")
    assert image.info.resources.code > release.info.resources.code  # it is not optimized


@pytest.mark.parametrize("make", [cuda, simt, triton, tile])
def test_the_directory_does_not_show(tmp_path: Path, make: Callable[..., Image]) -> None:
    one, other = (make(tmp_path / name) for name in ("one", "two/with a longer name"))
    assert one.data == other.data
    assert str(tmp_path).encode() not in one.data


def test_checks_of_indices_stay(tmp_path: Path) -> None:
    """numba has checks of its own in such code, which would end a kernel without a word."""
    pytest.importorskip("numba_cuda")
    from tests.toolchain import simt_jobs

    root = simt_jobs.write(tmp_path)
    texts = [
        simt_jobs.frontend()
        .compile(simt_jobs.job(root, "checked", "compute_80", bounds=True, debug=debug))
        .data.decode()
        for debug in (False, True)
    ]
    assert [text.count("trap;") for text in texts] == [1, 1]
    assert all("vprintf" in text for text in texts)
