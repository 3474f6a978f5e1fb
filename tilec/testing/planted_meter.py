"""A meter whose times are planted: candidates run on their device and are checked there, but how
long they take is an expression.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
from tilec_runtime.errors import NoDeviceError
from tilec_runtime.launch.load import Module
from tilec_runtime.model import expr
from tilec_runtime.model.kernel import AxisValue


class Case(Protocol):
    """The part of a bound case that tuning reads."""

    @property
    def kernel(self) -> str:
        """Its kernel."""

    @property
    def axes(self) -> tuple[tuple[str, AxisValue], ...]:
        """The point of the matrix."""

    @property
    def choose(self) -> tuple[tuple[str, AxisValue], ...]:
        """Return the axes for the launcher."""


class PlantedMeter:
    """Times by `name = expression` clauses over the axes, with `;` between them.

    Clauses: `us` gives microseconds of one launch; a candidate for which `hang` holds never ends,
    one for which `crash` holds ends its process, and so does one for which `lose` holds, after
    which the device named by `flag` (a file that then exists) is gone.
    """

    driver = ""
    missing = ""

    def __init__(self, text: str, device: DeviceInfo) -> None:
        clauses = dict(clause.split("=", 1) for clause in text.split(";") if clause.strip())
        self._clauses = {name.strip(): value.strip() for name, value in clauses.items()}
        if self._flag and self._flag.exists():
            raise NoDeviceError(f"{device} fell off the bus", fix="restart the machine")
        self._now = 0.0

    @property
    def _flag(self) -> Path | None:
        return Path(self._clauses["flag"]) if "flag" in self._clauses else None

    def clock(self) -> float:
        """Return the planted time of the launches so far."""
        return self._now

    def timed(
        self,
        module: Module,
        driver: DeviceDriver,  # noqa: ARG002 - of the protocol
        case: Case,
        make: Callable[[], Mapping[str, Any]],
    ) -> PlantedLaunches:
        """Return a timer whose launches take the planted time."""
        axes = dict(case.axes)
        launcher = module.kernels[case.kernel]
        variant = launcher.explain(**make(), **dict(case.choose)).variant.id
        if self._holds("lose", axes) and self._flag:
            self._flag.touch()
        if self._holds("lose", axes) or self._holds("crash", axes):
            os._exit(3)
        if self._holds("hang", axes):
            threading.Event().wait()
        return PlantedLaunches(
            self, 1e-6 * float(expr.parse(self._clauses["us"]).evaluate(axes)), variant
        )

    def pass_time(self, seconds: float) -> None:
        """Advance the clock."""
        self._now += seconds

    def _holds(self, clause: str, axes: Mapping[str, AxisValue]) -> bool:
        return clause in self._clauses and bool(expr.parse(self._clauses[clause]).evaluate(axes))


class PlantedLaunches:
    """Launches of one candidate."""

    cache = "planted"

    def __init__(self, meter: PlantedMeter, each: float, variant: str) -> None:
        self._meter, self._each, self.variant = meter, each, variant

    def seconds(self, launches: int) -> float:
        """Return the planted time of the launches."""
        self._meter.pass_time(self._each * launches)
        return self._each * launches

    def clocks(self) -> None:
        """Return None: nothing throttles."""

    def close(self) -> None:
        """Do nothing."""


def planted(text: str, device: DeviceInfo) -> PlantedMeter:
    """Return the meter that a text of clauses describes."""
    return PlantedMeter(text, device)
