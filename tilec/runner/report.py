"""Results of a run as JSON values, and the cases that a selection takes."""

from __future__ import annotations

import dataclasses
import fnmatch
import math
from collections.abc import Iterable, Sequence
from typing import Any

from tilec.runner.cases import BoundCase
from tilec.runner.run import CaseResult, OutputResult, RunReport


def to_json(report: RunReport) -> dict[str, Any]:
    """The whole report."""
    statuses = ("passed", "failed", "error", "ran", "skipped")
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
    if result.reason:
        row["reason"] = result.reason
    if result.repeats is not None:
        row["runs"] = result.repeats.runs
        row["varied"] = dict(result.repeats.varied)
    if result.error is not None:
        row["error"] = {"type": type(result.error).__name__, "message": str(result.error)}
    return row


def select_cases(cases: Iterable[BoundCase], globs: Sequence[str]) -> tuple[BoundCase, ...]:
    """The cases of which a glob matches the name (`gemm/4k[f16]`), the name without dtypes (`gemm/4k`) or the kernel; all for no glob."""
    return tuple(case for case in cases if not globs or any(_matches(case, glob) for glob in globs))


def _matches(case: BoundCase, glob: str) -> bool:
    # Brackets of a name are also glob syntax: an exact name always matches.
    names = (case.name, f"{case.kernel}/{case.case}", case.kernel)
    return glob in names or any(fnmatch.fnmatchcase(name, glob) for name in names)


def _output_json(output: OutputResult) -> dict[str, Any]:
    comparison = {name: _plain(value) for name, value in dataclasses.asdict(output.comparison).items()}
    tolerance = {"rtol": output.tolerance.rtol, "atol": output.tolerance.atol}
    return {"name": output.name, "dtype": output.dtype, "tolerance": tolerance, **comparison}


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become text."""
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
