"""Every frontend that ships with tilec keeps the contract that is asked of others (`prebuilt` and
`triton`: see their own tests).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tilec.frontends.base import Frontend, ToolSearch
from tilec.frontends.cuda.frontend import CudaFrontend
from tilec.frontends.tile.frontend import TileFrontend
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Options, Source, Variant
from tilec.testing import contract
from tilec_runtime.model.arch import Target
from tilec_runtime.model.signature import Param, ParamKind

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


def job_for(
    language: str, target: str, params: tuple[Param, ...] = ()
) -> Callable[[Source, KernelDecl], Job]:
    def job(source: Source, decl: KernelDecl) -> Job:
        spec = KernelSpec(
            name="k", language=language, source=source, decl=decl, symbol=decl.name, params=params
        )
        return Job(spec=spec, variant=Variant(kernel="k", id="k"), target=Target.parse(target))

    return job


SEARCH = ToolSearch(path=os.environ.get("PATH", ""))
ARRAY = (Param(name="y", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),)
UNIT = {"k/unit.cuh": "#define UNIT 1.0f\n"}


def sample(
    make: type[Frontend],
    files: dict[str, str],
    path: str,
    broken: tuple[str, int],
    *,
    pulled_in: str = "k/unit.cuh",
    options: Options = (),
    target: str = "sm_90",
    params: tuple[Param, ...] = (),
) -> contract.Sample:
    return contract.Sample(
        make=make,
        files=files,
        path=path,
        pulled_in=pulled_in,
        kernel="k",
        job=job_for(make.name, target, params),
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
}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_frontend_keeps_the_contract(name: str, tmp_path: Path) -> None:
    contract.check_all(SAMPLES[name], tmp_path)
