"""Devices for tests of transfers: the default one of the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cpu_samples import PacedCpu
from tests.waiting import Gate
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, use_device


@pytest.fixture
def pace() -> Gate:
    return Gate()


@pytest.fixture
def cpu(pace: Gate) -> Iterator[Device]:
    with use_device(Device("cpu", driver=PacedCpu(pace=pace))) as found:
        yield found


@pytest.fixture
def default_cpu() -> Iterator[None]:
    with use_device("cpu"):
        yield


@pytest.fixture
def gpu() -> Iterator[Device]:
    with use_device(Device(0, driver=FakeDriver())) as found:
        yield found


@pytest.fixture(params=["cpu", "gpu"])
def device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.getfixturevalue(request.param)
    return found
