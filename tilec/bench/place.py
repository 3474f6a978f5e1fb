"""Where cases are measured: the seam that a test's planned times fulfil too, and the device that
launches for real.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tilec.bench.apart import measured_apart
from tilec.bench.ceilings import known_ceilings, path_of
from tilec.bench.clocks import Clocks, uuid_of
from tilec.bench.coldness import plan_cache
from tilec.bench.device import LaunchSubject
from tilec.bench.libraries import Call, Contender, Library, open_library
from tilec.bench.measure import MOST_LAUNCHES, Clock, ClockReading
from tilec.bench.report import Setting
from tilec.bench.work import Ceilings
from tilec.case.chains import ChainModule, device_of
from tilec.case.device import ModuleDevice
from tilec.case.inputs import Value
from tilec.case.run import arguments_on
from tilec_runtime.errors import MissingError

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
    from tilec_runtime.launch.load import Module
    from tilec_runtime.model.kernel import VariantInfo


class Timed(Protocol):
    """A case to time; see `bench.measure.Subject`. `code` is a digest of what is launched, `cache`
    what launches find in the L2 cache.
    """

    variant: VariantInfo
    code: str
    cache: str

    def seconds(self, launches: int) -> float:
        """Seconds that the device is busy with so many launches in a row."""

    def clocks(self) -> ClockReading | None:
        """The clocks now."""

    def host_seconds(self, launches: int, clock: Clock) -> float | None:
        """Seconds of the host for one launch, out of so many; None where that says nothing."""


class Place(Protocol):
    """A device to measure on. `missing` says why its clocks cannot be read."""

    setting: Setting
    missing: str

    def clock(self) -> float:
        """Seconds of the host."""

    def ceilings(self, *, fresh: bool) -> Ceilings | None:
        """What the device can do at most; None for one that is no GPU."""

    def refusal(self, case: BoundCase) -> str:
        """Why the device cannot run a case; empty where it can."""

    def timed(
        self, case: BoundCase, inputs: Mapping[str, Value]
    ) -> contextlib.AbstractContextManager[Timed]:
        """A case to time, with its memory."""

    def library(self, name: str) -> Library:
        """A library to hold kernels against."""

    def contender(
        self, library: Library, call: Call, case: BoundCase, inputs: Mapping[str, Value]
    ) -> Contender:
        """A rival to time, with its memory."""


class DevicePlace:
    """A bundle on a device.

    Args:
        module: the bundle there.
        driver: what it is loaded through.
        cold: whether launches find the L2 cache cold.
        cache: the cache directory, where ceilings are kept; None for none.
        advice: what brings Tile IR into the bundle.
    """

    def __init__(
        self,
        module: Module,
        driver: DeviceDriver,
        *,
        cold: bool,
        cache: Path | None,
        advice: str = "",
    ) -> None:
        self._module, self._driver, self._device, self._cold, self._cache = (
            module,
            driver,
            module.device,
            cold,
            cache,
        )
        self._places = ModuleDevice(module, driver, advice=advice)
        self._libraries: dict[str, Library | MissingError] = {}
        self._uuid = "" if self._device.interprets else uuid_of(self._device.ordinal)
        self._clocks = None if self._device.interprets else Clocks(self._uuid)
        self.missing = self._clocks.missing if self._clocks else ""
        self.setting = setting_of(
            self._device, self._clocks.driver if self._clocks else "", cold=cold
        )

    def clock(self) -> float:
        """Seconds of the host."""
        return time.perf_counter()

    def ceilings(self, *, fresh: bool) -> Ceilings | None:
        """Those that are kept, or new ones."""
        if self._device.interprets is not None:
            return None
        path = (
            path_of(self._cache, self._device, self._uuid, self.setting.driver)
            if self._cache
            else None
        )
        if fresh and path is not None:
            with contextlib.suppress(OSError):
                path.unlink()
        about = {"device": self._device.name, "uuid": self._uuid, "driver": self.setting.driver}
        name = f"cuda:{self._device.ordinal}"
        return known_ceilings(
            path,
            about,
            lambda: measured_apart(name),
            torch_is_there=lambda: find_spec("torch") is not None,
        )

    def refusal(self, case: BoundCase) -> str:
        """Why the device cannot run a case."""
        return device_of(case, self._places).refusal(case.kernel, dict(case.axes))

    @contextlib.contextmanager
    def timed(self, case: BoundCase, inputs: Mapping[str, Value]) -> Iterator[Timed]:
        """Launches of a case."""

        def make() -> Mapping[str, Any]:
            return arguments_on(case, self._places, inputs)

        choose, module = (
            dict(case.choose),
            ChainModule(self._module, case) if case.steps else self._module,
        )
        with LaunchSubject(
            module, self._driver, case.kernel, choose, make, clocks=self._clocks, cold=self._cold
        ) as subject:
            yield subject

    def library(self, name: str) -> Library:
        """A library on this device; one that is not there is looked for once."""
        found = self._libraries.get(name)
        if found is None:
            try:
                found = open_library(name, self._device, self.clock)
            except MissingError as error:
                found = error
            self._libraries[name] = found
        if isinstance(found, MissingError):
            raise found
        return found

    def contender(
        self, library: Library, call: Call, case: BoundCase, inputs: Mapping[str, Value]
    ) -> Contender:
        """The rival on tensors of its library, as many sets of them as the kernel has."""
        dtypes = {param.name: param.dtype for param in case.params}
        size = sum(value.nbytes for value in inputs.values() if not isinstance(value, int | float))
        free, _ = self._driver.memory_info(self._device.ordinal)
        plan = plan_cache(
            size, l2=self._device.l2, free=free, launches=MOST_LAUNCHES, cold=self._cold
        )
        sets: Sequence[Mapping[str, Any]] = [
            {
                name: value
                if isinstance(value, int | float | bool)
                else library.tensor(value, dtypes[name])
                for name, value in inputs.items()
            }
            for _ in range(plan.copies)
        ]
        return library.contender(call, sets, flush=plan.flush, clocks=self._clocks)


def setting_of(device: DeviceInfo, driver: str, *, cold: bool) -> Setting:
    """What measurements on a device have in common."""
    if device.interprets is not None:
        return Setting(kind="cpu", device=_processor(), multiprocessors=0, driver="", cold=False)
    return Setting(
        kind="cuda",
        device=device.name,
        multiprocessors=device.multiprocessors,
        driver=driver or f"CUDA {device.driver[0]}.{device.driver[1]}",
        cold=cold,
    )


def _processor() -> str:
    """The processor's name, as Linux gives it; its architecture where it gives none."""
    import platform

    with contextlib.suppress(OSError):
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.machine() or "unknown"
