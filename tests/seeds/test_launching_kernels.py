"""cuda-oxide, "Launching Kernels": typed launches, configurations, ops, clusters and cooperative
launches.

Machine code is compiled here; programs run on a GPU, and on a pretended one for what a launch
passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.runtime_samples import fake_driver
from tests.seeds.conftest import Built
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    KernelFunction,
    LaunchConfig,
    Module,
    Tensor,
    api,
    load,
    load_module_from_ptx,
    use_device,
    zip_ops,
)
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import ArgumentError, LaunchLimitError, NoDeviceError, RequirementError

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

SOURCE = """
#include <cooperative_groups.h>

/// c = a + b.
extern "C" __global__ void vecadd(const float* a, size_t a_len, const float* b, size_t b_len, float* c, size_t c_len) {
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < c_len) c[i] = a[i] + b[i];
}

struct Affine { float scale, shift; };

/// y = scale y + shift: a struct by value, as a closure is.
extern "C" __global__ void affine(float* y, size_t y_len, Affine f) {
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < y_len) y[i] = f.scale * y[i] + f.shift;
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) ranks(unsigned* out, size_t out_len) {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0 && blockIdx.x < out_len) out[blockIdx.x] = rank;
}

/// Every block adds up what all blocks wrote before.
extern "C" __global__ void grid_sync(float* out, size_t out_len, float* sums, size_t sums_len) {
    if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x;
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0) {
        float sum = 0;
        for (size_t i = 0; i < out_len; ++i) sum += out[i];
        sums[blockIdx.x] = sum;
    }
}
"""
# A closure is passed by value: the numbers that it captures are arguments of each launch.
CLOSURES = """
from numba import cuda, float32

from tilec import simt


def map_with(scale, shift):
    @simt.kernel
    def scale_and_shift(y: simt.Mut[float32]):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = scale * y[i] + shift

    return scale_and_shift


scale_and_shift = map_with(scale=1.0, shift=0)
"""
MANIFEST = """
edition = 1

[package]
name = "oxide"
version = "0.1.0"

[targets]
default = ["sm_90", "compute_90"]
jit-fallback = "allow"

[kernel.vecadd]
source = "kernels.cu"
params = { a = { kind = "slice" }, b = { kind = "slice" }, c = { kind = "slice" } }
launch = { open = ["grid", "block"], requires = ["a.size == c.size", "b.size == c.size"] }

[kernel.affine]
source = "kernels.cu"
params = { y = { kind = "slice" }, f = { kind = "struct", size = 8 } }
launch = { open = ["grid", "block", "shared"] }

[kernel.scale_and_shift]
source = "closures.py"
language = "simt"
params = { y = {}, scale = { dtype = "f32" }, shift = { dtype = "i32" } }
launch = { open = ["grid", "block"] }

[kernel.ranks]
source = "kernels.cu"
params = { out = { kind = "slice" } }
launch = { open = ["grid", "block"] }

