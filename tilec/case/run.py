"""Runs bound cases on a device: make inputs, launch, read back, compare with the reference."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilec.case.cases import BoundCase, small_case
from tilec.case.compare import Comparison, compare, tolerance_for
from tilec.case.device import ModuleDevice
from tilec.case.functions import Functions
from tilec.case.inputs import Array, Value, make_inputs
from tilec.case.reference import expected_results
from tilec.manifest.types import Tolerance
from tilec_runtime.errors import TilecError
from tilec_runtime.model.dtype import DTYPES, DType


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OutputResult:
    """The comparison of one output.

    Attributes:
        name, dtype: of the output.
        comparison: with the reference, within `tolerance`.
        notes: what makes the comparison doubtful.
    """

    name: str
    dtype: str
    comparison: Comparison
    tolerance: Tolerance
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> str:
        """`z[3, 7] is 1.5, expected 1.25; 12 of 4096 elements are off (rtol 1e-05, atol 1e-06)`."""
        comparison, limit = self.comparison, self.tolerance
        index = ", ".join(map(str, comparison.first_index or ()))
        where = f"{self.name}[{index}] is {comparison.first_actual!r}, expected {comparison.first_expected!r}"
        allowed = [f"{limit.ulp} ulp"] if limit.ulp else []
        if limit.rtol or limit.atol or not limit.ulp:
            allowed.insert(0, f"rtol {limit.rtol:g}, atol {limit.atol:g}")
        return f"{where}; {comparison.mismatches} of {comparison.total} elements are off ({' or '.join(allowed)})"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """The outcome of several runs of one case.

    Attributes:
        runs: runs that were made. wanted: runs that were requested; more if one failed.
        varied: (output, number of runs whose bits differ from the first run's).
    """

    runs: int
    wanted: int
    varied: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """The result of one case.

    Attributes:
        case: the case.
        status: `passed`, `failed` (a comparison), `error` (it could not be run or compared), `ran`
            (it has no reference), `skipped` (the device cannot run the kernel) or `hung` (it
            reached its time limit).
        outputs: one for each output that was compared, in launcher order.
        seconds: host time of launch and synchronization; 0 without a launch.
        error: for status `error` or `hung`.
        reason: why the case was skipped.
        repeats: for a case that ran several times.
    """

    case: BoundCase
    status: str
    outputs: tuple[OutputResult, ...] = ()
    seconds: float = 0.0
    error: TilecError | None = None
    reason: str = ""
    repeats: Repeats | None = None


Save = Callable[[BoundCase, str, Array], None]


def run_case(
    case: BoundCase,
    device: ModuleDevice,
    functions: Functions,
    *,
    clock: Callable[[], float],
    times: int | None = None,
    save: Save | None = None,
) -> CaseResult:
    """Run one case, or run it several times with the same inputs and new outputs.

    The first run is compared with the reference, the others with the first: their bits may differ
    (a sum in another order), but not by more than the tolerance.

    Args:
        case: what to run.
        device: where.
        functions: of the project.
        clock: seconds, for the time of the launch.
        times: number of runs, at least 1; None for one run without `repeats`.
        save: receives every output of the first run.

    Returns:
        The first run's result, or the result of the first run that failed; tilec's errors become
        its `error`.
    """
    case = small_case(case)
    reason = device.refusal(case)
    if reason:
        return CaseResult(case=case, status="skipped", reason=reason)
    outputs: tuple[OutputResult, ...] = ()
    varied: Counter[str] = Counter()
    failure, seconds, runs = None, 0.0, 1
    try:
        inputs = make_inputs(case)
        # Before the launch: a bad reference is reported without touching the device.
        expected = expected_results(case, inputs, functions) if case.reference else {}
        first, seconds = _launched(case, device, inputs, clock)
        if save is not None:
            for name, array in first.items():
                save(case, name, array)
        outputs = _compare_outputs(case, first, expected)
        while _within_tolerance(outputs) and runs < (times or 1):
            runs += 1
            again, _ = _launched(case, device, inputs, clock)
            changed = {n: first[n] for n in first if again[n].tobytes() != first[n].tobytes()}
            varied.update(changed.keys())
            later = _compare_outputs(case, again, changed)
            outputs = outputs if _within_tolerance(later) else later
        status = (
            "failed" if not _within_tolerance(outputs) else "passed" if case.reference else "ran"
        )
    except TilecError as error:
        status, failure, outputs = "error", error, ()
    counts = tuple((name, varied[name]) for name in case.outs if varied[name])
    return CaseResult(
        case=case,
        status=status,
        outputs=outputs,
        seconds=seconds,
        error=failure,
        repeats=Repeats(runs=runs, wanted=times, varied=counts) if times else None,
    )


def _launched(
    case: BoundCase,
    device: ModuleDevice,
    inputs: Mapping[str, Value],
    clock: Callable[[], float],
) -> tuple[dict[str, Array], float]:
    """Return the outputs of one run, and the seconds of its launch."""
    arguments = arguments_on(case, device, inputs)
    start = clock()
    device.launch(case, arguments)
    seconds = clock() - start
    return {name: device.from_device(arguments[name]) for name in case.outs}, seconds


def _compare_outputs(
    case: BoundCase, outputs: Mapping[str, Array], expected: Mapping[str, Array]
) -> tuple[OutputResult, ...]:
    """Compare the outputs that have expected results."""
    return tuple(
        compared(case, name, array, expected[name])
        for name, array in outputs.items()
        if name in expected
    )


def _within_tolerance(results: Sequence[OutputResult]) -> bool:
    return all(each.comparison.ok for each in results)


def arguments_on(
    case: BoundCase, device: ModuleDevice, inputs: Mapping[str, Value]
) -> dict[str, Any]:
    """Return the launcher's arguments in its order, with arrays copied to the device."""
    arguments: dict[str, Any] = {}
    for param in case.params:
        value = inputs[param.name]
        arguments[param.name] = (
            value if isinstance(value, int | float | bool) else device.to_device(value, param.dtype)
        )
    return arguments


def compared(case: BoundCase, name: str, actual: Array, expected: Array) -> OutputResult:
    """Compare an output of a case with expected values of the same shape."""
    dtype = case.dtype_of(name)
    tolerance = tolerance_for(case.tolerance, dtype)
    comparison = compare(actual, expected, tolerance)
    return OutputResult(
        name=name,
        dtype=dtype,
        comparison=comparison,
        tolerance=tolerance,
        notes=tuple(_notes(comparison, DTYPES[dtype], expected)),
    )


def _notes(comparison: Comparison, dtype: DType, expected: Array) -> Iterator[str]:
    """Yield what makes a comparison doubtful."""
    if comparison.both_nan:
        every = comparison.both_nan == comparison.total
        message = (
            "every element is"
            if every
            else f"{comparison.both_nan} of {comparison.total} elements are"
        )
        yield f"{message} NaN, in the reference too{': so nothing was compared' if every else ''}"
    if comparison.ok or dtype.kind != "float":
        return
    if expected.dtype.kind in "iub":
        yield f"the reference gives {expected.dtype}, which has no fractions, for an output of {dtype.name}"
    elif expected.dtype.itemsize * 8 < dtype.bits:
        yield f"the reference gives {expected.dtype}, which is coarser than the output's {dtype.name}"
