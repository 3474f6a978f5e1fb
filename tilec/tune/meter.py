"""Times candidates on their device; a test names another meter, with planted times."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tilec.bench.clocks import Clocks, uuid_of
from tilec.bench.measure import Subject
from tilec.bench.timer import KernelTimer
from tilec.case.cases import BoundCase
from tilec.case.device import calls_of
from tilec.tune.wire import MeterSpec
from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
from tilec_runtime.launch.load import Module


class Timed(Subject, Protocol):
    """A candidate to time; see `KernelTimer`."""

    variant: str
    cache: str

    def close(self) -> None:
        """Free its memory."""


class Meter(Protocol):
    """Times candidates on one device.

    Attributes:
        driver: version of the device's driver.
        missing: why clocks cannot be read.
    """

    driver: str
    missing: str

    def clock(self) -> float:
        """Return seconds, for limits."""

    def timed(
        self,
        module: Module,
        driver: DeviceDriver,
        case: BoundCase,
        make: Callable[[], Mapping[str, Any]],
    ) -> Timed:
        """Return a candidate to time; `make` gives new arguments on the device."""


def make_meter(spec: MeterSpec, device: DeviceInfo) -> Meter:
    """Return the meter that a setup names."""
    module, _, name = spec.factory.partition(":")
    meter: Meter = getattr(importlib.import_module(module), name)(spec.text, device)
    return meter


class DeviceMeter:
    """Times real launches with the device's clock."""

    def __init__(self, text: str, device: DeviceInfo) -> None:  # noqa: ARG002 - of test meters
        self._clocks = None if device.interprets else Clocks(uuid_of(device.ordinal))
        self.driver = self._clocks.driver if self._clocks else ""
        self.missing = self._clocks.missing if self._clocks else ""

    def clock(self) -> float:
        """Return the host's seconds."""
        return time.perf_counter()

    def timed(
        self,
        module: Module,
        driver: DeviceDriver,
        case: BoundCase,
        make: Callable[[], Mapping[str, Any]],
    ) -> Timed:
        """Return the launches of a case."""
        return KernelTimer(
            module.device, driver, lambda: calls_of(case, module, make()), clocks=self._clocks
        )
