"""The limits of a launch: each check by its message, in the documented order, and what a driver is
told only after all of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.runtime_samples import ADD, ADD_ABI, Array, image, loaded
from tilec.testing.fake_driver import H200, FakeDriver, FakeKernel
from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    LaunchConfig,
    Module,
    load_module_from_ptx,
    use_device,
)
from tilec_runtime.device.seam import FunctionFacts, LaunchShape
from tilec_runtime.errors import LaunchLimitError, NoImageError, TilecError
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo

ARRAYS = [Array(1024, ptr=0x10000 * i) for i in (1, 2, 3)]
PTX = ".version 8.0\n.target sm_80\n.address_size 64\n"

# A kernel that is wrong in every way. Each row repairs what is told: (what is told, whether the
# image was loaded by then, the repair).
WRONG: dict[str, Any] = {
    "grid": ("2147483648", "65536"),
    "block": ("0",),
    "cluster": (4,),
    "shared": "232449",
    "cc": (8, 0),
    "target": "sm_90",
    "image": {"required_block": (64,), "max_threads": 64, "cluster": (4,)},
    "facts": {"max_threads": 64, "static_shared": 0, "registers": 255},
    "device": {"cluster": False, "cooperative": False},
    "counts": {"widest_cluster": 1, "active_clusters": 0, "active_blocks": 0},
}
STEPS: list[tuple[str, bool, dict[str, Any]]] = [
    ("block.x is 0: a block has one thread at least", False, {"block": ("2048",)}),
    (
        "grid.x 2147483648 times block.x 2048 is beyond 32-bit coordinates",
        False,
        {"grid": ("3", "65536")},
    ),
    (
        "grid.x is 3, and must be divisible by cluster.x 4",
        False,
        {"cluster": (2,), "grid": ("1058", "65536")},
    ),
    ("grid.y is 65536, and device 0 (Fake H200) allows 65535", False, {"grid": ("1058",)}),
    ("block.x is 2048, and device 0 (Fake H200) allows 1024", False, {"block": ("64", "32")}),
    (
        "the block has 2048 threads, and device 0 (Fake H200) allows 1024",
        False,
        {"block": ("128",)},
    ),
    (
        "launch.programmatic needs compute capability 9.0, and device 0 (Fake H200) is of 8.0",
        False,
        {"cc": (9, 0), "target": "sm_80"},
    ),
    ("no image runs on Fake H200", False, {"target": "sm_90"}),
    (
        "the block is (128, 1, 1), and the kernel was compiled for exactly (64, 1, 1)",
        True,
        {"image": {"max_threads": 64, "cluster": (4,)}},
    ),
    (
        "the block has 128 threads, and the kernel was compiled for 64 at most (__launch_bounds__)",
        True,
        {"image": {"cluster": (4,)}},
    ),
    ("the cluster is (2, 1, 1), and the kernel was compiled for (4, 1, 1)", True, {"image": {}}),
    (
        "the block has 128 threads, and with 255 registers each 64 fit",
        True,
        {"facts": {"max_threads": 1024, "static_shared": 0, "registers": 32}},
    ),
    (
        "a block needs 232449 bytes of shared memory, and device 0 (Fake H200) allows 232448",
        True,
        {"shared": "100000"},
    ),
    (
        "the launch has clusters of 2 blocks, and device 0 (Fake H200) has no clusters",
        True,
        {"device": {"cooperative": False}},
    ),
    (
        "the launch is cooperative, and device 0 (Fake H200) has no cooperative launches",
        True,
        {"device": {}},
    ),
    (
        "the cluster has 2 blocks, and of 128 threads each 1 can be one on device 0 (Fake H200)",
        True,
        {"counts": {"widest_cluster": 8, "active_clusters": 0, "active_blocks": 0}},
    ),
    (
        "no cluster of 2 blocks with 128 threads fits on device 0 (Fake H200)",
        True,
        {"counts": {"widest_cluster": 8, "active_clusters": 528, "active_blocks": 8}},
    ),
    (
        "the cooperative grid has 1058 blocks, and 1056 can be resident in clusters of 2 on device 0 (Fake H200)",
        True,
        {"grid": ("1056",)},
    ),
]
CHANGES = {"allow_shared", "allow_wide_clusters"}


def made(facts: dict[str, Any]) -> tuple[Module, FakeDriver]:
    launch = LaunchInfo(
        grid=facts["grid"],
        block=facts["block"],
        shared=facts["shared"],
        cluster=facts["cluster"],
        cooperative=True,
        programmatic=True,
    )
    variant = VariantInfo(
        id="add", abi=ADD_ABI, images=(image("limits", facts["target"], **facts["image"]),)
    )
    device = dataclasses.replace(H200, cc=facts["cc"], **facts["device"])
    counts = {**facts["counts"], "facts": FunctionFacts(**facts["facts"])}
    return loaded(
        dataclasses.replace(ADD, variants=(variant,), launch=launch), devices=(device,), **counts
    )


def test_every_limit_is_told_in_the_documented_order() -> None:
    facts = dict(WRONG)
    for what, was_loaded, repair in STEPS:
        module, driver = made(facts)
        with pytest.raises(TilecError) as caught:
            module.add(*ARRAYS, stream=5)
        assert caught.value.what.startswith(f"add: {what}"), caught.value.what
        assert type(caught.value) is (
            NoImageError if what.startswith("no image") else LaunchLimitError
        )
        assert bool(driver.loads) is was_loaded, what
        assert driver.launches == []
        counted = "cluster of 2" in what or "cluster has 2" in what or "cooperative grid" in what
        assert bool(CHANGES & set(driver.calls)) is counted, (
            "a function is changed after all checks that need no counting"
        )
        facts.update(repair)
    module, driver = made(facts)
    module.add(*ARRAYS, stream=5)
    assert [launch.shape for launch in driver.launches] == [
        LaunchShape(
            grid=(1056, 1, 1),
            block=(128, 1, 1),
            shared=100000,
            cluster=(2,),
            cooperative=True,
            programmatic=True,
        )
    ]
    assert driver.allowed_shared == {"limits": 100000}


@pytest.mark.parametrize(
    ("cluster", "config", "what"),
    [
        ((), LaunchConfig(block=0), "block.x is 0: a block has one thread at least"),
        (
            (),
            LaunchConfig(grid=4, cluster=(2, 0)),
            "cluster.y is 0: a cluster has one block at least",
        ),
        (
            (),
            LaunchConfig(grid=16, cluster=16, block=64),
            "the cluster has 16 blocks, and of 64 threads each 8 can be one on device 0 (Fake H200)",
        ),
        (
            (),
            LaunchConfig(grid=2**25, block=256),
            "grid.x 33554432 times block.x 256 is beyond 32-bit coordinates",
        ),
        (
            (2, 1, 1),
            LaunchConfig(grid=4, cluster=4),
            "the cluster is (4, 1, 1), and the kernel was compiled for (2, 1, 1)",
        ),
        ((2, 1, 1), LaunchConfig(grid=3), "grid.x is 3, and must be divisible by cluster.x 2"),
    ],
)
def test_limits_of_launches_without_a_bundle(
    cluster: tuple[int, ...], config: LaunchConfig, what: str
) -> None:
    facts = FunctionFacts(max_threads=1024, static_shared=0, registers=32, cluster=cluster)
    driver = FakeDriver(kernels={"scale": FakeKernel(widest_cluster=8, facts=facts)})
    device = Device(0, driver=driver)
    launch = AsyncKernelLaunch(load_module_from_ptx(PTX, device).function("scale", ()))
    with use_device(device):
        with pytest.raises(LaunchLimitError) as caught:
            launch.set_launch_config(config).sync()
        assert (caught.value.what, driver.launches) == (f"scale: {what}", [])


def test_what_is_held_of_launches_without_a_bundle() -> None:
    driver = FakeDriver(
        kernels={"scale": FakeKernel(active_blocks=6, active_clusters=90, widest_cluster=8)}
    )
    function = load_module_from_ptx(PTX, Device(0, driver=driver)).function("scale", ())
    held = function.residency(LaunchConfig(grid=4, block=256, shared=60_000, cluster=2))
    assert (held.threads, held.max_active_blocks, held.max_cooperative_grid) == (256, 6, 180)
    assert (held.suggest_block_size, held.max_cluster_size, held.max_active_clusters) == (
        1024,
        8,
        90,
    )
    assert driver.allowed_shared == {"scale": 60_000}
    wide = function.residency(LaunchConfig(grid=16, block=256, cluster=16))  # wider than any
    assert (wide.max_cluster_size, wide.max_active_clusters, wide.max_cooperative_grid) == (8, 0, 0)
    driver.calls.clear()
    with pytest.raises(
        LaunchLimitError, match=r"^scale: a block needs 300000 bytes of shared memory"
    ):
        function.residency(LaunchConfig(shared=300_000, cluster=16, grid=16))
    assert not CHANGES & set(driver.calls), "what is refused changes no function"


def test_a_kernel_that_takes_nothing() -> None:
    variant = VariantInfo(id="hello", images=(image("hello"),))
    module, driver = loaded(
        dataclasses.replace(
            ADD, name="hello", params=(), variants=(variant,), launch=LaunchInfo(grid=("3",))
        )
    )
    module.hello(stream=5)
    module.hello(stream=5)
    assert [(launch.shape.grid, launch.arguments) for launch in driver.launches] == [
        ((3, 1, 1), ())
    ] * 2
