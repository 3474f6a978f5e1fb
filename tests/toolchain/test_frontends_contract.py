"""Every frontend that ships with tilec keeps the contract that is asked of others (`prebuilt`: see
its own tests).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.toolchain import simt_jobs, triton_jobs
from tests.toolchain.projects import SEARCH, tensor
from tilec.frontends.base import Frontend
from tilec.frontends.cuda.frontend import CudaFrontend
from tilec.frontends.simt.frontend import SimtFrontend
from tilec.frontends.tile.frontend import TileFrontend
from tilec.frontends.triton.frontend import TritonFrontend
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Options, Source, Variant
from tilec.testing import contract
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import AxisValue

pytestmark = pytest.mark.toolchain

CUDA = '#include "unit.cuh"\nextern "C" __global__ void k(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = UNIT; }\n'
LINKED = '__device__ float unit();\nextern "C" __global__ void k(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = unit(); }\n'
TILE_CPP = """#include <cuda_tile.h>
#include "unit.cuh"
__tile_global__ void k(float* y, int n) {
    cuda::tiles::partition_view into{cuda::tiles::tensor_span{y, cuda::tiles::extents{n}}, cuda::tiles::shape<16>{}};
    into.store_masked(into.load_masked(0) + UNIT, 0);
}
"""
TILE_PY = """import cuda.tile as ct
from unit import UNIT


@ct.kernel
def k(y):
    ct.store(y, (ct.bid(0),), ct.full((16,), UNIT, ct.float32))
"""


ARRAY = (tensor("y", out=True),)
UNIT = {"k/unit.cuh": "#define UNIT 1.0f\n"}


def sample(
    make: type[Frontend],
    files: dict[str, str],
    path: str,
    broken: tuple[str, int],
    *,
    kernel: str = "k",
    pulled_in: str = "k/unit.cuh",
    options: Options = (),
    target: str = "sm_90",
    axes: tuple[tuple[str, AxisValue], ...] = (),
    **spec: Any,
) -> contract.Sample:
    def job(source: Source, decl: KernelDecl) -> Job:
        made = KernelSpec(
            name=kernel,
            language=make.name,
            source=source,
            decl=decl,
            symbol=decl.name,
            **{"params": (), **spec},
        )
        variant = Variant(kernel=kernel, id=kernel, axes=axes)
        return Job(spec=made, variant=variant, target=Target.parse(target))

    return contract.Sample(
        make=make,
        files=files,
        path=path,
        pulled_in=pulled_in,
        kernel=kernel,
        job=job,
        broken=broken,
        options=options,
        search=SEARCH,
        said=make.name == "tile" and path.endswith(".cu"),
    )


SAMPLES = {
    "cuda": sample(
        CudaFrontend, {"k/a.cu": CUDA, **UNIT}, "k/a.cu", (CUDA.replace("UNIT;", "UNIT"), 2)
    ),
    "cuda, linked": sample(
        CudaFrontend,
        {"k/a.cu": LINKED, "unit.cu": "__device__ float unit() { return 1.0f; }\n"},
        "k/a.cu",
        (LINKED.replace("unit(); }", "unit() }"), 2),
        pulled_in="unit.cu",
        options=(("link", ("unit.cu",)),),
    ),
    "cuda, nvcc": sample(
        CudaFrontend,
        {"k/a.cu": CUDA, **UNIT},
        "k/a.cu",
        (CUDA.replace("UNIT;", "UNIT"), 2),
        options=(("compiler", "nvcc"),),
    ),
    "tile, C++": sample(
        TileFrontend,
        {"k/a.cu": TILE_CPP, **UNIT},
        "k/a.cu",
        (TILE_CPP.replace("int n", "itn n"), 3),
        target="tileir",
    ),
    "tile, Python": sample(
        TileFrontend,
        {"k/a.py": TILE_PY, "k/unit.py": "UNIT = 1.0\n"},
        "k/a.py",
        (TILE_PY.replace("def k(y):", "def k(y:"), 6),
        pulled_in="k/unit.py",
        target="tileir",
        params=ARRAY,
    ),
    "simt": sample(
        SimtFrontend,
        simt_jobs.FILES,
        "k/a.py",
        (simt_jobs.KERNELS.replace("scaled(x[i], a)", "scaled(x[i], b)"), 17),
        kernel="add",
        pulled_in="k/common.py",
        params=simt_jobs.ADD,
        axes=(("T", "f32"),),
    ),
    "triton": sample(
        TritonFrontend,
        triton_jobs.FILES,
        "k/a.py",
        (triton_jobs.KERNELS.replace("x + y * common.SCALE, mask=o < n", "x + w"), 12),
        kernel="add",
        pulled_in="k/common.py",
        params=triton_jobs.ADD_PARAMS,
        abi=triton_jobs.ADD_ABI,
        axes=(("T", "f32"), ("BLOCK", 256)),
    ),
}
# The packages that they need, where tests may run without them.
NEEDED = {"simt": "numba_cuda", "triton": "triton"}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_frontend_keeps_the_contract(name: str, tmp_path: Path) -> None:
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    contract.check_all(SAMPLES[name], tmp_path)
