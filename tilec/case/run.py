"""Runs bound cases: inputs, launch, read back, compare; written against a protocol of four calls,
so that any device will do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from tilec.case.cases import BoundCase, small_case
from tilec.case.compare import Comparison, compare, tolerance_for
from tilec.case.counting import require_countable
from tilec.case.difference import Difference, difference_of
from tilec.case.inputs import Array, Value, make_inputs
from tilec.case.reference import References
from tilec.manifest.types import Tolerance
from tilec_runtime.errors import DeviceError, TilecError
from tilec_runtime.model.dtype import DTYPES, DType


class Device(Protocol):
    """What a run needs of a device."""

    def refusal(self, kernel: str, axes: Mapping[str, Any]) -> str:
        """Why the device cannot run a kernel at all, at this point of its matrix; empty where it
        can.
        """

    def to_device(self, array: Array, dtype: str) -> Any:
        """A tensor on the device with the array's contents."""

    def from_device(self, tensor: Any) -> Array:
        """Its contents, as an array of the dtype and shape that `to_device` was given."""

    def launch(self, kernel: str, arguments: Mapping[str, Any], axes: Mapping[str, Any]) -> None:
        """Launch a kernel with arguments by name and the axes that the case chooses, and wait until
        it is done.
        """


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OutputResult:
    """One output of a case: how it compares, within what tolerance, where it is off, if it is, and
    what makes the comparison doubtful.
    """

    name: str
    dtype: str
    comparison: Comparison
    tolerance: Tolerance
    difference: Difference | None = None
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Repeats:
    """How a case fared that was run several times.

    Attributes:
        runs: how often it was run. wanted: how often it was to be; more than `runs` where one of
            them went wrong.
        varied: (output, in how many runs its bits were not those of the first).
    """

    runs: int
    wanted: int
    varied: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """What came of one case.

    Attributes:
        case: the case.
        status: `passed`, `failed` (a comparison), `error` (it could not be run or compared), `ran`
            (there is nothing to compare with) or `skipped` (the device cannot run such kernels) or
            `hung` (it reached its time limit).
        outputs: per output of the kernel, in launcher order; empty where nothing was compared.
        seconds: host time of launch and wait; 0 where there was no launch.
        error: what went wrong, for status `error` or `hung`.
        reason: why it was skipped, for status `skipped`.
        repeats: where it was run several times.
    """

    case: BoundCase
    status: str
    outputs: tuple[OutputResult, ...] = ()
    seconds: float = 0.0
    error: TilecError | None = None
    reason: str = ""
    repeats: Repeats | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunReport:
    """The results of a run, in the order of its cases."""

    results: tuple[CaseResult, ...] = ()

    @property
    def ok(self) -> bool:
        """No comparison failed and nothing went wrong, and not all was skipped: that would be no
        run.
        """
        return (
            all(result.status in ("passed", "ran", "skipped") for result in self.results)
            and not self.idle
        )

    @property
    def idle(self) -> bool:
        """There were cases, and none could be run on the device."""
        return bool(self.results) and all(result.status == "skipped" for result in self.results)

    def count(self, status: str) -> int:
        """How many cases ended so."""
        return sum(result.status == status for result in self.results)


Save = Callable[[BoundCase, str, Array], None]


