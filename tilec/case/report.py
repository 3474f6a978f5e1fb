"""Results of a run as JSON values."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tilec.case.run import CaseResult, OutputResult, RunReport


def to_json(report: RunReport) -> dict[str, Any]:
    """The whole report."""
    statuses = ("passed", "failed", "error", "hung", "ran", "skipped")
    return {
        "ok": report.ok,
        "counts": {status: report.count(status) for status in statuses},
        "cases": [case_json(result) for result in report.results],
    }


def case_json(result: CaseResult) -> dict[str, Any]:
    """One case: name, status, time, outputs with their errors, and what went wrong."""
    case = result.case
    row: dict[str, Any] = {
        "name": case.name,
        "kernel": case.kernel,
        "case": case.case,
        "axes": dict(case.axes),
        "status": result.status,
        "seconds": result.seconds,
        "outputs": [_output_json(output) for output in result.outputs],
    }
    if case.steps:
        row["steps"] = [{"kernel": step.kernel, "language": step.language} for step in case.steps]
    if result.reason:
        row["reason"] = result.reason
    if result.repeats is not None:
        row["runs"] = result.repeats.runs
        row["varied"] = dict(result.repeats.varied)
    if result.error is not None:
        row["error"] = {"type": type(result.error).__name__, "message": str(result.error)}
    return row


def _output_json(output: OutputResult) -> dict[str, Any]:
    comparison = {
        name: _plain(value) for name, value in dataclasses.asdict(output.comparison).items()
    }
    tolerance = {
        "rtol": output.tolerance.rtol,
        "atol": output.tolerance.atol,
        "ulp": output.tolerance.ulp,
    }
    row = {"name": output.name, "dtype": output.dtype, "tolerance": tolerance, **comparison}
    if output.notes:
        row["notes"] = list(output.notes)
    if output.difference is not None:
        for part in ("window", "histogram"):
            row[part] = [
                {name: _plain(value) for name, value in dataclasses.asdict(each).items()}
                for each in getattr(output.difference, part)
            ]
    return row


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become text."""
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
