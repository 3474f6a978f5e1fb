"""Checking cases: what comes of launches whose results depend on order, fault, or are several;
kernels are Python here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ADD, F32, I32, PTR
from tests.runtime_samples import bundle_of
from tests.unit.case.conftest import case, kernel, made
from tests.unit.runtime.cpu.tileir.build import TOKEN, Builder, program
from tilec.case import sanitize
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.sanitize import (
    CaseFindings,
    SanitizeOptions,
    Sanitizer,
    Watch,
    watched,
)
from tilec.manifest.types import Tolerance
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.cpu.launch import CpuOptions, CpuRun
from tilec_runtime.cpu.tileir.check.findings import FindingKind
from tilec_runtime.cpu.tileir.execute import Options
from tilec_runtime.cpu.tileir.frame import Access, AccessKind, Frame, Launch
from tilec_runtime.cpu.tileir.ir import AtomicMode, MemoryOrder, MemoryScope, Scalar, Value
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.errors import FaultError, Location

TYPES = (PTR, PTR, PTR, I32, F32)
Work = Callable[[CpuRun], None]
Check = Callable[..., CaseFindings]
DEFAULT = SanitizeOptions()


def of_program(*, atomic: bool) -> Program:
    """A kernel that writes z; it is not run, but looked at for what it may write, and how."""

    def fill(b: Builder, z: Value, *_: Value) -> None:
        b.op(
            "store_ptr_tko",
            {"destination": z, "value": b.constant(1.0, Scalar.F32)},
            TOKEN,
            {"order": MemoryOrder.WEAK},
        )
        if atomic:
            attributes = {
                "mode": AtomicMode.ADDF,
                "order": MemoryOrder.RELAXED,
                "scope": MemoryScope.DEVICE,
            }
            b.op(
                "atomic_rmw_tko",
                {"pointers": z, "value": b.constant(1.0, Scalar.F32)},
                [F32, TOKEN],
                attributes,
            )
        b.ret()

    return program(TYPES, fill, name="add")


def numbers(run: CpuRun) -> np.ndarray:
    found: np.ndarray = run.regions["z"].data.view("f4")
    return found


def bound(size: int = 300, **more: Any) -> BoundCase:
    inputs = (
        made("z", size, dtype="f32", dist="empty"),
        made("x", size, dtype="f32"),
        made("y", size, dtype="f32", seed=1),
    )
    (found,) = expand_cases(kernel(case("some", *inputs, **more)), ADD)
    return found


@pytest.fixture
def sanitizer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sanitizer]:
    """Makes what checks a kernel that is a Python function."""

    def makes(work: Work, *, atomic: bool = False, options: SanitizeOptions = DEFAULT) -> Sanitizer:
        class Kernels(CpuDriver):
            def __init__(self, options: CpuOptions) -> None:
                super().__init__(dataclasses.replace(options, run=work))

            def load_module(self, ordinal: int, data: bytes) -> Any:
                return data

            def function(self, module: Any, symbol: str) -> Program:
                return of_program(atomic=atomic)

        monkeypatch.setattr(sanitize, "CpuDriver", Kernels)
        return Sanitizer(bundle_of(ADD), options)

    return makes


@pytest.fixture
def check(sanitizer: Callable[..., Sanitizer]) -> Check:
    """Checks one case of such a kernel."""

    def checks(
        work: Work, *, atomic: bool = False, options: SanitizeOptions = DEFAULT, **more: Any
    ) -> CaseFindings:
        return sanitizer(work, atomic=atomic, options=options).check(bound(**more))

    return checks


def test_bits_of_nan_are_no_difference(check: Check) -> None:
    """Processors take the bits of a NaN from one operand or the other."""

    def work(run: CpuRun) -> None:
        reverse = run.options.order == "reverse"
        numbers(run)[:] = 1
        numbers(run)[3:5] = -np.float32(np.nan) if reverse else np.float32(np.nan)
        numbers(run)[6:8] = np.nan if reverse else 2.0

    (found,) = check(work).findings
    assert found.what == "z[6] is 2.0 with blocks in forward order and nan in reverse order"
    assert found.count == 2


@pytest.mark.parametrize(
    ("atomic", "off", "tolerance", "findings", "notes"),
    [
        (True, 1e-7, (), 0, 1),  # sums of floats differ by rounding
        (False, 1e-7, (), 1, 0),  # without atomics blocks cannot add up anything
        (True, 0.5, (), 1, 0),
        (
            True,
            0.5,
            (Tolerance(dtype="f32", atol=1.0, rtol=0.0),),
            0,
            1,
        ),  # the case says what rounding may do
    ],
)
def test_rounding_is_a_note(
    check: Check,
    atomic: bool,
    off: float,
    tolerance: tuple[Tolerance, ...],
    findings: int,
    notes: int,
) -> None:
    def work(run: CpuRun) -> None:
        numbers(run)[:] = np.float32(1) + np.float32(off) * (run.options.order == "reverse")

    found = check(work, atomic=atomic, tolerance=tolerance)
    assert (len(found.findings), len(found.notes)) == (findings, notes)
    if notes:
        assert found.notes == (
            "z differs in its rounding with the order of the blocks, as sums of floats do",
        )
        assert found.status == "clean"


def fault(run: CpuRun) -> None:
    place = Location(file="k.py", line=5, column=9)
    raise FaultError(
        "add: it went wrong",
        location=place,
        block=(1, 0, 0),
        parameter="z",
        index=(3,),
        fix="mend it",
        kernel="add",
    )


def test_a_bug_of_the_interpreter_is_an_error_and_no_finding(check: Check) -> None:
    def work(run: CpuRun) -> None:
        raise ZeroDivisionError

    found = check(work)
    assert (found.status, found.findings) == ("error", ())
    assert "ZeroDivisionError" in str(found.error)


def race(run: CpuRun) -> None:
    """Tells the checker that two blocks write one element."""
    assert run.options.observer is not None
    launch = Launch(
        kernel="add",
        grid=(2, 1, 1),
        memory=run.memory,
        observer=run.options.observer,
        output=print,
        globals={},
    )
    frame = Frame(launch, np.array([0, 1]))
    op = next(op for op in run.program.function.walk() if op.name == "store_ptr_tko")
    access = Access(
        op=op,
        frame=frame,
        region=run.regions["z"],
        offsets=np.array([[8], [8]]),
        mask=None,
        size=4,
        kind=AccessKind.WRITE,
        order=MemoryOrder.WEAK,
        scope=None,
    )
    run.options.observer.access(access)
    numbers(run)[:] = 1


def test_no_blocks_are_said(check: Check) -> None:
    (empty,) = check(lambda run: None, size=0).notes
    assert empty == "the grid has no blocks: there was nothing to check"


def test_a_watch_keeps_the_launches_of_a_case_apart() -> None:
    """What `run --check` makes of a case: its kernels are launched once, and its end may be a
    fault.
    """
    watch, item = Watch(), bound()
    watch.expect(item)
    regions = {"z": MemoryRegion.of("z", np.zeros(300, np.float32))}
    run = CpuRun(
        kernel="add-any",
        program=of_program(atomic=False),
        arguments=(),
        grid=(2, 1, 1),
        memory=Memory(regions.values()),
        regions=regions,
        options=Options(),
    )
    for _ in range(2):
        race(dataclasses.replace(run, options=Options(observer=watch(run))))
    first = watched(watch, item, None)
    assert [found.kind for found in first.findings] == [FindingKind.WRITE_RACE]
    assert watched(watch, item, None).findings == ()
    (only,) = watched(watch, item, FaultError("add: it went wrong", kernel="add")).findings
    assert only.kind is FindingKind.FAULT


# --- undetermined elements
# ----------------------------------------------------------------------------------------------------------
