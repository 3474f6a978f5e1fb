"""Device memory and streams of tilec's own, and the ways to name a device or a stream."""

from __future__ import annotations

import gc
import types

import numpy as np
import pytest

from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Device, DeviceBuffer, Event, Stream, api, devices, use_device
from tilec_runtime.device.devices import find_device, ordinal_of
from tilec_runtime.device.handles import stream_handle
from tilec_runtime.errors import (
    DTypeError,
    NoDeviceError,
    SchedulingError,
    TensorError,
    UsageError,
)


@pytest.fixture
def driver():
    return FakeDriver()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype="f4").reshape(3, 4),
        np.arange(5, dtype="i8")[::-1],
        np.zeros((0, 3)),
        np.float16(2),
    ],
)
def test_a_round_trip(driver, array):
    buffer = DeviceBuffer.from_host(array, driver=driver)
    assert buffer.shape == array.shape
    back = buffer.to_host()
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda driver: DeviceBuffer.from_host(np.zeros(2, "u2"), dtype="f32", driver=driver),
            DTypeError,
            r"^an array of uint16 cannot be a tensor of f32$",
        ),
        (
            lambda driver: DeviceBuffer.from_host(np.zeros(2, complex), driver=driver),
            DTypeError,
            r"^an array of complex128 cannot be a tensor of any known dtype$",
        ),
        (
            lambda driver: DeviceBuffer((2,), "float", driver=driver),
            DTypeError,
            "'float' is no dtype; known are bool",
        ),
        (
            lambda driver: DeviceBuffer((-2,), "f32", driver=driver),
            TensorError,
            "negative extent",
        ),
    ],
)
def test_buffers_that_cannot_be(driver, make, kind, message):
    with pytest.raises(kind, match=message):
        make(driver)


def test_the_interface_for_other_libraries(driver):
    buffer = DeviceBuffer((2, 3), "f16", stream=7, driver=driver)
    interface = buffer.__cuda_array_interface__
    expected = {
        "shape": (2, 3),
        "typestr": "<f2",
        "data": (buffer.ptr, False),
        "version": 3,
        "strides": None,
        "stream": 7,
    }
    assert interface == expected


def test_memory_is_given_back_once(driver):
    buffer = DeviceBuffer((8,), "f32", driver=driver)
    for _ in range(2):
        buffer.free()
    for use in (lambda: buffer.ptr, buffer.to_host):
        with pytest.raises(SchedulingError, match="the buffer was freed"):
            use()
    DeviceBuffer((8,), "f32", driver=driver)  # forgotten
    gc.collect()
    assert driver.calls == ["allocate", "free", "allocate", "free"]


def test_streams_and_events_of_our_own(driver):
    with Stream(driver=driver) as stream, Event(driver=driver) as event:
        assert stream.__cuda_stream__() == (0, stream.handle)
        assert stream_handle(stream, "k") == stream.handle
        event.record(stream)
        event.hold(7)
        event.sync()
        assert (event.reached, event.since(event)) == (True, 0)
    stream.close()
    assert driver.calls.count("destroy_stream") == driver.calls.count("destroy_event") == 1
    for use, name in ((stream.sync, "stream"), (lambda: event.record(0), "event")):
        with pytest.raises(SchedulingError, match=f"the {name} is closed"):
            use()


class TorchStream:
    cuda_stream = 0x55


TorchStream.__name__, TorchStream.__module__ = "Stream", "torch.cuda.streams"


def protocol(value):
    return type("S", (), {"__cuda_stream__": value})()


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (0, 0),
        (TorchStream(), 0x55),
        (protocol(lambda self: (0, 0x66)), 0x66),
        (protocol(property(lambda self: (0, 0x77))), 0x77),
        (types.SimpleNamespace(ptr=0x88), 0x88),
    ],
)
def test_stream_handles(stream, handle):
    assert stream_handle(stream, "k") == handle


@pytest.mark.parametrize(
    ("device", "ordinal"),
    [
        (0, 0),
        (3, 3),
        ("cuda", 0),
        ("cuda:2", 2),
        (types.SimpleNamespace(type="cuda", index=1), 1),
        (types.SimpleNamespace(type="cuda", index=None), 0),
        (types.SimpleNamespace(id=4), 4),
        (types.SimpleNamespace(device_id=5), 5),
        (types.SimpleNamespace(platform="gpu", id=13, local_hardware_id=5), 5),
        ("cpu", -1),
        (types.SimpleNamespace(type="cpu", index=None), -1),
        (types.SimpleNamespace(platform="cpu", id=0), -1),
        (H200, 0),
    ],
)
def test_names_of_devices(device, ordinal):
    assert ordinal_of(device) == ordinal


@pytest.mark.parametrize(
    ("device", "fix"),
    [
        ("gpu", "pass a number"),
        ("cpu:0", 'there is one cpu device, and its name is "cpu"; pass a number'),
        ("CPU", 'there is one cpu device, and its name is "cpu"; pass a number'),
        ("cuda:x", "pass a number"),
        (True, "pass a number"),
        (1.0, "pass a number"),
        (types.SimpleNamespace(type="mps", index=0), "pass a number"),
        (types.SimpleNamespace(platform="tpu", id=0), "pass a number"),
    ],
)
def test_what_names_no_device(device, fix):
    with pytest.raises(UsageError, match="is no device that kernels run on") as caught:
        ordinal_of(device)
    assert caught.value.fix.startswith(fix)


def test_devices(driver):
    assert [device.name for device in devices(driver)] == ["Fake H200"]
    assert str(find_device("cuda:0", driver)) == "device 0 (Fake H200)"
    with pytest.raises(
        NoDeviceError, match=r"^there is no device 1: this process sees 1, numbered from 0$"
    ):
        find_device(1, driver)


def test_a_device_says_what_it_is() -> None:
    driver = FakeDriver()
    gpu, cpu = Device(0, driver=driver), Device("cpu")
    assert (gpu.ordinal, gpu.type, gpu.name, repr(gpu)) == (
        0,
        "cuda",
        "Fake H200",
        "<Device cuda:0 (Fake H200)>",
    )
    assert (cpu.ordinal, cpu.type, cpu.index, repr(cpu)) == (-1, "cpu", -1, "<Device cpu>")
    assert gpu.info is H200
    assert Device.count(driver) == 1


def test_there_are_no_gpus_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> FakeDriver:
        raise NoDeviceError("the CUDA driver (libcuda) cannot be loaded")

    monkeypatch.setattr("tilec_runtime.device.device.process_driver", no_driver)
    assert Device.count() == 0


def test_devices_are_equal_where_they_are_the_same() -> None:
    one, other = FakeDriver(), FakeDriver()
    assert Device(0, driver=one) == Device(Device(0, driver=one))
    assert len({Device(0, driver=one), Device(0, driver=one), Device(0, driver=other)}) == 2
    assert Device(0, driver=one) != 0


def test_a_tensors_device_is_taken_wherever_devices_are() -> None:
    with use_device("cpu"):
        made = api.zeros(3).sync()
    assert Device(made.device) == Device("cpu")
    with use_device(made.device):
        assert api.zeros(3).sync().device == made.device == -1
