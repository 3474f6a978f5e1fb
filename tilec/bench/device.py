"""A device to measure on: times kernels and their rivals, and knows its ceilings."""

from __future__ import annotations

import contextlib
import functools
import platform
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tilec.bench.ceilings import known_ceilings, measured_apart
from tilec.bench.clocks import Clocks, driver_text, uuid_of
from tilec.bench.libraries import Library, NumpyLibrary, open_library
from tilec.bench.report import Setting
from tilec.bench.rivals import Call
from tilec.bench.timer import HostTimer, KernelTimer, RivalTimer, plan_cache
from tilec.bench.work import Ceilings
from tilec.case.cases import BoundCase
from tilec.case.device import ModuleDevice, calls_of
from tilec.case.inputs import Value
from tilec.case.run import arguments_on
from tilec.compile.cache import Cache
from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
from tilec_runtime.launch.load import Module


class BenchDevice:
    """A bundle on a device to measure on.

    Args:
        module: the bundle, loaded on the device.
        driver: the driver of the device.
        cold: whether launches find the L2 cache cold.
        cache: the user's cache, which keeps ceilings.
        advice: how to get Tile IR into the bundle.

    Attributes:
        setting: what its measurements have in common.
        clocks_missing: why its clocks cannot be read; empty where they can.
    """

    def __init__(
        self,
        module: Module,
        driver: DeviceDriver,
        *,
        cold: bool,
        cache: Cache,
        advice: str = "",
    ) -> None:
        self._module, self._driver, self._device = module, driver, module.device
        self._cold, self._cache = cold, cache
        self._runner = ModuleDevice(module, driver, advice=advice)
        self._uuid = "" if self._device.interprets else uuid_of(self._device.ordinal)
        self._clocks = None if self._device.interprets else Clocks(self._uuid)
        self.clocks_missing = self._clocks.missing if self._clocks else ""
        driver_version = driver_text(self._device, self._clocks)
        self.setting = setting_of(self._device, driver_version, cold=cold)

    def clock(self) -> float:
        """Return the host's seconds."""
        return time.perf_counter()

    def ceilings(self, *, fresh: bool) -> Ceilings | None:
        """Return the cached ceilings, or measure them."""
        if self._device.interprets is not None:
            return None
        about = {
            "device": self._device.name,
            "uuid": self._uuid,
            "driver": self.setting.driver,
            "torch": find_spec("torch") is not None,
        }
        name = f"cuda:{self._device.ordinal}"
        return known_ceilings(self._cache, about, lambda: measured_apart(name), fresh=fresh)

    def refusal(self, case: BoundCase) -> str:
        """Return why the device cannot run a case."""
        return self._runner.refusal(case)

    def timed(self, case: BoundCase, inputs: Mapping[str, Value]) -> KernelTimer:
        """Return a timer of a case's launches."""
        return KernelTimer(
            self._device,
            self._driver,
            lambda: calls_of(case, self._module, arguments_on(case, self._runner, inputs)),
            clocks=self._clocks,
            cold=self._cold,
        )

    def library(self, name: str) -> Library:
        """Return a library on this device.

        Raises:
            MissingError: it is not installed, or cannot use the device.
        """
        return open_library(name, self._device)

    def contender(
        self, library: Library, call: Call, case: BoundCase, inputs: Mapping[str, Value]
    ) -> RivalTimer | HostTimer:
        """Return the rival on tensors of its library, with as many copies as the kernel has."""
        size = sum(value.nbytes for value in inputs.values() if isinstance(value, np.ndarray))
        plan = plan_cache(size, self._device, self._driver, cold=self._cold)
        calls = [
            functools.partial(call, _tensors(library, case, inputs)) for _ in range(plan.copies)
        ]
        if self._device.interprets is not None:
            return HostTimer(calls, self.clock)
        assert not isinstance(library, NumpyLibrary)  # it is for the cpu device alone
        return RivalTimer(
            self._device, self._driver, library, calls, flush=plan.flush, clocks=self._clocks
        )


def _tensors(library: Library, case: BoundCase, inputs: Mapping[str, Value]) -> dict[str, Any]:
    return {
        name: library.tensor(value, case.dtype_of(name)) if isinstance(value, np.ndarray) else value
        for name, value in inputs.items()
    }


def setting_of(device: DeviceInfo, driver: str, *, cold: bool) -> Setting:
    """Return what measurements on a device have in common."""
    if device.interprets is not None:
        return Setting(kind="cpu", device=_processor(), multiprocessors=0, driver="", cold=False)
    return Setting(
        kind="cuda",
        device=device.name,
        multiprocessors=device.multiprocessors,
        driver=driver,
        cold=cold,
    )


def _processor() -> str:
    """Return the processor's name from Linux, or its architecture."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.machine() or "unknown"
