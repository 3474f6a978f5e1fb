"""Launchers of a bundle as ops: arguments of any kind move in, are claimed, or come out of ops, and
all of them come back.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime_samples import (
    ADD,
    GEMM,
    TENSOR,
    image,
    kernel,
    loaded,
    on_gpu,
    slot,
)
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, Module, as_op, use_device
from tilec_runtime.errors import (
    ArgumentError,
    BorrowError,
    LaunchError,
    LaunchLimitError,
    UseAfterMoveError,
    UsedOpError,
    VariantError,
)
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param

KERNELS = (ADD, GEMM)


def test_nothing_is_enqueued_before_the_op_runs(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    op = module.ops.add(on_gpu(driver, 512), on_gpu(driver, 512), on_gpu(driver, 512), alpha=2.0)
    assert driver.launches == []
    assert op.name == "launch of add"
    z, x, y, alpha = op.sync()
    (launch,) = driver.launches
    assert launch.arguments == (z.ptr, x.ptr, y.ptr, 512, 2.0)
    assert (alpha, launch.shape.grid) == (2.0, (2, 1, 1))


def test_a_launch_that_is_refused_takes_nothing(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    z, x, y = (on_gpu(driver, 512) for _ in range(3))
    used = as_op(1.0)
    used.sync()
    shared = y.share()
    with pytest.raises(UsedOpError):
        module.ops.add(z, x, shared, used)
    with pytest.raises(BorrowError, match="there for reading only"):
        module.ops.add(shared, z, x)
    with pytest.raises(ArgumentError, match="there is no argument 'beta'"):
        module.ops.add(z, x, shared, beta=1)
    with pytest.raises(
        UseAfterMoveError, match=r"the launch of add .* cannot take the tensor twice"
    ):
        module.ops.add(z, x, x)
    out, _, same, _ = module.ops.add(z, x, shared).sync()
    assert same is shared
    out.borrow_mut().release()


# --- the grid
# ----------------------------------------------------------------------------------------------------------------------


def test_a_grid_of_the_callers(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu

    def op() -> Any:
        return module.ops.add(on_gpu(driver, 1000), on_gpu(driver, 1000), on_gpu(driver, 1000))

    for extents, grid in (
        ((7,), (7, 1, 1)),
        ((2, 3), (2, 3, 1)),
        ((on_gpu(driver, 1000).partition(256).grid,), (4, 1, 1)),
        (([2, 3, 4],), (2, 3, 4)),
    ):
        op().grid(*extents).sync()
        assert driver.launches[-1].shape.grid == grid
    for extents in ((), (1, 2, 3, 4), (-1,), (1.0,), ((),), ((1, 2, 3, 4),), ((1,), (2,)), ("44",)):
        with pytest.raises(LaunchLimitError, match="is not one to three whole numbers"):
            op().grid(*extents)


def test_a_mapped_partition_needs_blocks_that_go_on(gpu: tuple[Module, FakeDriver]) -> None:
    """Those of a kernel whose own grid has a block for each tile would write the first tiles alone."""
    module, driver = gpu
    x, y = on_gpu(driver, 1000), on_gpu(driver, 1000)
    message = (
        r"add: z is dealt out to 3 blocks, and the kernel's own grid \(4, 1, 1\) has 4\n"
        r"  cause: blocks that do not go on to further tiles would leave the rest unwritten, and of this kernel nobody can tell\n"
        r"  fix: leave map\(\) out; where the kernel's blocks do go on, say so: ops.add\(...\).grid\(3\)"
    )
    for launch in (lambda z: module.add(z, x, y), lambda z: module.ops.add(z, x, y).sync()):
        with pytest.raises(LaunchLimitError, match=message):
            launch(on_gpu(driver, 1000).partition(256).map(3))
    assert driver.launches == []
    module.add(on_gpu(driver, 1000).partition(256).map(4), x, y)  # one for each


def test_a_kernel_whose_own_grid_is_no_larger_may_have_a_mapped_partition() -> None:
    facts = (Param(name="z", kind=TENSOR, dtype="f32", rank=1, out=True),)
    stays = kernel(
        "stays",
        facts,
        (VariantInfo(id="stays", abi=(slot("ptr", "z.ptr"),), images=(image("stays"),)),),
        launch=LaunchInfo(grid=("2",)),
    )
    module, driver = loaded(stays)
    with use_device(Device(0, driver=driver)):
        module.ops.stays(on_gpu(driver, 1000).partition(256).map(3)).sync()
    assert [launch.shape.grid for launch in driver.launches] == [(3, 1, 1)]


def written(name: str, params: str) -> KernelInfo:
    """A kernel that writes several vectors, one element in each thread."""
    facts = tuple(Param(name=p, kind=TENSOR, dtype="f32", rank=1, out=True) for p in params)
    variant = VariantInfo(
        id=name, abi=tuple(slot("ptr", f"{p}.ptr") for p in params), images=(image(name),)
    )
    return kernel(
        name,
        facts,
        (variant,),
        launch=LaunchInfo(grid=(f"cdiv({params[0]}.shape[0], 256)",), block=("256",)),
    )


PAIR = written("pair", "zw")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            lambda t: t.partition(256),
            lambda t: t.partition(128),
            r"the partition z gives the launch grid \(4, 1, 1\), and the partition w gives \(8, 1, 1\)",
        ),
        (
            lambda t: t.partition(128),
            lambda t: t.partition(128),
            r"own expressions give the launch grid \(4, 1, 1\), and the partition z gives \(8, 1, 1\)",
        ),
        (
            lambda t: t.partition(256).map(2),
            lambda t: t.partition(256).map(3),
            r"mapped partition z gives the launch grid \(2, 1, 1\), and the mapped partition w gives \(3, 1, 1\)",
        ),
        (
            lambda t: t.partition(256).map(2),
            lambda t: t.partition(256),
            r"mapped partition z gives the launch grid \(2, 1, 1\), and the partition w gives \(4, 1, 1\)",
        ),
        (
            lambda t: t.partition(256),
            lambda t: t.partition_prefix(512),
            r"own expressions give the launch grid \(4, 1, 1\), and the partition w gives \(2, 1, 1\) at most",
        ),
        (
            lambda t: t,
            lambda t: t.partition(512),
            r"own expressions give the launch grid \(4, 1, 1\), and the partition w gives \(2, 1, 1\)",
        ),
    ],
)
def test_partitions_that_do_not_agree(first: Any, second: Any, message: str) -> None:
    module, driver = loaded(PAIR)
    with use_device(Device(0, driver=driver)):
        z, w = first(on_gpu(driver, 1000)), second(on_gpu(driver, 1000))
        with pytest.raises(LaunchLimitError, match=f"pair: .*{message}"):
            module.ops.pair(z, w).sync()
        with pytest.raises(LaunchLimitError, match=f"pair: .*{message}"):
            module.pair(z, w)
        with pytest.raises(LaunchLimitError, match=message):
            module.kernels["pair"].explain(z, w)
    assert driver.launches == []


@pytest.mark.parametrize(
    ("first", "second", "grid"),
    [
        (lambda t: t.partition(256), lambda t: t.partition(256), 4),
        (lambda t: t.partition(256), lambda t: t.partition_prefix(128), 4),
        (lambda t: t.partition(128).map(6), lambda t: t.partition(64).map(6), 6),
        (lambda t: t.partition(128).map(6), lambda t: t.partition_prefix(128), 6),
        (lambda t: t.partition_mut(256), lambda t: t, 4),
    ],
)
def test_partitions_that_agree(first: Any, second: Any, grid: int) -> None:
    """Launched at once and as ops, again and again: each has a plan of its own, though addresses,
    shapes and strides are the same.
    """
    module, driver = loaded(PAIR)
    with use_device(Device(0, driver=driver)):
        z, w = on_gpu(driver, 1000), on_gpu(driver, 1000)
        one, two = first(z), second(w)
        for _ in range(2):
            module.pair(one, two)
            one, two = module.ops.pair(one, two).sync()
        assert module.kernels["pair"].explain(one, two).shape.grid == (grid, 1, 1)
        with pytest.raises(LaunchLimitError):
            module.pair(one, on_gpu(driver, 1000).partition(64))
        module.pair(on_gpu(driver, 1000), on_gpu(driver, 1000))
    assert [launch.shape.grid[0] for launch in driver.launches] == [grid] * 4 + [4]


def test_partitions_of_more_dimensions() -> None:
    facts = (Param(name="z", kind=TENSOR, dtype="f32", rank=-1, out=True),)
    every = kernel(
        "every",
        facts,
        (VariantInfo(id="every", abi=(slot("ptr", "z.ptr"),), images=(image("every"),)),),
        launch=LaunchInfo(grid=("6",)),
    )
    module, driver = loaded(every)
    with use_device(Device(0, driver=driver)):
        z = on_gpu(driver, 2, 3, 1, 1).partition(1, 1, 1, 1)
        with pytest.raises(
            LaunchLimitError,
            match=r"every: the partition z has 4 dimensions, and a grid has three\n  fix: map\(\) it",
        ):
            module.ops.every(z).sync()
        module.ops.every(z.map(6)).sync()
        with pytest.raises(
            LaunchLimitError,
            match=r"give the launch grid \(6, 1, 1\), and the partition z gives \(2, 3, 1\)",
        ):
            module.ops.every(on_gpu(driver, 2, 3).partition(1, 1)).sync()
    assert [launch.shape.grid for launch in driver.launches] == [(6, 1, 1)]


# --- the rest
# ----------------------------------------------------------------------------------------------------------------------


def test_variants_are_chosen_by_axis(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu

    def op(**axes: Any) -> Any:
        return module.ops.gemm(*(on_gpu(driver, 128, 128, dtype="f16") for _ in range(3)), **axes)

    for made in (op(BM=64), op().variant(BM=64), op(), op(BM=64).variant(BM=None)):
        made.sync()
    symbols = [launch.symbol.removeprefix("gemm_f16_") for launch in driver.launches]
    assert symbols == ["64", "64", "128", "128"]
    for wrong, message in (
        (lambda: op().variant(BQ=None), "there is no axis 'BQ'"),
        (lambda: op(BM=32), "BM = 32 was not built; built are 64, 128"),
        (lambda: op().variant(BM=32), "BM = 32 was not built"),
    ):
        with pytest.raises(VariantError, match=message):
            wrong()


def test_an_op_runs_where_its_bundle_is_loaded(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    op = module.ops.add(on_gpu(driver, 8), on_gpu(driver, 8), on_gpu(driver, 8))
    message = r"add: the bundle is loaded on device 0 \(Fake H200\), and the op is run on the cpu device\n  fix: run it under use_device"
    with use_device("cpu"), pytest.raises(LaunchError, match=message):
        op.sync()
