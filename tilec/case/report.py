"""Results of a run as JSON values."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tilec.case.run import CaseResult, OutputResult

STATUSES = ("passed", "failed", "error", "hung", "ran", "skipped")


def to_json(results: Sequence[CaseResult]) -> dict[str, Any]:
    """Return the results of a run, in the order of its cases."""
    counts = dict.fromkeys(STATUSES, 0) | Counter(result.status for result in results)
    return {"counts": counts, "cases": [case_json(result) for result in results]}


def case_json(result: CaseResult) -> dict[str, Any]:
    """Return one case: name, status, time, outputs with their errors."""
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
    tolerance = dataclasses.asdict(output.tolerance)
    del tolerance["dtype"]
    row = {"name": output.name, "dtype": output.dtype, "tolerance": tolerance}
    row |= dataclasses.asdict(output.comparison)
    if output.notes:
        row["notes"] = list(output.notes)
    document = _plain(row)
    assert isinstance(document, dict)
    return document


def _plain(value: Any) -> Any:
    """Return a value with NaN and infinity, which JSON has not, as text."""
    match value:
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return repr(value)
    return value
