"""The examples without a GPU: what is planned for them, and that every case binds, makes its inputs
and has a reference that fits.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.unit.case.conftest import FakeDevice
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.functions import Functions
from tilec.case.reference import expected_results
from tilec.case.run import run_case
from tilec.compile.events import Observer
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.plan import Plan
from tilec.planning import BuildRequest, plan_only
from tilec_runtime.model.kernel import KernelInfo, VariantInfo

pytestmark = pytest.mark.toolchain

MANIFEST = Path(__file__).resolve().parents[2] / "tilec.toml"
# Their inputs take seconds to make or multiply on a small machine, and say nothing that the other
# cases do not say.
LARGE = {"4k", "16m", "1k", "1m", "2k"}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_only(BuildRequest(manifest_path=MANIFEST), Observer())


def infos(plan: Plan) -> dict[str, KernelInfo]:
    found = {}
    for kernel in plan.kernels:
        variants = dict.fromkeys(
            VariantInfo(id=job.variant.id, axes=job.variant.axes) for job in kernel.jobs
        )
        found[kernel.info.name] = dataclasses.replace(kernel.info, variants=tuple(variants))
    return found


def oracle(case: BoundCase, functions: Functions) -> FakeDevice:
    """A device whose kernel is the reference."""

    def compute(**arguments: Any) -> None:
        for name, expected in expected_results(case, arguments, functions).items():
            arguments[name][...] = expected.astype(arguments[name].dtype)

    return FakeDevice({case.kernel: compute})


def test_every_case_has_inputs_and_a_reference_that_fits(plan: Plan) -> None:
    manifest = open_project(MANIFEST, ToolSearch()).manifest
    known, functions = infos(plan), Functions(manifest.root)
    cases = [
        case
        for kernel in manifest.kernels
        for case in expand_cases(kernel, known[kernel.name], locate=manifest.locate)
    ]
    assert {case.kernel for case in cases} == set(known)
    assert all(case.reference for case in cases)
    small = [case for case in cases if case.case not in LARGE]
    results = [
        run_case(case, oracle(case, functions), functions, clock=lambda: 0.0) for case in small
    ]
    assert [(r.case.name, r.status, str(r.error)) for r in results if r.status != "passed"] == []
    assert {case.kernel for case in small} == set(known)
