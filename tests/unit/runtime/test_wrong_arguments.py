"""Arguments of a kind that nobody meant: each is refused by an error of tilec's own that names it,
and none is taken for something else.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import device
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    DeviceBuffer,
    KernelFunction,
    KernelModule,
    LaunchConfig,
    LazyLauncher,
    MemPool,
    Stream,
    StreamPoolRoundRobin,
    Tensor,
    api,
    as_op,
    load,
    load_module_from_bytes,
    load_module_from_file,
    load_module_from_ptx,
    use_device,
    use_policy,
    with_context,
)
from tilec_runtime.errors import (
    ArgumentError,
    CallError,
    SchedulingError,
    TensorError,
    TilecError,
    UsageError,
)

# What `operator.index` takes for no whole number, or what is one by accident only.
NO_NUMBERS: tuple[Any, ...] = (
    None,
    "3",
    b"3",
    1.5,
    float("nan"),
    np.float32(2),
    np.array([1, 2]),
    np.array(2.0),
    1j,
    True,
)


def made(shape: Any = 4) -> Tensor:
    with use_device("cpu"):
        return api.zeros(shape).sync()


def pointed(given: Any) -> Any:
    function = KernelFunction.borrow_raw(0x10, Device(0, driver=FakeDriver()), params=("ptr",))
    return AsyncKernelLaunch(function).push_device_ptr(given)


def test_unzip_counts_in_whole_numbers() -> None:
    for given in NO_NUMBERS[1:]:  # None leaves the count open
        with pytest.raises(UsageError, match="unzip: the number of elements"):
            as_op((1, 2)).unzip(given)


@pytest.mark.parametrize(
    ("call", "words", "kind"),
    [
        (lambda n: api.eye(n), "eye: n", TensorError),
        (lambda n: api.linspace(0, 1, n), "linspace: num", TensorError),
        (lambda n: made().partition(1).map(n), "map: the number of blocks", TensorError),
        (lambda n: made().partition(1).map(2).tiles_of(n), "tiles_of: the block", TensorError),
        (
            lambda n: StreamPoolRoundRobin(n, "cpu"),
            "StreamPoolRoundRobin: the number of streams",
            SchedulingError,
        ),
        (
            lambda n: Tensor.borrow_raw(n, (2,), "f32", device="cpu"),
            "borrow_raw: the address",
            TensorError,
        ),
        (pointed, "function: argument 0", ArgumentError),
    ],
)
def test_what_is_no_whole_number(
    call: Callable[[Any], Any], words: str, kind: type[TilecError]
) -> None:
    for given in NO_NUMBERS:
        with pytest.raises(kind) as caught:
            call(given)
        assert str(caught.value) == f"{words} is {given!r}, and must be a whole number"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda n: MemPool("cpu", max_size=n), "MemPool: max_size"),
        (lambda n: MemPool("cpu", release_threshold=n), "MemPool: release_threshold"),
        (lambda n: MemPool("cpu").set_release_threshold(n), "set_release_threshold: size"),
        (lambda n: MemPool("cpu").trim(n), "trim: keep"),
    ],
)
def test_what_is_no_size_in_bytes(call: Callable[[Any], Any], words: str) -> None:
    for given in (*NO_NUMBERS, -1, np.int64(-1)):
        with pytest.raises(UsageError) as caught:
            call(given)
        assert (
            str(caught.value)
            == f"{words} is {given!r}, and must be a whole number of bytes that is not negative"
        )


def test_whole_numbers_of_numpy_are_numbers() -> None:
    four = np.int64(4)
    assert LaunchConfig.for_num_elems(np.int64(1000)) == LaunchConfig(grid=four, block=256)
    assert (
        LaunchConfig(grid=[four, 2], block=(four,), shared=four).shape
        == LaunchConfig(grid=(4, 2), block=4, shared=4).shape
    )
    assert all(type(extent) is int for extent in LaunchConfig(grid=four).shape.grid)
    assert made(np.int64(8)).partition(1).map(four).blocks == 4
    assert len(as_op((1, 2)).unzip(np.int64(2))) == 2


@pytest.mark.parametrize(
    "given", [b"ab", bytearray(b"ab"), memoryview(b"ab"), {2, 3}, {2: 3}, "ab", (2.0,)]
)
def test_bytes_and_sets_are_no_shapes(given: Any) -> None:
    for call in (
        lambda: api.zeros(given),
        lambda: DeviceBuffer(given, "f32", "cpu"),
    ):
        with pytest.raises(TensorError, match="is no shape\n  fix: pass an int or a tuple of ints"):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: LaunchConfig(cooperative="no"),
            "LaunchConfig: cooperative is 'no', and must be True or False",
        ),  # type: ignore[arg-type]
        (
            lambda: LaunchConfig(programmatic=1),
            "LaunchConfig: programmatic is 1, and must be True or False",
        ),  # type: ignore[arg-type]
        (lambda: AsyncKernelLaunch("f"), "AsyncKernelLaunch takes a KernelFunction, got a str"),  # type: ignore[arg-type]
        (
            lambda: load_module_from_file(b"k.ptx", "cpu"),
            "load_module_from_file takes a path, got a bytes",
        ),  # type: ignore[arg-type]
        (
            lambda: load_module_from_ptx(b".version", "cpu"),
            "load_module_from_ptx takes text, got a bytes",
        ),  # type: ignore[arg-type]
        (
            lambda: load_module_from_bytes(".version", "cpu"),
            "load_module_from_bytes takes bytes, got a str",
        ),  # type: ignore[arg-type]
        (lambda: KernelModule.borrow_raw(None, "cpu"), "None is no handle of a module"),
        (lambda: KernelFunction.borrow_raw(2.5, "cpu"), "2.5 is no handle of a function"),
        (lambda: Device.borrow_raw(1.5, driver=FakeDriver()), "1.5 is no handle of a device"),
        (
            lambda: Device.borrow_raw(float("inf"), driver=FakeDriver()),
            "inf is no handle of a device",
        ),
        (lambda: MemPool.borrow_raw("16", "cpu"), "'16' is no handle of a memory pool"),
        (lambda: load(None, "cpu"), "a bundle is a path or bytes, got a NoneType"),  # type: ignore[arg-type]
        (
            lambda: KernelFunction.borrow_raw(1, "cpu").residency(3),
            "residency takes a LaunchConfig, got a int",
        ),  # type: ignore[arg-type]
        (lambda: with_context(3), "with_context takes a function, and this is a int"),  # type: ignore[arg-type]
        (lambda: LazyLauncher(3), "LazyLauncher takes a launcher, got a int"),  # type: ignore[arg-type]
        (
            lambda: as_op(1).graph_on(Stream("cpu")).update(np.ones(3)),  # type: ignore[arg-type]
            "update takes an op, and this is a ndarray\n  fix: .*api.memcpy",
        ),
    ],
)
def test_things_of_another_kind(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(CallError, match=f"^{words}"):
        call()


@pytest.mark.parametrize("given", [None, "a stream", 1.5])
def test_policies_that_give_no_stream_are_named(given: Any) -> None:
    class Odd:
        def next_stream(self) -> Any:
            return given

        def __repr__(self) -> str:
            return "<Odd>"

    with use_device("cpu"), use_policy(Odd()):
        for run in (
            lambda: as_op(1).sync(),
            lambda: as_op(1).future().result(),
            lambda: asyncio.run(_awaited(as_op(1))),
            lambda: as_op(1).graph(),
        ):
            with pytest.raises(
                SchedulingError,
                match=rf"^next_stream\(\) of <Odd> gave {given!r}, which is no stream to run an op on\n  fix: ",
            ):
                run()


# --- copies
# ------------------------------------------------------------------------------------------------------------------------


def test_a_device_is_the_same_one_in_copies_and_in_other_processes() -> None:
    here = Device("cpu")
    for copied in (copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))):
        assert copied(here) == here
    with pytest.raises(
        TypeError, match="is served by a driver of its own, which can be neither pickled nor copied"
    ):
        pickle.dumps(Device("cpu", driver=device()[1]))


async def _awaited(op: Any) -> Any:
    return await op
