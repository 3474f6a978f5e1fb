"""Checks cases on the cpu device: each runs in several orders of its blocks under a checker, and
the results are compared with each other.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilec.case.cases import BoundCase, BoundStep, small_case
from tilec.case.compare import Array, compare, differing, tolerance_for
from tilec.case.device import ModuleDevice
from tilec.case.inputs import make_inputs
from tilec.case.run import arguments_on
from tilec.case.undetermined import Fills, find_undetermined
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.cpu.launch import CpuOptions, CpuRun, execute_run
from tilec_runtime.cpu.tileir.check.checker import Checker
from tilec_runtime.cpu.tileir.check.findings import Finding, FindingKind
from tilec_runtime.cpu.tileir.frame import DEFAULT
from tilec_runtime.cpu.tileir.ir import Loc
from tilec_runtime.errors import FaultError, TilecError
from tilec_runtime.launch.load import load

CHECKED = (
    "races between blocks (plain accesses that meet without an atomic that orders them)",
    "accesses outside the memory of the arguments, and outside their extents where the kernel declares otherwise",
    'reads of elements that nothing wrote (inputs of a case with dist = "empty")',
    "promises to the compiler: divisibility, alignment, bounds, equal elements, no overflow",
    "assertions, and loops that do not end",
    "results that depend on the order of the blocks",
    "results that depend on elements beyond an array's edge, or masked off, that no padding determines",
)
NOT_CHECKED = (
    "the order of accesses within one block",
    "inputs other than those of the cases",
    "what a GPU's compiler and memory do: rounding of its functions, timing, resources",
)
_UNSURE = "there are too many atomics to follow which accesses all of them order: those left are taken to be in order"
_UNCOMPARED = "whether elements that no padding determines change the result was not checked"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CaseFindings:
    """The result of checking one case.

    Attributes:
        case: the case.
        variants: ids of the variants that were launched.
        findings: distinct defects of all orders.
        notes: observations that are no defects.
        blocks: blocks of one run.
        skipped: why the case needs a GPU; empty where it does not.
        error: why the case could not be checked; None if it was.
    """

    case: BoundCase
    variants: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    blocks: int = 0
    skipped: str = ""
    error: TilecError | None = None

    @property
    def status(self) -> str:
        """`clean`, `findings`, `error` or `skipped`."""
        if self.findings:
            return "findings"
        return "error" if self.error else "skipped" if self.skipped else "clean"


class Watch:
    """Makes a checker for each launch on a cpu device, and keeps it.

    Args:
        not_finite: report the first NaN or infinity that is computed from finite numbers.
    """

    def __init__(self, *, not_finite: bool) -> None:
        self._case: BoundCase | None = None
        self._launches = 0
        self._blank: dict[str, Array] = {}
        self._not_finite = not_finite
        self._seen: list[tuple[CpuRun, Checker]] = []
        self._lock = threading.Lock()

    def expect(self, case: BoundCase) -> None:
        """Set the case of the next launches: its `dist = "empty"` inputs are uninitialized."""
        self._case, self._launches = case, 0

    def __call__(self, run: CpuRun) -> Checker:
        """Return the checker of one launch."""
        with self._lock:
            names = self._uninitialized()
            checker = Checker(
                run.program.function,
                run.memory,
                uninitialized=names,
                blank={name: self._blank[of] for name, of in names.items() if of in self._blank},
                slots=run.slots,
                not_finite=self._not_finite,
            )
            self._seen.append((run, checker))
            self._launches += 1
        return checker

    def _uninitialized(self) -> dict[str, str]:
        """Return the parameters of the next launch that are given `dist = "empty"` inputs.

        Elements that earlier steps of a chain wrote are not blank any more.
        """
        if self._case is None:
            return {}
        empty = [item.name for item in self._case.inputs if item.dist == "empty"]
        if not self._case.steps:
            return {name: name for name in empty}
        index = self._launches % len(self._case.steps)
        if index == 0:
            self._blank.clear()
        else:
            _, before = self._seen[-1]
            for name, of_case in _given(self._case.steps[index - 1], empty).items():
                if (left := before.blank(name)) is not None:
                    self._blank[of_case] = left
        return _given(self._case.steps[index], empty)

    def take(self) -> tuple[tuple[CpuRun, Checker], ...]:
        """Return and forget the launches since the last call."""
        with self._lock:
            seen, self._seen = tuple(self._seen), []
        return seen


def _given(step: BoundStep, names: Sequence[str]) -> dict[str, str]:
    """Return the parameters of a step that are given one of these inputs, with its name."""
    return {param: operand.name for param, operand in step.arguments if operand.name in names}


class Sanitizer:
    """Checks cases of one bundle.

    Args:
        bundle: bundle with Tile IR.
        orders: order of the blocks in each run: "forward", "reverse", or the seed of a random
            order.
        not_finite: report the first NaN or infinity that is computed from finite numbers.
        steps: limit of loop iterations of one batch of blocks.
        advice: how to get Tile IR into the bundle, unless the manifest prevents it.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        orders: Sequence[str | int],
        not_finite: bool = False,
        steps: int = DEFAULT.steps,
        advice: str = "",
    ) -> None:
        self._watch = Watch(not_finite=not_finite)
        self._fills = Fills()
        self._steps = steps
        watching = CpuOptions(steps=steps, output=_silent, run=self._run_watched)
        plain = dataclasses.replace(
            watching, order=orders[0], run=self._run_plain, cancelled=self._fills.spent
        )

        def device(chosen: CpuOptions) -> ModuleDevice:
            driver = CpuDriver(chosen)
            return ModuleDevice(load(bundle, "cpu", driver=driver), driver, advice=advice)

        self._devices = {
            order: device(dataclasses.replace(watching, order=order)) for order in orders
        }
        self._plain = device(plain)

    def check(self, case: BoundCase) -> CaseFindings:
        """Run a case in every order; defects and tilec's errors are in the result."""
        case = small_case(case)
        if case.error is None and (refusal := self._plain.refusal(case)):
            return CaseFindings(case=case, skipped=refusal)
        self._watch.expect(case)
        self._fills.forget()
        seen = _Seen(case)
        try:
            # After a fault the other orders would stop at the same place, after the same time.
            whole = all(self._run(seen, *each) for each in self._devices.items())
            if self._fills.sources:
                self._vary(seen, whole=whole)
        except TilecError as error:
            seen.take(self._watch)
            return seen.result(error)
        return seen.result()

    def _run_watched(self, run: CpuRun) -> None:
        execute_run(run.with_options(observer=self._watch(run), undetermined=self._fills()))

    def _run_plain(self, run: CpuRun) -> None:
        execute_run(run.with_options(undetermined=self._fills()))

    def _vary(self, seen: _Seen, *, whole: bool) -> None:
        """Look for results that depend on undetermined elements, unless the launch faults."""
        if not whole:
            seen.note("undetermined", f"{_UNCOMPARED}: the launch faults")
            return
        try:
            seen.keep(find_undetermined(seen.case, self._plain, self._fills, self._steps))
        except FaultError as error:
            seen.note("undetermined", f"{_UNCOMPARED}: {error.what}")

    def _run(self, seen: _Seen, order: str | int, device: ModuleDevice) -> bool:
        """Run a case in one order; return whether it ended without a fault."""
        case = seen.case
        arguments = arguments_on(case, device, make_inputs(case))
        try:
            device.launch(case, arguments)
        except FaultError as error:
            seen.take(self._watch)
            seen.keep([_fault(error)])
            return False
        seen.take(self._watch)
        seen.compare(order, {name: device.from_device(arguments[name]) for name in case.outs})
        return True


