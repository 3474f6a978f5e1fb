"""Devices as programs name them."""

from __future__ import annotations

import pytest

from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Device, api, use_device
from tilec_runtime.errors import NoDeviceError, UsageError

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


def test_a_tensors_device_is_taken_wherever_devices_are() -> None:
    with use_device("cpu"):
        made = api.zeros(3).sync()
    assert Device(made.device) == Device("cpu")
    with use_device(made.device):
        assert api.zeros(3).sync().device == made.device == CPU


def test_a_borrowed_device_is_the_device_of_its_handle() -> None:
    driver = FakeDriver()
    assert Device.borrow_raw(0, driver=driver) == Device(0, driver=driver)
    with pytest.raises(UsageError, match="is no handle of a device"):
        Device.borrow_raw("cuda:0", driver=driver)


def test_waiting_for_a_gpu_waits_for_all_of_its_streams() -> None:
    driver = FakeDriver()
    Device(0, driver=driver).sync()
    assert driver.calls == ["synchronize_device"]
