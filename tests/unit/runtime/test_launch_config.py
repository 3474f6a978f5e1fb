"""Kernels whose manifest leaves grid, block or shared memory to the caller: what a configuration
says, and what is refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.runtime_samples import ADD, Array, loaded
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import LaunchConfig, Module
from tilec_runtime.errors import ArgumentError, CallError
from tilec_runtime.model.kernel import LaunchInfo

REQUIRES = ADD.launch.requires
OPEN = dataclasses.replace(
    ADD, name="open", launch=LaunchInfo(open=("grid", "block", "shared"), requires=REQUIRES)
)
GRID = dataclasses.replace(
    ADD,
    name="gridded",
    launch=LaunchInfo(open=("grid",), block=("128",), cluster=(2,), requires=REQUIRES),
)

PRESET = dataclasses.replace(
    ADD,
    name="preset",
    launch=LaunchInfo(
        open=("grid", "block"),
        preset=True,
        grid=("cdiv(z.shape[0], 64)",),
        block=("64",),
        requires=REQUIRES,
    ),
)


def arrays(count: int = 512) -> tuple[Array, Array, Array]:
    return Array(count, ptr=0x10000), Array(count, ptr=0x20000), Array(count, ptr=0x30000)


KERNELS = (ADD, OPEN, GRID, PRESET)


Gpu = tuple[Module, FakeDriver]


def shapes(driver: FakeDriver) -> list[tuple[Any, ...]]:
    return [
        (launch.shape.grid[0], launch.shape.block[0], launch.shape.shared)
        for launch in driver.launches
    ]


def test_a_launch_without_a_config_takes_what_the_manifest_gives_too(gpu: Gpu) -> None:
    module, driver = gpu
    module.preset(*arrays(), stream=0)
    module.preset(*arrays(), config=None, stream=0)
    module.preset(*arrays(), config=LaunchConfig(grid=2, block=256), stream=0)
    module.ops["preset"](*arrays()).sync()
    module.ops["preset"](*arrays(), config=LaunchConfig(grid=3, block=32)).sync()
    assert shapes(driver) == [(8, 64, 0), (8, 64, 0), (2, 256, 0), (8, 64, 0), (3, 32, 0)]
    assert module.kernels["preset"].explain(*arrays()).shape.grid == (8, 1, 1)


def test_a_launch_says_what_the_manifest_leaves_open(gpu: Gpu) -> None:
    module, driver = gpu
    for config in (
        LaunchConfig.for_num_elems(512),
        LaunchConfig(grid=7, block=64, shared=32),
        LaunchConfig.for_num_elems(512),
    ):
        module.open(*arrays(), config=config, stream=0)
    module.open(
        *arrays(), 2.0, config=LaunchConfig.for_num_elems(0), stream=0
    )  # nothing is launched
    module.gridded(*arrays(), config=LaunchConfig(grid=6, cooperative=True), stream=0)
    module.gridded(*arrays(), config=LaunchConfig.for_num_elems(512, 128), stream=0)
    assert shapes(driver) == [(2, 256, 0), (7, 64, 32), (2, 256, 0), (6, 128, 0), (4, 128, 0)]
    assert [(launch.shape.cooperative, launch.shape.cluster) for launch in driver.launches[3:]] == [
        (True, (2,)),
        (False, (2,)),
    ]
    assert module.kernels["open"].configured(LaunchConfig(block=32)) is module.kernels[
        "open"
    ].configured(LaunchConfig(block=32))


def test_what_looks_at_a_launch_takes_its_configuration_too(gpu: Gpu) -> None:
    module, driver = gpu
    config = LaunchConfig(grid=3, block=64)
    opened = module.kernels["open"]
    assert opened.explain(*arrays(), config=config).shape == config.shape
    assert opened.residency(*arrays(), config=config).threads == 64
    with pytest.raises(CallError, match="cpu device"):
        opened.step(*arrays(), config=config)
    with pytest.raises(ArgumentError, match="the launch says no config"):
        opened.explain(*arrays())
    assert driver.launches == []


CONFIG = LaunchConfig.for_num_elems(512)
CONFIG_FIX = "pass the configuration by name: open(z, x, y, alpha, config=config)"
STREAM_FIX = "pass the stream by name: open(z, x, y, alpha, stream=stream, config=config)"


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda m: m.open(*arrays(), 1.0, CONFIG), CONFIG_FIX),
        (lambda m: m.ops.open(*arrays(), 1.0, CONFIG), CONFIG_FIX),
        (lambda m: m.open(0, CONFIG, *arrays(), 1.0), STREAM_FIX),  # the stream first, as in CUDA
        (lambda m: m.open(0, *arrays()), STREAM_FIX),
    ],
)
def test_a_configuration_by_place_is_told_its_name(gpu: Gpu, call: Any, fix: str) -> None:
    module, driver = gpu
    with pytest.raises(ArgumentError) as caught:
        call(module)
    assert (caught.value.fix, driver.launches) == (fix, [])


@pytest.mark.parametrize(
    ("kernel", "config", "message"),
    [
        (
            "open",
            None,
            "open: the manifest leaves grid, block, shared to the caller, and the launch says no config",
        ),
        ("open", 256, "open: config takes a LaunchConfig, got a int"),
        ("add", LaunchConfig(), "add: takes no config: its manifest says grid and block"),
        (
            "gridded",
            LaunchConfig(block=64),
            "gridded: the manifest says block 128 x 1 x 1, and config says 64 x 1 x 1",
        ),
        (
            "gridded",
            LaunchConfig(shared=64),
            "gridded: the manifest says shared 0, and config says 64",
        ),
        (
            "gridded",
            LaunchConfig(cluster=4),
            r"gridded: the manifest says cluster \(2,\), and config says \(4, 1, 1\)",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(
    gpu: Gpu, kernel: str, config: Any, message: str
) -> None:
    module, driver = gpu
    for call in (
        module.kernels[kernel],
        lambda *given, **said: module.ops[kernel](*given, **said).sync(),
    ):
        with pytest.raises(ArgumentError, match=f"^{message}") as caught:
            call(*arrays(), config=config)
        assert caught.value.fix
    assert driver.launches == []


def test_a_parameter_of_that_name_is_an_argument() -> None:
    params = (*ADD.params[:3], dataclasses.replace(ADD.params[3], name="config"))
    abi = tuple(
        dataclasses.replace(slot, expr=slot.expr.replace("alpha", "config"))
        for slot in ADD.variants[0].abi
    )
    variants = tuple(dataclasses.replace(variant, abi=abi) for variant in ADD.variants)
    module, driver = loaded(dataclasses.replace(ADD, params=params, variants=variants))
    module.add(*arrays(), config=2.5, stream=0)
    assert driver.launches[0].arguments[-1] == 2.5
