"""What measures candidates on their device: the protocol that a test's clock fulfils too, and the
one that times real launches.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tilec.bench.clocks import Clocks, uuid_of
from tilec.bench.device import LaunchSubject
from tilec.bench.measure import ClockReading
from tilec.case.cases import BoundCase
from tilec.tune.wire import MeterSpec
from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
from tilec_runtime.launch.load import Module
from tilec_runtime.model.kernel import VariantInfo


class Timed(Protocol):
    """A candidate that can be timed; see `bench.measure.Subject`."""

    variant: VariantInfo
    cache: str

    def seconds(self, launches: int) -> float:
        """Seconds that the device is busy with so many launches in a row."""

    def clocks(self) -> ClockReading | None:
        """The clocks now."""

    def close(self) -> None:
        """Give back what it holds."""


class Meter(Protocol):
    """Times candidates on one device. `driver` is its driver's version; `missing` why clocks cannot
    be read.
    """

    driver: str
    missing: str

    def clock(self) -> float:
        """Seconds, for limits."""

    def timed(
        self,
        module: Module,
        driver: DeviceDriver,
        case: BoundCase,
        make: Callable[[], Mapping[str, Any]],
    ) -> Timed:
        """A candidate to time; `make` gives new arguments on the device."""


def make_meter(spec: MeterSpec, device: DeviceInfo) -> Meter:
    """The meter that a setup names."""
    module, _, name = spec.factory.partition(":")
    made: Meter = getattr(importlib.import_module(module), name)(spec.text, device)
    return made


class DeviceMeter:
    """Times real launches with the device's own clock."""

    def __init__(self, device: DeviceInfo) -> None:
        self._clocks = None if device.interprets else Clocks(uuid_of(device.ordinal))
        self.driver = self._clocks.driver if self._clocks else ""
        self.missing = self._clocks.missing if self._clocks else ""

    def clock(self) -> float:
        """Seconds of the host."""
        return time.perf_counter()

    def timed(
        self,
        module: Module,
        driver: DeviceDriver,
        case: BoundCase,
        make: Callable[[], Mapping[str, Any]],
    ) -> Timed:
        """Launches of the variant that the case's arguments take."""
        return LaunchSubject(
            module, driver, case.kernel, dict(case.choose), make, clocks=self._clocks
        )


def device_meter(_text: str, device: DeviceInfo) -> DeviceMeter:
    """The meter of a device."""
    return DeviceMeter(device)