class _Seen:
    """The findings and notes of one case so far, with the outputs of its first order."""

    def __init__(self, case: BoundCase) -> None:
        self.case = case
        self._findings: dict[tuple[Any, ...], Finding] = {}
        self._notes: dict[str, str] = {}
        self._variants: dict[str, None] = {}
        self._blocks = 0
        self._atomics = False
        self._different: set[str] = set()
        self._first: tuple[str | int, dict[str, Array]] | None = None

    def keep(self, findings: Iterable[Finding]) -> None:
        """Add findings; of one defect in several orders keep the first, with the largest count."""
        for finding in findings:
            other = finding.other.location if finding.other else None
            locations = sorted((str(finding.location), str(other)))
            key = (finding.kind, finding.kernel, finding.parameter, *locations)
            known = self._findings.get(key, finding)
            self._findings[key] = dataclasses.replace(known, count=max(known.count, finding.count))

    def note(self, about: str, text: str) -> None:
        """Add a note; it replaces an earlier one about the same thing."""
        self._notes[about] = text

    def take(self, watch: Watch) -> None:
        """Add the findings of one execution."""
        launches = watch.take()
        for run, checker in launches:
            self.keep(dataclasses.replace(each, kernel=run.kernel) for each in checker.findings)
            self._variants[run.kernel] = None
            # With atomics blocks may add in the order in which they come.
            operations = run.program.function.walk()
            self._atomics |= any(op.name.startswith("atomic_") for op in operations)
            if checker.unsure:
                self.note("unsure", _UNSURE)
        self._blocks = max(self._blocks, sum(math.prod(run.grid) for run, _ in launches))

    def compare(self, order: str | int, outputs: dict[str, Array]) -> None:
        """Compare the outputs of an order with the first order's.

        A difference is a finding, or a note if atomics explain it by rounding.
        """
        if self._first is None:
            self._first = order, outputs
            return
        first_order, first = self._first
        for name, other in outputs.items():
            if name in self._different or not differing(first[name], other).any():
                continue
            self._different.add(name)
            limit = tolerance_for(self.case.tolerance, self.case.dtype_of(name))
            if self._atomics and compare(first[name], other, limit).ok:
                text = f"{name} differs in its rounding with the order of the blocks, as sums of floats do"
                self.note(name, text)
            else:
                self.keep([_dependence(name, (first_order, first[name]), (order, other))])

    def result(self, error: TilecError | None = None) -> CaseFindings:
        """Return everything."""
        if not self._blocks and not self._findings and error is None:
            self.note("blocks", "the grid has no blocks: there was nothing to check")
        return CaseFindings(
            case=self.case,
            variants=tuple(self._variants),
            findings=tuple(self._findings.values()),
            notes=tuple(self._notes.values()),
            blocks=self._blocks,
            error=error,
        )


