"""Kernels that own regions of their outputs: launched on their own grid, with outputs cut into the
kernel's own tiles.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.runtime_samples import TENSOR, image, kernel, on_gpu, slot
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Module
from tilec_runtime.errors import LaunchLimitError, LayoutError
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.safety import Region, Safety
from tilec_runtime.model.signature import Param

OWNED = kernel(
    "owned",
    (Param(name="z", kind=TENSOR, dtype="f32", rank=2, out=True),),
    tuple(
        VariantInfo(
            id=f"owned-BM{size}",
            axes=(("BM", size),),
            abi=(slot("ptr", "z.ptr"),),
            images=(image(f"owned_{size}"),),
        )
        for size in (32, 64)
    ),
    axes=(("BM", (32, 64)),),
    default=(("BM", 32),),
    launch=LaunchInfo(grid=("cdiv(z.shape[0], BM)", "cdiv(z.shape[1], 16)"), block=("128",)),
    safety=Safety(regions=(Region(param="z", tile=("BM", "16")),)),
)
SHARED = dataclasses.replace(
    OWNED,
    name="shares",
    launch=LaunchInfo(grid=("cdiv(z.shape[0], BM) * cdiv(z.shape[1], 16)",), block=("128",)),
    safety=Safety(regions=(Region(param="z", tile=("BM", "16"), mapped=True),)),
)


KERNELS = (OWNED, SHARED)


def test_partitions_of_the_kernels_tiles_are_taken(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    module.ops.owned(on_gpu(driver, 100, 40).partition(32, 16)).sync()
    module.ops.owned(on_gpu(driver, 100, 40).partition(64, 16)).variant(BM=64).sync()
    module.ops.owned(on_gpu(driver, 100, 40).partition_prefix(32, 16)).grid(2, 3).sync()
    module.ops.owned(on_gpu(driver, 100, 40)).sync()
    module.ops.shares(on_gpu(driver, 100, 40).partition(32, 16).map(5)).sync()
    module.ops.shares(on_gpu(driver, 100, 40)).grid(7).sync()
    assert [launch.shape.grid for launch in driver.launches] == [
        (4, 3, 1),
        (2, 3, 1),
        (2, 3, 1),
        (4, 3, 1),
        (5, 1, 1),
        (7, 1, 1),
    ]


def test_other_tiles_are_refused_also_where_the_grid_is_the_same(
    gpu: tuple[Module, FakeDriver],
) -> None:
    module, driver = gpu
    owned = module.ops.owned
    owned(on_gpu(driver, 30, 16).partition(32, 16)).variant(
        BM=32
    ).sync()  # what follows has the grid of a launch that is known
    with pytest.raises(LayoutError) as caught:
        owned(on_gpu(driver, 30, 16).partition(64, 16)).variant(BM=32).sync()
    assert str(caught.value).startswith("owned: ")
    assert "is cut into tiles of (64, 16), and the kernel's blocks write tiles of (32, 16)" in str(
        caught.value
    )
    assert "fix: partition(32, 16), or choose the variant of that tile" in str(caught.value)
    assert len(driver.launches) == 1


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (
            lambda ops, z: ops.owned(z.partition(32, 16).map(2)),
            "owned: z is dealt out to blocks, and each block of the kernel writes one tile of it",
        ),
        (
            lambda ops, z: ops.shares(z.partition(32, 16)),
            "shares: z is not dealt out to blocks, and the kernel's blocks share its tiles",
        ),
        *(
            (
                lambda ops, z, grid=grid: ops.owned(z).grid(*grid),
                r"owned: the grid \(.*\) is not that of the tiles of z, \(4, 3, 1\): each block owns one",
            )
            for grid in ((4, 3, 2), (8, 3), (2, 3), (1,))
        ),
        (
            lambda ops, z: ops.shares(z).grid(4, 2),
            r"shares: the grid \(4, 2, 1\) has more than one dimension, and blocks that share",
        ),
    ],
)
def test_no_region_is_written_by_two_blocks(
    gpu: tuple[Module, FakeDriver], make: Any, what: str
) -> None:
    module, driver = gpu
    with pytest.raises(LaunchLimitError, match=what):
        make(module.ops, on_gpu(driver, 100, 40)).sync()
    assert driver.launches == []
