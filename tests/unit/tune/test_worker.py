"""What a worker answers, on a pretended GPU whose kernel is a Python function: right, wrong,
refused, faulting; and pairs.
"""

from __future__ import annotations

import ctypes
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bundle_samples import write_kernels
from tests.runtime_samples import ADD, fake_driver
from tilec.bench.measure import MeasureOptions
from tilec.case.cases import bind, small_case
from tilec.manifest.types import Case, Input
from tilec.model.tuning import Status
from tilec.testing.fake_driver import H200, FakeDriver, FakeKernel
from tilec.tune import wire, worker

COUNT = 64
CASE = bind(
    Case(
        name="some",
        inputs=tuple(
            Input(name=n, shape=(str(COUNT),), dtype="f32", seed=i) for i, n in enumerate("zxy")
        ),
    ),
    ADD,
)
QUICK = MeasureOptions(least=3, most=4, warm_up=0.0, seconds=0.0)


def floats(address: int) -> Any:
    return np.frombuffer((ctypes.c_float * COUNT).from_address(address), np.float32)


def add(z: int, x: int, y: int, n: int, alpha: float) -> None:
    floats(z)[:] = alpha * floats(x) + floats(y)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    found = fake_driver(ADD, devices=(dataclasses.replace(H200, l2=4096),), run=add)
    monkeypatch.setattr(worker, "driver_of", lambda device: found)
    monkeypatch.setattr(worker, "uuid_of", lambda ordinal: "")  # of no GPU, also where there is one
    return found


@pytest.fixture
def subject(tmp_path: Path) -> wire.Subject:
    bundle = tmp_path / "c.tilec"
    write_kernels(bundle, ADD)
    inputs = worker.make_inputs(CASE)
    worker.write_expected(
        tmp_path / "some.npz", CASE, {"z": (inputs["x"] + inputs["y"]).astype(np.float64)}
    )
    return wire.Subject(bundle=str(bundle), case=CASE, expected=str(tmp_path / "some.npz"))


def answer(subject: wire.Subject) -> Any:
    return worker.Worker("cuda:0").answer(wire.Request(subjects=(subject,), options=QUICK))


def test_a_right_candidate_is_measured_with_a_cold_cache(
    driver: FakeDriver, subject: wire.Subject
) -> None:
    found = answer(subject)
    assert (found.status, found.reason, found.variant, found.cache) == (
        Status.MEASURED,
        "",
        "add-a16",
        "rotated",
    )
    (measurement,) = found.measurements
    assert 3 <= len(measurement.samples) <= 4
    assert "begin_capture" in driver.calls


def test_a_wrong_candidate_is_not_measured(driver: FakeDriver, subject: wire.Subject) -> None:
    driver.kernels = {name: FakeKernel(abi=kernel.abi) for name, kernel in driver.kernels.items()}
    found = answer(subject)
    assert found.status is Status.WRONG
    assert "elements are off" in found.reason
    assert not found.measurements
    assert "begin_capture" not in driver.calls


@pytest.mark.parametrize(
    ("call", "result", "fatal"),
    [
        ("load_module", "CUDA_ERROR_NO_BINARY_FOR_GPU", False),
        ("allocate", "CUDA_ERROR_OUT_OF_MEMORY", False),
        ("launch", "CUDA_ERROR_ILLEGAL_ADDRESS", True),
    ],
)
def test_a_refused_launch_fails_its_candidate(
    driver: FakeDriver, subject: wire.Subject, call: str, result: str, fatal: bool
) -> None:
    made = worker.Worker("cuda:0")
    driver.fail[call] = result
    found = made.answer(wire.Request(subjects=(subject,), options=QUICK))
    assert found.status is Status.FAILED
    assert found.reason
    assert found.fatal == fatal


def test_compares_a_smaller_case_than_it_measures(
    driver: FakeDriver, subject: wire.Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference's results are of `small`; `floats` above would write beyond them if it were
    not.
    """
    large = tuple(
        dataclasses.replace(i, shape=(str(64 * COUNT),), small=i.shape) if i.shape else i
        for i in CASE.inputs
    )
    counts: list[int] = []

    def counted(z: int, x: int, y: int, n: int, alpha: float) -> None:
        counts.append(n)
        add(z, x, y, n, alpha)

    driver.kernels = {
        name: FakeKernel(abi=kernel.abi, run=counted) for name, kernel in driver.kernels.items()
    }
    found = answer(dataclasses.replace(subject, case=dataclasses.replace(CASE, inputs=large)))
    assert (found.status, found.reason) == (Status.MEASURED, "")
    assert counts[0] == COUNT
    assert set(counts[1:]) == {64 * COUNT}


def test_the_compared_case_must_take_the_measured_variant(
    driver: FakeDriver, subject: wire.Subject
) -> None:
    """63 elements fit the general variant alone, 4096 the one that assumes multiples of 16."""
    inputs = tuple(
        dataclasses.replace(i, shape=("4096",), small=("63",)) if i.shape else i
        for i in CASE.inputs
    )
    case = dataclasses.replace(CASE, inputs=inputs)
    made = worker.make_inputs(small_case(case))
    worker.write_expected(Path(subject.expected), case, {"z": made["x"] + made["y"]})
    found = answer(dataclasses.replace(subject, case=case))
    assert (found.status, found.fatal) == (Status.FAILED, False)
    assert (
        found.reason
        == "it was checked with the extents of small, which take another variant: add, and with shape add-a16"
    )


def test_checked_candidates_are_measured_in_turn(driver: FakeDriver, subject: wire.Subject) -> None:
    """They are not compared again, since this kernel writes nothing and would fail."""
    driver.kernels = {name: FakeKernel(abi=kernel.abi) for name, kernel in driver.kernels.items()}
    request = wire.Request(subjects=(subject, subject), options=QUICK)
    found = worker.Worker("cuda:0").answer(request)
    assert found.status is Status.MEASURED
    first, second = (len(one.samples) for one in found.measurements)
    assert first == second == 4  # of an even number of turns
