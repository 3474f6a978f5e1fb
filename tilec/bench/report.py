"""What measuring cases came to, as values and as JSON: times, rates, rivals, and how they stand to
what was saved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import median
from typing import Any

from tilec.bench.ceilings import ceilings_json
from tilec.bench.gate import Change
from tilec.bench.measure import Measurement
from tilec.bench.statistics import Interval, series_interval
from tilec.bench.work import NO_RATES, NO_WORK, Ceilings, Rates, Work
from tilec_runtime.errors import TilecError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What measurements have in common that may be compared.

    Attributes:
        kind: `cuda` or `cpu`.
        device: the GPU's name, or the processor's.
        multiprocessors: of the GPU; a part of one has fewer.
        driver: its version.
        cold: whether launches found the L2 cache cold.
    """

    kind: str
    device: str
    multiprocessors: int
    driver: str
    cold: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RivalResult:
    """What a case was held against.

    Attributes:
        text: as the manifest has it. by: name and version of the library.
        measurement: None where it could not be measured, for the `reason` given.
        ratio, interval: how many times as long it takes as the kernel, turn by turn.
        note: what makes it doubtful.
    """

    text: str
    by: str = ""
    measurement: Measurement | None = None
    ratio: float = 0.0
    interval: Interval | None = None
    reason: str = ""
    note: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """Where in a plot a measurement stands: one of a case's many.

    Attributes:
        base: the case.
        at: value of what is swept; empty for no sweep.
        variant: the axes that a launch would not take by itself, `BM=64,BN=128`; empty for the
            variant that it takes.
    """

    base: str
    at: str = ""
    variant: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CaseBench:
    """What came of one case.

    Attributes:
        name: `gemm/4k[f16]`. kernel: of it.
        status: `measured`, `error` or `skipped` (the device cannot run such kernels, for the
            `reason` given).
        variant, code: what was launched, and the digest of its image.
        inputs: digest of what they are made of.
        cache: what launches find in the L2 cache.
        measurement: of the kernel.
        host: seconds of the host for one launch; None where that says nothing.
        work, rates: what a launch does, and what its time comes to.
        rivals: what it was held against, in the manifest's order.
        change: how it stands to what was saved; None where nothing was asked for.
        uncompared: why it has no `change` although one was asked for.
        same_code: the image is the one of the saved measurement.
        error: why it could not be measured.
        point: what it is a point of; None for a case by itself.
        refused: a launch refused its arguments, as one of many points may.
    """

    name: str
    kernel: str
    status: str = "measured"
    variant: str = ""
    code: str = ""
    inputs: str = ""
    cache: str = ""
    measurement: Measurement | None = None
    host: float | None = None
    work: Work = NO_WORK
    rates: Rates = NO_RATES
    rivals: tuple[RivalResult, ...] = ()
    change: Change | None = None
    uncompared: str = ""
    same_code: bool = False
    error: TilecError | None = None
    reason: str = ""
    point: Point | None = None
    refused: bool = False

    @property
    def median(self) -> float:
        """Seconds of one launch."""
        assert self.measurement is not None
        return median(self.measurement.samples)

    @property
    def interval(self) -> Interval:
        """Where that lies."""
        assert self.measurement is not None
        return series_interval(self.measurement.samples)


def ratio_of(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, Interval]:
    """How many times as long theirs take, by turns, so that what both saw of the machine cancels."""
    each = [their / our for their, our in zip(theirs, ours, strict=True)]
    return median(each), series_interval(each)


def case_json(case: CaseBench) -> dict[str, Any]:
    """One case as JSON values; seconds, bytes and operations, nothing rounded."""
    row: dict[str, Any] = {"name": case.name, "kernel": case.kernel, "status": case.status}
    if case.point is not None:
        row["point"] = {
            "case": case.point.base,
            "at": case.point.at or None,
            "variant": case.point.variant or None,
        }
    if case.status != "measured":
        failure = (
            {"type": type(case.error).__name__, "message": str(case.error)} if case.error else None
        )
        return row | ({"error": failure} if failure else {"reason": case.reason})
    assert case.measurement is not None
    rates, work = case.rates, case.work
    row |= {
        "variant": case.variant,
        "image": case.code,
        "inputs": case.inputs,
        "l2": case.cache,
        "time": _measurement_json(case.measurement),
        "host_seconds": case.host,
        "work": {
            "flops": work.flops,
            "bytes": work.bytes,
            "intensity": work.intensity,
            "dtype": work.dtype or None,
        },
        "rates": {
            "flops_per_second": rates.flops,
            "bytes_per_second": rates.bytes,
            "share": rates.share,
            "bound": rates.bound or None,
        },
        "against": [_rival_json(rival) for rival in case.rivals],
    }
    if case.change is not None:
        change = case.change
        row["change"] = {
            "ratio": change.ratio,
            "interval": [change.interval.low, change.interval.high],
            "standing": change.standing.value,
            "measured_again": change.repeated,
            "same_image": case.same_code,
        }
    if case.uncompared:
        row["uncompared"] = case.uncompared
    return row


def setting_json(setting: Setting) -> dict[str, Any]:
    """Where it was measured."""
    return dataclasses.asdict(setting)


def bench_json(
    cases: Sequence[CaseBench], setting: Setting, ceilings: Ceilings | None, clocks_missing: str
) -> dict[str, Any]:
    """A whole run as JSON values."""
    return {
        "setting": setting_json(setting),
        "clocks_missing": clocks_missing or None,
        "ceilings": ceilings_json(ceilings) if ceilings else None,
        "cases": [case_json(case) for case in cases],
    }


def _measurement_json(found: Measurement) -> dict[str, Any]:
    interval = series_interval(found.samples)
    clocks = {"sm": list(found.sm), "memory": list(found.memory or ())} if found.sm else None
    return {
        "median": median(found.samples),
        "interval": [interval.low, interval.high],
        "coverage": interval.coverage,
        "samples": list(found.samples),
        "launches_per_sample": found.launches,
        "outliers": len(found.summary.outliers),
        "steady": found.steady,
        "clocks_mhz": clocks,
        "held_back": list(found.held_back),
    }


def _rival_json(rival: RivalResult) -> dict[str, Any]:
    row: dict[str, Any] = {"call": rival.text, "by": rival.by or None}
    if rival.measurement is None or rival.interval is None:
        return row | {"reason": rival.reason}
    row |= {
        "time": _measurement_json(rival.measurement),
        "ratio": rival.ratio,
        "interval": [rival.interval.low, rival.interval.high],
    }
    return row | ({"note": rival.note} if rival.note else {})
