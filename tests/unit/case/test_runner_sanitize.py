"""Checking cases of kernels that are Python functions here; tests/e2e checks real ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ADD, F32, I32, PTR, held
from tests.runtime_samples import bundle_of
from tests.unit.case.conftest import case, kernel, made
from tests.unit.runtime.cpu.tileir.build import TOKEN, Builder, program
from tilec.case import sanitize
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.sanitize import (
    CaseFindings,
    Sanitizer,
)
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.cpu.launch import CpuOptions, CpuRun
from tilec_runtime.cpu.tileir.ir import MemoryOrder, Scalar, Value
from tilec_runtime.cpu.tileir.program import Program

TYPES = (PTR, PTR, PTR, I32, F32)
Work = Callable[[CpuRun], None]
Check = Callable[..., CaseFindings]


def writes_z(b: Builder, z: Value, *_: Value) -> None:
    store = {"destination": z, "value": b.constant(1.0, Scalar.F32)}
    b.op("store_ptr_tko", store, TOKEN, {"order": MemoryOrder.WEAK})
    b.ret()


def bound(size: int) -> BoundCase:
    inputs = (
        made("z", size, dtype="f32", dist="empty"),
        made("x", size, dtype="f32"),
        made("y", size, dtype="f32", seed=1),
    )
    (found,) = expand_cases(kernel(case("some", *inputs)), ADD)
    return found


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Check:
    """Checks one case of a kernel that is a Python function."""

    def checks(work: Work, size: int = 300) -> CaseFindings:
        class Kernels(CpuDriver):
            def __init__(self, options: CpuOptions) -> None:
                super().__init__(dataclasses.replace(options, run=work))

            def load_module(self, ordinal: int, data: bytes) -> Any:
                return data

            def function(self, module: Any, symbol: str) -> Program:
                return program(TYPES, writes_z, name="add")

        monkeypatch.setattr(sanitize, "CpuDriver", Kernels)
        orders = ("forward", "reverse", 0)
        return Sanitizer(bundle_of(ADD), orders=orders).check(bound(size))

    return checks


def test_bits_of_nan_are_no_difference(check: Check) -> None:
    """Processors take the bits of a NaN from one operand or the other."""

    def work(run: CpuRun) -> None:
        reverse = run.options.order == "reverse"
        held(run, "z")[:] = 1
        held(run, "z")[3:5] = -np.float32(np.nan) if reverse else np.float32(np.nan)
        held(run, "z")[6:8] = np.nan if reverse else 2.0

    (found,) = check(work).findings
    assert found.what == "z[6] is 2.0 with blocks in forward order and nan in reverse order"
    assert found.count == 2


def test_a_bug_of_the_interpreter_is_an_error_and_no_finding(check: Check) -> None:
    def work(run: CpuRun) -> None:
        raise ZeroDivisionError

    found = check(work)
    assert (found.status, found.findings) == ("error", ())
    assert "ZeroDivisionError" in str(found.error)
