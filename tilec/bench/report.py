"""Results of measuring cases, as values and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tilec.bench.gate import Change
from tilec.bench.measure import Measurement
from tilec.bench.statistics import Interval
from tilec.bench.work import NO_RATES, NO_WORK, Ceilings, Rates, Work
from tilec_runtime.errors import TilecError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """The conditions under which two measurements are comparable.

    Attributes:
        kind: `cuda` or `cpu`.
        device: name of the GPU or the processor.
        multiprocessors: of the GPU; a MIG instance has fewer.
        driver: its version.
        cold: whether launches find the L2 cache cold.
    """

    kind: str
    device: str
    multiprocessors: int
    driver: str
    cold: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RivalResult:
    """The comparison with a rival.

    Attributes:
        text: of the manifest. by: name and version of the library.
        measurement: None if it could not be measured; `reason` says why.
        ratio, interval: the rival's time over the kernel's, turn by turn.
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
    """One of several measurements of a case.

    Attributes:
        base: the case.
        at: the swept value; empty without a sweep.
        variant: axes chosen in place of the launch's own choice, `BM=64,BN=128`; else empty.
    """

    base: str
    at: str = ""
    variant: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CaseBench:
    """The result of one case.

    Attributes:
        name: `gemm/4k[f16]`. kernel: its kernel.
        status: `measured`, `error` or `skipped` (for the `reason` given).
        variant, code: id of the launched variant, and the digest of its image.
        inputs: digest of what the inputs are made of.
        cache: how the L2 cache is kept cold.
        measurement: of the kernel.
        host: the host's seconds for one launch; None if unknown.
        work, rates: of one launch.
        rivals: in the manifest's order.
        change: over the saved measurement; None without one.
        uncompared: why there is no `change` although one was requested.
        same_code: the image is that of the saved measurement.
        error: why it could not be measured.
        point: for one of several measurements of a case.
        refused: the kernel refused this point's arguments.
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


def bench_json(
    cases: Sequence[CaseBench],
    setting: Setting | None,
    ceilings: Ceilings | None,
    clocks_missing: str,
) -> dict[str, Any]:
    """Return a run as JSON values."""
    return {
        "setting": dataclasses.asdict(setting) if setting else None,
        "clocks_missing": clocks_missing or None,
        "ceilings": dataclasses.asdict(ceilings) if ceilings else None,
        "cases": [case_json(case) for case in cases],
    }


def case_json(case: CaseBench) -> dict[str, Any]:
    """Return a case as JSON values: seconds, bytes and operations, not rounded."""
    row: dict[str, Any] = {"name": case.name, "kernel": case.kernel, "status": case.status}
    if case.point is not None:
        row["point"] = {
            "case": case.point.base,
            "at": case.point.at or None,
            "variant": case.point.variant or None,
        }
    if case.error is not None:
        return row | {"error": {"type": type(case.error).__name__, "message": str(case.error)}}
    if case.measurement is None:
        return row | {"reason": case.reason}
    rates, work, change = case.rates, case.work, case.change
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
    if change is not None:
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


def _measurement_json(measurement: Measurement) -> dict[str, Any]:
    summary = measurement.summary
    clocks = (
        {"sm": list(measurement.sm), "memory": list(measurement.memory or ())}
        if measurement.sm
        else None
    )
    return {
        "median": summary.median,
        "interval": [summary.interval.low, summary.interval.high],
        "coverage": summary.interval.coverage,
        "samples": list(measurement.samples),
        "launches_per_sample": measurement.launches,
        "outliers": len(summary.outliers),
        "steady": measurement.steady,
        "clocks_mhz": clocks,
        "held_back": list(measurement.held_back),
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
