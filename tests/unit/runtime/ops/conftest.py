"""Devices of the tests' own, which are the default ones meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime_samples import ADD, loaded
from tests.unit.runtime.ops.chain_samples import Gpu
from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import Device, use_device


@pytest.fixture
def held() -> Iterator[Held]:
    found = Held()
    with use_device(found.device):
        yield found


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    """A kernel that adds, on a double of the driver whose device is the default one meanwhile."""
    module, driver = loaded(ADD)
    with use_device(Device(0, driver=driver)):
        yield module, driver