[kernel.grid_sync]
source = "kernels.cu"
params = { out = { kind = "slice", out = true }, sums = { kind = "slice" } }
launch = { grid = ["out.size"], block = [32], cooperative = true, requires = ["sums.size == out.size"] }
"""
N = 1024


@pytest.fixture(scope="module")
def oxide(built: Built) -> ModuleType:
    return built("oxide", kernels__cu=SOURCE, closures__py=CLOSURES, tilec__toml=MANIFEST)


@pytest.fixture(scope="module")
def bundle(oxide: ModuleType) -> Path:
    (found,) = Path(oxide.__file__ or "").parent.parent.glob("*.tilec")
    return found


Pretended = tuple[Module, FakeDriver]


@pytest.fixture
def pretended(bundle: Path) -> Iterator[Pretended]:
    """The kernels on a pretended GPU, which takes down what each launch passes."""
    driver = fake_driver(*Bundle.open(bundle).info.kernels)
    with use_device(Device(0, driver=driver)):
        yield load(bundle, 0, driver=driver), driver


def test_a_typed_launch(pretended: Pretended) -> None:
    module, driver = pretended
    a, b, c = (api.zeros(N).sync() for _ in range(3))
    module.vecadd(a, b, c, config=LaunchConfig.for_num_elems(N))
    (launch,) = [each for each in driver.launches if each.symbol == "vecadd"]
    assert launch.arguments == (a.ptr, N, b.ptr, N, c.ptr, N)
    assert (launch.shape.grid, launch.shape.block) == ((4, 1, 1), (256, 1, 1))


def test_what_does_not_fit_is_refused_before_the_driver_is_asked(pretended: Pretended) -> None:
    module, driver = pretended
    a, b, c = (api.zeros(N).sync() for _ in range(3))
    short = api.zeros(N - 1).sync()
    before = len(driver.launches)
    with pytest.raises(
        ArgumentError,
        match="vecadd: the manifest leaves grid, block to the caller, and the launch says no config",
    ):
        module.vecadd(a, b, c)
    with pytest.raises(RequirementError, match=r"vecadd: requires b.size == c.size"):
        module.vecadd(a, short, c, config=LaunchConfig.for_num_elems(N))
    with pytest.raises(LaunchLimitError, match="vecadd: the block has 2048 threads"):
        module.vecadd(a, b, c, config=LaunchConfig(grid=1, block=(1024, 2)))
    with pytest.raises(
        LaunchLimitError, match=r"ranks: grid.x is 6, and must be divisible by cluster.x 4"
    ):
        module.ranks(api.zeros(6, dtype="u32").sync(), config=LaunchConfig(grid=6, block=32))
    module.vecadd(
        *(api.zeros(0).sync() for _ in range(3)), config=LaunchConfig.for_num_elems(0)
    )  # launches nothing
    assert len(driver.launches) == before


def test_structs_and_configurations_of_two_dimensions(pretended: Pretended) -> None:
    module, driver = pretended
    y = api.zeros(N).sync()
    affine = np.array([(2.0, 1.0)], dtype=[("scale", "f4"), ("shift", "f4")])
    module.affine(y, affine, config=LaunchConfig(grid=(2, 2), block=(16, 16), shared=64))
    launch = driver.launches[-1]
    assert (launch.shape.grid, launch.shape.block, launch.shape.shared) == (
        (2, 2, 1),
        (16, 16, 1),
        64,
    )
    module.grid_sync(api.zeros(8).sync(), api.zeros(8).sync())
    assert (driver.launches[-1].shape.grid[0], driver.launches[-1].shape.cooperative) == (8, True)


def test_a_closures_numbers_are_passed_at_each_launch(pretended: Pretended) -> None:
    module, driver = pretended
    y = api.zeros(N).sync()
    config = LaunchConfig.for_num_elems(N)
    for scale, shift in ((2.0, 1), (3.0, -1)):
        module.scale_and_shift(y, scale, shift=shift, config=config)
        assert driver.launches[-1].arguments == (y.ptr, N, scale, shift)
    before = len(driver.launches)
    with pytest.raises(ArgumentError, match="shift"):
        module.scale_and_shift(y, 2.0, config=config)
    with pytest.raises(ArgumentError, match="argument 'shift' is 2147483648"):
        module.scale_and_shift(y, 2.0, 2**31, config=config)
    assert len(driver.launches) == before


def test_a_low_level_launch_of_slices_and_of_a_struct(bundle: Path, pretended: Pretended) -> None:
    """`cuda_launch!` with `slice`, `slice_mut` and a struct by value, of a module that was loaded."""
    _, driver = pretended
    opened = Bundle.open(bundle)

    def function(name: str) -> KernelFunction:
        images = opened.kernel(name).variants[0].images
        (ptx,) = [each for each in images if str(each.target) == "compute_90"]
        text = opened.image(ptx.digest).decode()
        return load_module_from_ptx(text).function(ptx.symbol)

    a, b, c = (api.zeros(N).sync() for _ in range(3))
    launch = AsyncKernelLaunch(function("vecadd"))
    for t in (a, b, c):
        launch.push_arg(t).push_arg(t.size, "u64")
    launch.set_launch_config(LaunchConfig.for_num_elems(N)).sync()
    assert driver.launches[-1].arguments == (a.ptr, N, b.ptr, N, c.ptr, N)
    affine = np.array((2.0, 1.0), dtype=[("scale", "f4"), ("shift", "f4")]).tobytes()
    launch = AsyncKernelLaunch(function("affine")).push_arg(c).push_arg(c.size, "u64")
    launch.push_arg(affine).set_launch_config(LaunchConfig.for_num_elems(N)).sync()
    assert driver.launches[-1].arguments == (c.ptr, N, affine)


# --- on a GPU
# ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def module(oxide: ModuleType) -> Any:
    try:
        return oxide.load(0)
    except NoDeviceError as error:
        pytest.skip(str(error))


def ones() -> Tensor:
    return api.ones(N).sync()


@pytest.mark.gpu
def test_kernels_run(module: Any) -> None:
    a, b, c = ones(), api.full(N, 2).sync(), api.zeros(N).sync()
    module.vecadd(a, b, c, config=LaunchConfig.for_num_elems(N))
    assert (c.to_host() == 3).all()
    module.affine(
        c,
        np.array([(2.0, 1.0)], dtype=[("scale", "f4"), ("shift", "f4")]),
        config=LaunchConfig.for_num_elems(N),
    )
    assert (c.to_host() == 7).all()
    module.scale_and_shift(c, 3.0, -1, config=LaunchConfig.for_num_elems(N))
    assert (c.to_host() == 20).all()
    out = api.zeros(16, dtype="u32").sync()
    module.ranks(out, config=LaunchConfig(grid=16, block=32))
    assert out.to_host().tolist() == [0, 1, 2, 3] * 4
    blocks, sums = api.zeros(8).sync(), api.zeros(8).sync()
    module.grid_sync(blocks, sums)
    assert sums.to_host().tolist() == [28.0] * 8


@pytest.mark.gpu
def test_ops_of_borrowed_and_of_owned_tensors(oxide: ModuleType, module: Any) -> None:
    config = LaunchConfig.for_num_elems(N)
    a, b, c = ones(), ones(), api.zeros(N).sync()
    oxide.vecadd(a, b, c, config=config).sync()

    async def main() -> Tensor:
        found = await asyncio.ensure_future(
            oxide.vecadd(ones(), ones(), api.zeros(N), config=config)
        )
        return found[2]  # type: ignore[no-any-return]

    assert (asyncio.run(main()).to_host() == 2).all()
    twice = oxide.vecadd(ones(), ones(), api.zeros(N), config=config).then(
        lambda abc: oxide.vecadd(abc[0], abc[2], abc[1], config=config)
    )
    first, second = zip_ops(twice, oxide.vecadd(ones(), ones(), api.zeros(N), config=config)).sync()
    assert (first[2].to_host().max(), second[2].to_host().max()) == (3, 2)
