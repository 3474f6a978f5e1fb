"""Devices as programs name them, streams of other libraries, and failures that a mark on the cpu
device tells.
"""

from __future__ import annotations

import types

import pytest

from tests.cpu_samples import device as cpu_device
from tests.cpu_samples import later as later_launch
from tests.cpu_samples import ones
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Device, Stream, api, load, use_device
from tilec_runtime.device.devices import driver_of, ordinal_of
from tilec_runtime.device.marks import Mark, line_of
from tilec_runtime.errors import NoDeviceError, SchedulingError, UsageError

CPU = -1


def test_a_device_says_what_it_is() -> None:
    driver = FakeDriver()
    gpu, cpu = Device(0, driver=driver), Device("cpu")
    assert (gpu.ordinal, gpu.type, gpu.name, repr(gpu)) == (
        0,
        "cuda",
        "Fake H200",
        "<Device cuda:0 (Fake H200)>",
    )
    assert (cpu.ordinal, cpu.type, cpu.index, repr(cpu)) == (CPU, "cpu", CPU, "<Device cpu>")
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


def test_a_device_is_taken_wherever_devices_are() -> None:
    _, driver = cpu_device()
    mine = Device("cpu", driver=driver)
    assert (ordinal_of(mine), driver_of(mine)) == (CPU, driver)
    assert Stream(mine).driver is driver


def test_a_tensors_device_is_taken_wherever_devices_are() -> None:
    with use_device("cpu"):
        made = api.zeros(3).sync()
    assert Device(made.device) == Device("cpu")
    with use_device(made.device):
        assert api.zeros(3).sync().device == made.device == CPU


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(UsageError, match="is no device that kernels run on"):
        Device("tpu")
    with pytest.raises(NoDeviceError, match="there is no device 3"):
        Device(3, driver=FakeDriver())


def test_a_borrowed_device_is_the_device_of_its_handle() -> None:
    driver = FakeDriver()
    assert Device.borrow_raw(0, driver=driver) == Device(0, driver=driver)
    with pytest.raises(UsageError, match="is no handle of a device"):
        Device.borrow_raw("cuda:0", driver=driver)


def test_a_borrowed_stream_is_not_given_back() -> None:
    driver = FakeDriver()
    owner = types.SimpleNamespace()
    stream = Stream.borrow_raw(0x77, 0, owner=owner, driver=driver)
    assert (stream.handle, stream.__cuda_stream__(), repr(stream)) == (
        0x77,
        (0, 0x77),
        "<Stream 0x77 on cuda:0, borrowed>",
    )
    stream.close()
    assert driver.calls == []
    with pytest.raises(SchedulingError, match="the stream is closed"):
        stream.sync()


def test_new_streams_are_of_the_device() -> None:
    driver = FakeDriver()
    with Device(0, driver=driver).new_stream() as stream:
        assert (stream.device, stream.driver) == (0, driver)
    assert driver.calls == ["create_stream", "destroy_stream"]


def test_a_mark_tells_a_failure_that_somebody_else_was_told_of() -> None:
    """Two threads use one stream: the one that waits first must not take the other's error away."""

    def fail(run: object) -> None:
        raise OSError("printing failed")

    module, driver = cpu_device(fail)
    z, x, y = ones(4), ones(4), ones(4)
    with Stream("cpu", driver=driver) as stream:
        since = driver.position(CPU, stream.handle)
        later_launch(module, stream, z, x, y)
        with pytest.raises(OSError, match="printing failed"):
            stream.sync()
        mark = Mark(driver, line_of(driver, CPU, stream.handle), (since, 0))
        mark.sync()
        assert str(mark.failure) == "printing failed"
        now = driver.position(CPU, stream.handle)
        later = Mark(driver, line_of(driver, CPU, stream.handle), (now, 0))
        later.sync()
        assert later.failure is None


def test_asking_a_mark_for_its_failure_lets_the_stream_go_on() -> None:
    failing = [True]

    def run(_: object) -> None:
        if failing.pop():
            raise OSError("printing failed")

    module, driver = cpu_device(run)
    z, x, y = ones(4), ones(4), ones(4)
    with Stream("cpu", driver=driver) as stream:
        mark_since = driver.position(CPU, stream.handle)
        later_launch(module, stream, z, x, y)
        mark = Mark(driver, line_of(driver, CPU, stream.handle), (mark_since, 0))
        mark.sync()
        assert str(mark.failure) == "printing failed"
        failing.append(False)
        later_launch(module, stream, z, x, y)
        stream.sync()
    assert failing == []


def test_load_takes_a_device() -> None:
    module, driver = cpu_device()
    bundle = module._site.bundle
    assert load(bundle, Device("cpu", driver=driver))._site.driver is driver


def test_waiting_for_a_gpu_waits_for_all_of_its_streams() -> None:
    driver = FakeDriver()
    Device(0, driver=driver).sync()
    assert driver.calls == ["synchronize_device"]
