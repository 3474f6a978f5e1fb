"""Handles of other libraries on a GPU: contexts, streams, modules and functions that are borrowed,
`__cuda_stream__` both ways; parts and partitions of tensors as arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gpu.test_device_ops import PTX
from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    DeviceBuffer,
    Event,
    KernelFunction,
    KernelModule,
    LaunchConfig,
    Module,
    Stream,
    Tensor,
    api,
    load,
)
from tilec_runtime.errors import NoDeviceError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


PARAMS = ("ptr", "u32", "f32")


SIZE = 1 << 16


LONG = 100_000_000


@pytest.fixture(scope="module")
def module(dist: Path) -> Module:
    return load(next(dist.glob("*.tilec")), 0)


def asked(result: tuple[Any, ...]) -> Any:
    """The value of a call of cuda.bindings."""
    assert int(result[0]) == 0, result[0]
    return result[1] if len(result) == 2 else result[1:]


def scaled(function: KernelFunction, tensor: Tensor, factor: float) -> AsyncKernelLaunch:
    launch = AsyncKernelLaunch(function).push_arg(tensor).push_arg(tensor.size).push_arg(factor)
    return launch.set_launch_config(LaunchConfig.for_num_elems(tensor.size))


def test_a_device_module_and_function_of_the_driver(torch: Any) -> None:
    from cuda.bindings import driver as cuda

    handle = asked(cuda.cuDeviceGet(0))
    device = Device.borrow_raw(handle)
    assert device == Device(0)
    loaded = asked(cuda.cuModuleLoadData(PTX.encode() + b"\0"))
    symbol = asked(cuda.cuModuleGetFunction(loaded, b"scale"))
    for function in (
        KernelModule.borrow_raw(loaded, device).function("scale", PARAMS),
        KernelModule.borrow_raw(int(loaded), device).function("scale", PARAMS),
        KernelFunction.borrow_raw(symbol, device, symbol="scale", params=PARAMS),
        KernelFunction.borrow_raw(int(symbol), device, symbol="scale", params=PARAMS),
    ):
        t, _, _ = scaled(function, api.from_host(np.ones(SIZE, np.float32)).sync(), 3.0).sync()
        assert set(t.to_host().tolist()) == {3.0}


def test_streams_of_torch_are_borrowed_and_left_as_they_are(torch: Any) -> None:
    theirs = torch.cuda.Stream()
    borrowed = Stream.borrow_raw(theirs.cuda_stream, 0, owner=theirs)
    t = api.from_host(np.ones(SIZE, np.float32)).sync_on(borrowed)
    borrowed.close()
    with torch.cuda.stream(theirs):
        doubled = torch.from_dlpack(t) * 2
    theirs.synchronize()
    assert bool((doubled == 2).all())


def test_the_stream_protocol_out_and_in(torch: Any) -> None:
    from cuda.core import Device as CoreDevice

    place = CoreDevice(0)
    place.set_current()
    with Stream(0) as own:
        wrapped = place.create_stream(own)  # reads ours
        assert int(wrapped.handle) == own.handle
        external = torch.cuda.ExternalStream(own.handle)
        with torch.cuda.stream(external):
            torch.cuda._sleep(LONG)
        found = api.from_host(np.ones(8, np.float32)).to_host().enqueue_on(wrapped)
        wrapped.sync()
        assert found.tolist() == [1.0] * 8
        del wrapped
    theirs = place.create_stream()  # and we read theirs
    assert api.from_host(np.ones(8, np.float32)).to_host().sync_on(theirs).tolist() == [1.0] * 8


def test_torchs_current_stream_is_ordered_in_both_directions(module: Module, torch: Any) -> None:
    one = api.from_host(np.ones(SIZE, np.float32)).sync()
    z = api.from_host(np.zeros(SIZE, np.float32)).sync()
    for step in range(1, 4):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side), Stream(0) as own:
            torch.cuda._sleep(LONG)
            theirs = torch.full((SIZE,), float(step), device="cuda")
            x = Tensor.from_foreign(theirs)  # behind what torch's current stream has to do
            module.vector_add(z, x, one, stream=own)
            back = torch.from_dlpack(z) + 1  # behind what our stream has to do
            side.synchronize()
            assert set(back.tolist()) == {float(step) + 2}
            own.sync()


def test_a_mark_orders_two_streams_and_measures_time() -> None:
    try:
        start, end = Event(0), Event(0)
    except NoDeviceError as error:
        pytest.skip(error.what)
    with start, end, Stream() as one, Stream() as two:
        buffer = DeviceBuffer((1 << 28,), "u8")
        start.record(one)
        for byte in range(64):
            buffer.fill(byte, one)
        end.record(one)
        end.hold(two)
        host = buffer.to_host(two)
        assert end.reached
        assert np.unique(host[:: 1 << 16]).tolist() == [63]
        assert 0 < end.since(start) < 10
