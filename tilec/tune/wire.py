"""Messages between a tuning and its workers: picklable values.

The first message to a worker is the name of its device, such as `cuda:1`.
"""

from __future__ import annotations

import dataclasses

from tilec.bench.measure import Measurement, MeasureOptions
from tilec.case.cases import BoundCase
from tilec.model.tuning import Status
from tilec_runtime.device.seam import DeviceInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """The device of a worker, its driver's version, and why its clocks cannot be read."""

    device: DeviceInfo
    driver: str = ""
    clocks_missing: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A candidate to launch.

    Attributes:
        bundle: path of its bundle.
        case: the case at its point.
        expected: path of the reference's results; empty without a reference.
    """

    bundle: str
    case: BoundCase
    expected: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """A request to measure candidates of one case.

    A single candidate is checked before it is measured. Several candidates have been checked by
    earlier requests, and are measured in turn.
    """

    subjects: tuple[Subject, ...]
    options: MeasureOptions


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The result of a request.

    Attributes:
        status: measured, wrong or failed; `reason` says why.
        measurements: one for each candidate; empty if they were not measured.
        variant: id of the variant that the first candidate launched.
        cache: how the L2 cache was kept cold.
        fatal: the process may not be able to use the device any more.
    """

    status: Status
    reason: str = ""
    measurements: tuple[Measurement, ...] = ()
    variant: str = ""
    cache: str = ""
    fatal: bool = False
