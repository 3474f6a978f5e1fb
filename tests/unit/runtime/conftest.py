"""A fake GPU for tests of launches: the default device, with the kernels that a module names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime_samples import loaded
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, Module, use_device


@pytest.fixture
def gpu(request: pytest.FixtureRequest) -> Iterator[tuple[Module, FakeDriver]]:
    """The kernels of the module's KERNELS, and their driver."""
    module, driver = loaded(*request.module.KERNELS)
    with use_device(Device(0, driver=driver)):
        yield module, driver
