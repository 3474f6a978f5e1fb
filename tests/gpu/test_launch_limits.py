"""Clusters, cooperative launches, much shared memory and early launches on a GPU: what is told to
be possible is, and no more.
"""

from __future__ import annotations

import pytest

from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    KernelFunction,
    KernelModule,
    LaunchConfig,
    load_module_from_ptx,
)
from tilec_runtime.errors import LaunchLimitError, NoDeviceError

pytestmark = pytest.mark.gpu

PTX = """
.version 7.8
.target sm_90
.address_size 64
.visible .entry nothing()
{
    ret;
}
.visible .entry pairs() .reqnctapercluster 2
{
    ret;
}
"""


@pytest.fixture(scope="module")
def loaded() -> KernelModule:
    try:
        device = Device(0)
    except NoDeviceError as error:
        pytest.skip(error.what)
    if device.info.cc < (9, 0):
        pytest.skip("clusters and early launches need compute capability 9.0")
    return load_module_from_ptx(PTX, 0)


@pytest.fixture
def nothing(loaded: KernelModule) -> KernelFunction:
    return loaded.function("nothing", ())


def launch(function: KernelFunction, config: LaunchConfig) -> None:
    AsyncKernelLaunch(function).set_launch_config(config).sync()


def test_a_kernel_that_takes_nothing(nothing: KernelFunction) -> None:
    launch(nothing, LaunchConfig(grid=3, block=32))


def test_clusters_as_wide_as_the_device_makes_them_and_no_wider(nothing: KernelFunction) -> None:
    widest = nothing.residency(LaunchConfig(grid=16, block=128, cluster=16)).max_cluster_size
    assert widest >= 8
    launch(nothing, LaunchConfig(grid=widest * 4, block=128, cluster=widest))
    with pytest.raises(
        LaunchLimitError,
        match=rf"the cluster has {2 * widest} blocks, and of 128 threads each {widest} can be one on",
    ):
        launch(nothing, LaunchConfig(grid=2 * widest, block=128, cluster=2 * widest))
    full = LaunchConfig(grid=16, block=1024, cluster=16, shared=200_000)
    held = nothing.residency(full)
    assert 1 <= held.max_cluster_size <= widest
    assert held.max_active_blocks == 1
    if held.max_cluster_size == 16 and held.max_active_clusters:
        launch(nothing, full)
    else:
        with pytest.raises(
            LaunchLimitError, match=r"the cluster has 16 blocks|no cluster of 16 blocks"
        ):
            launch(nothing, full)


@pytest.mark.parametrize("cluster", [(), 2, 4])
def test_the_largest_cooperative_grid_with_clusters_and_without(
    nothing: KernelFunction, cluster: tuple[int, ...] | int
) -> None:
    step = cluster or 1
    assert isinstance(step, int)
    most = nothing.residency(
        LaunchConfig(grid=step, block=256, cluster=cluster, shared=100_000)
    ).max_cooperative_grid
    assert most >= nothing.device.info.multiprocessors // 2
    launch(
        nothing,
        LaunchConfig(grid=most, block=256, cluster=cluster, shared=100_000, cooperative=True),
    )
    with pytest.raises(
        LaunchLimitError,
        match=rf"the cooperative grid has {most + step} blocks, and {most} can be resident",
    ):
        launch(
            nothing,
            LaunchConfig(
                grid=most + step, block=256, cluster=cluster, shared=100_000, cooperative=True
            ),
        )


def test_shared_memory_up_to_the_devices_limit(nothing: KernelFunction) -> None:
    limit = nothing.device.info.shared_optin
    assert limit > 48 * 1024
    for size in (limit, 48 * 1024 + 1, limit):
        launch(nothing, LaunchConfig(block=32, shared=size))
    with pytest.raises(
        LaunchLimitError,
        match=f"a block needs {limit + 1} bytes of shared memory, and device 0 .* allows {limit}",
    ):
        launch(nothing, LaunchConfig(block=32, shared=limit + 1))


def test_launches_that_may_begin_early(nothing: KernelFunction) -> None:
    for _ in range(3):
        launch(nothing, LaunchConfig(grid=300, block=128, programmatic=True))
    launch(nothing, LaunchConfig(grid=300, block=128, cluster=2, programmatic=True))


def test_a_cluster_that_the_kernel_was_compiled_for(loaded: KernelModule) -> None:
    pairs = loaded.function("pairs", ())
    launch(pairs, LaunchConfig(grid=4, block=64, cluster=2))
    for config, what in (
        (
            LaunchConfig(grid=4, block=64, cluster=4),
            r"the cluster is \(4, 1, 1\), and the kernel was compiled for \(2, 1, 1\)",
        ),
        (LaunchConfig(grid=3, block=64), r"grid\.x is 3, and must be divisible by cluster\.x 2"),
    ):
        with pytest.raises(LaunchLimitError, match=what):
            launch(pairs, config)