def to_json(results: Sequence[CaseFindings]) -> dict[str, Any]:
    """Return all results as JSON values."""
    counts = dict.fromkeys(("clean", "findings", "error", "skipped"), 0)
    for result in results:
        counts[result.status] += 1
    return {
        "counts": counts,
        "cases": [_case_json(result) for result in results],
        "checked": list(CHECKED),
        "not_checked": list(NOT_CHECKED),
    }


def _case_json(result: CaseFindings) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": result.case.name,
        "kernel": result.case.kernel,
        "variants": list(result.variants),
        "status": result.status,
        "blocks": result.blocks,
        "findings": [finding.as_json() for finding in result.findings],
        "notes": list(result.notes),
    }
    if result.skipped:
        row["skipped"] = result.skipped
    if result.error is not None:
        row["error"] = {"type": type(result.error).__name__, "message": str(result.error)}
    return row


def _fault(error: FaultError) -> Finding:
    location = error.location
    return Finding(
        kind=FindingKind.FAULT,
        what=error.what,
        location=Loc(location.file, location.line, location.column) if location else None,
        block=error.block,
        parameter=error.parameter,
        index=error.index,
        hint=error.fix,
    )


def _dependence(name: str, one: tuple[str | int, Array], two: tuple[str | int, Array]) -> Finding:
    off = differing(one[1], two[1])
    first = int(np.flatnonzero(off)[0])
    index = tuple(int(n) for n in np.unravel_index(first, one[1].shape)) if one[1].ndim else ()
    shown = f"{name}[{', '.join(map(str, index))}]"
    values = one[1].reshape(-1)[first], two[1].reshape(-1)[first]
    orders = _order(one[0]), _order(two[0])
    return Finding(
        kind=FindingKind.ORDER,
        what=f"{shown} is {values[0]} with blocks in {orders[0]} order and {values[1]} in {orders[1]} order",
        parameter=name,
        index=index,
        count=int(off.sum()),
        hint="blocks run in any order on a GPU: the result must not depend on it",
    )


def _order(order: str | int) -> str:
    return order if isinstance(order, str) else f"random ({order})"


def _silent(_: str) -> None:
    """Drop what kernels print: they run once for each order."""