def run_case(
    case: BoundCase,
    device: Device,
    references: References,
    *,
    clock: Callable[[], float],
    save: Save | None = None,
    watched: bool = False,
) -> CaseResult:
    """Run one case.

    Args:
        case: what to run.
        device: where.
        references: loads and calls references.
        clock: seconds, for the time of the launch.
        save: takes every output as it came back.
        watched: somebody looks at the launch itself: it is made even where the reference cannot be
            had.

    Returns:
        The result; errors of tilec end up in it.
    """
    case, seconds = small_case(case), 0.0
    reason = device.refusal(case.kernel, dict(case.axes))
    if reason:
        return CaseResult(case=case, status="skipped", reason=reason)
    try:
        require_countable(case)
        inputs = make_inputs(case)
        # Before the launch: a reference that cannot be called is known without touching the device.
        expected, lacking = _expected(case, references, inputs)
        if lacking is not None and not watched:
            raise lacking
        arguments = arguments_on(case, device, inputs)
        start = clock()
        device.launch(case.kernel, arguments, dict(case.choose))
        seconds = clock() - start
        outputs = []
        for name in case.outs:
            actual = device.from_device(arguments[name])
            if save is not None:
                save(case, name, actual)
            if expected is not None:
                outputs.append(_compared(case, name, actual, expected[name]))
        if lacking is not None:
            raise lacking
    except TilecError as error:
        return CaseResult(case=case, status="error", seconds=seconds, error=error)
    if expected is None:
        return CaseResult(case=case, status="ran", seconds=seconds)
    status = "passed" if all(o.comparison.ok for o in outputs) else "failed"
    return CaseResult(case=case, status=status, outputs=tuple(outputs), seconds=seconds)


def _expected(
    case: BoundCase, references: References, inputs: Mapping[str, Value]
) -> tuple[Mapping[str, Array] | None, TilecError | None]:
    """What a case's reference gives, if it has one; or why it gives nothing."""
    try:
        return (references.expected(case, inputs) if case.reference else None), None
    except TilecError as error:
        return None, error


def run_cases(
    cases: Iterable[BoundCase],
    device: Device,
    references: References,
    *,
    clock: Callable[[], float],
    save: Save | None = None,
    on_result: Callable[[CaseResult], None] | None = None,
) -> RunReport:
    """Run cases one after another; `on_result` sees each as it ends."""
    results = []
    for case in cases:
        result = run_case(case, device, references, clock=clock, save=save)
        results.append(result)
        if on_result is not None:
            on_result(result)
    return RunReport(results=tuple(results))


def arguments_on(case: BoundCase, device: Device, inputs: Mapping[str, Value]) -> dict[str, Any]:
    """The launcher's arguments, in its order."""
    arguments: dict[str, Any] = {}
    for param in case.params:
        value = inputs[param.name]
        arguments[param.name] = (
            value if isinstance(value, int | float | bool) else device.to_device(value, param.dtype)
        )
    return arguments


def _compared(case: BoundCase, name: str, actual: Array, expected: Array) -> OutputResult:
    if actual.shape != expected.shape:
        raise DeviceError(
            f"{case.name}: {name} came back with shape {list(actual.shape)}, not {list(expected.shape)}"
        )
    return compared(case, name, actual, expected)


def compared(case: BoundCase, name: str, actual: Array, expected: Array) -> OutputResult:
    """An output of a case, held against what is expected, of equal shape."""
    dtype = next(p.dtype for p in case.params if p.name == name)
    tolerance = tolerance_for(case.tolerance, dtype)
    found = compare(actual, expected, tolerance)
    differs = (
        None
        if found.first_index is None
        else difference_of(actual, expected, tolerance, found.first_index)
    )
    notes = tuple(_notes(found, DTYPES[dtype], expected))
    return OutputResult(
        name=name,
        dtype=dtype,
        comparison=found,
        tolerance=tolerance,
        difference=differs,
        notes=notes,
    )


def _notes(found: Comparison, dtype: DType, expected: Array) -> Iterator[str]:
    """What makes a comparison doubtful, whatever came of it."""
    if found.both_nan:
        every = found.both_nan == found.total
        what = "every element is" if every else f"{found.both_nan} of {found.total} elements are"
        yield f"{what} NaN, in the reference too{': so nothing was compared' if every else ''}"
    if found.ok or dtype.kind != "float":
        return
    if expected.dtype.kind in "iub":
        yield f"the reference gives {expected.dtype}, which has no fractions, for an output of {dtype.name}"
    elif expected.dtype.itemsize * 8 < dtype.bits:
        yield f"the reference gives {expected.dtype}, which is coarser than the output's {dtype.name}"
