"""What a tuning and its workers say to each other: plain picklable values."""

from __future__ import annotations

import dataclasses

from tilec.bench.measure import Measurement, MeasureOptions
from tilec.case.cases import BoundCase
from tilec.model.tuning import Status
from tilec_runtime.device.seam_types import DeviceInfo
from tilec_runtime.errors import TilecError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MeterSpec:
    """What measures: a factory as `module:function`, and the text that it is given."""

    factory: str = "tilec.tune.meter:DeviceMeter"
    text: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """What a worker is told first: its device (`cuda:1`, `cpu`), and what measures there."""

    device: str
    meter: MeterSpec = MeterSpec()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """The device is there: what it is, its driver's version, and why its clocks cannot be read
    (empty where they can).
    """

    device: DeviceInfo
    driver: str = ""
    clocks_missing: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Unusable:
    """The device is not there."""

    error: TilecError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A candidate to launch.

    Attributes:
        bundle: path of the bundle that holds it.
        case: the case at its point.
        expected: path of the file with the results that the reference gave; empty where the case
            has no reference.
    """

    bundle: str
    case: BoundCase
    expected: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """Check a candidate, and measure it."""

    subject: Subject
    options: MeasureOptions


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MeasurePair:
    """Measure two candidates side by side; they were checked before."""

    first: Subject
    second: Subject
    options: MeasureOptions


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What came of a candidate.

    Attributes:
        status: measured, wrong or failed; `reason` says why.
        measurement: None where it was not measured.
        variant: id of the variant that ran. cache: how the L2 cache was kept cold.
        fatal: the device may be of no more use to this process.
    """

    status: Status
    reason: str = ""
    measurement: Measurement | None = None
    variant: str = ""
    cache: str = ""
    fatal: bool = False


Request = Measure | MeasurePair
Answer = Measured | tuple[Measured, Measured]
