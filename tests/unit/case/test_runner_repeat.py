"""Cases that are run several times: equal bits, other bits, and a run that goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.case.conftest import FakeDevice, broken, case, info, kernel, made, tensor
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.reference import References
from tilec.case.repeat import repeat_case
from tilec.case.report import case_json
from tilec.case.run import CaseResult, Repeats

INFO = info(tensor("z", out=True), tensor("x"), tensor("y"), points=({"T": "f16"}, {"T": "f32"}))
Code = Callable[..., None]


@pytest.fixture
def bound(tmp_path: Path) -> BoundCase:
    (tmp_path / "reference.py").write_text("def add(x, y):\n    return x + y\n")
    inputs = (made("x", 33), made("y", 33, seed=1), made("z", "x.shape[0]", dist="empty"))
    return expand_cases(kernel(case("c", *inputs, reference="reference.py:add")), INFO)[1]


def launches(*steps: Code) -> Code:
    """Code that does something else at each launch, the last for all that follow."""
    left = list(steps)

    def code(**arguments: Any) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(**arguments)

    return code


def add(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    z[...] = x + y


def nearly(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    add(z, x, y)
    z[3] = np.nextafter(z[3], np.float32(np.inf))


def wrong(z: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    add(z, x, y)
    z[5] += 1


def run(bound: BoundCase, tmp_path: Path, code: Code, times: int = 5, **more: Any) -> CaseResult:
    return repeat_case(
        bound,
        FakeDevice({"add": code}),
        References(str(tmp_path)),
        times=times,
        clock=lambda: 0.0,
        **more,
    )


def test_equal_bits(bound: BoundCase, tmp_path: Path) -> None:
    saved: list[str] = []
    result = run(bound, tmp_path, add, save=lambda _, name, __: saved.append(name))
    assert (result.status, result.repeats, saved) == ("passed", Repeats(runs=5, wanted=5), ["z"])
    assert result.outputs[0].comparison.ok
    assert (case_json(result)["runs"], case_json(result)["varied"]) == (5, {})


def test_other_bits_are_told_and_are_no_failure(bound: BoundCase, tmp_path: Path) -> None:
    result = run(bound, tmp_path, launches(add, nearly, add, nearly))
    assert (result.status, result.repeats) == (
        "passed",
        Repeats(runs=5, wanted=5, varied=(("z", 3),)),
    )
    assert case_json(result)["varied"] == {"z": 3}


def test_a_later_run_that_is_wrong_fails(bound: BoundCase, tmp_path: Path) -> None:
    result = run(bound, tmp_path, launches(add, nearly, wrong, add))
    assert (result.status, result.repeats) == (
        "failed",
        Repeats(runs=3, wanted=5, varied=(("z", 2),)),
    )
    assert (result.case, result.outputs[0].comparison.first_index) == (bound, (5,))


def test_the_first_run_decides_alone_where_it_is_wrong(bound: BoundCase, tmp_path: Path) -> None:
    result = run(bound, tmp_path, launches(wrong, add))
    assert (result.status, result.repeats) == ("failed", Repeats(runs=1, wanted=5))


def test_an_error_of_a_later_run(bound: BoundCase, tmp_path: Path) -> None:
    result = run(bound, tmp_path, launches(add, broken))
    assert (result.status, result.repeats) == ("error", Repeats(runs=2, wanted=5))
    assert "the launch failed" in str(result.error)
    assert result.case.reference, "the case as it was given"


def test_one_run_has_nothing_to_be_compared_with(bound: BoundCase, tmp_path: Path) -> None:
    assert run(bound, tmp_path, add, times=1).repeats == Repeats(runs=1, wanted=1)
