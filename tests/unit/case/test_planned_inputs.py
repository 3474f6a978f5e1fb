"""What expressions see of inputs that are not made is what they see of those that are."""

from __future__ import annotations

import pytest

from tests.unit.case.conftest import case, info, kernel, made, tensor
from tilec.case.cases import BoundCase, bind, expand_cases
from tilec.case.inputs import environment, make_inputs, planned_inputs
from tilec_runtime.errors import CaseError
from tilec_runtime.model.expr import parse


def bound(*shape: object, dtype: str = "f32") -> BoundCase:
    found = kernel(case("c", made("x", *shape, dtype=dtype), made("z", "x.shape[0]", dtype=dtype)))
    return expand_cases(
        found, info(tensor("z", out=True), tensor("x", rank=len(shape)), points=({"T": dtype},))
    )[0]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((4,), "f32"), ((1,), "f16"), ((3, 5), "bf16"), ((2, 3, 4), "f32"), ((7,), "f8e4m3")],
)
def test_facts_are_those_of_the_arrays(shape: tuple[int, ...], dtype: str) -> None:
    one = bound(*shape, dtype=dtype)
    assert planned_inputs(one) == environment(one, make_inputs(one))


def test_arrays_that_no_machine_could_hold_have_facts_all_the_same() -> None:
    found = planned_inputs(bound(1 << 50))
    assert parse("nbytes(x) + nbytes(z)").evaluate(found) == 2 * 4 * (1 << 50)


def test_shapes_that_cannot_be_are_refused_as_when_they_are_made() -> None:
    with pytest.raises(CaseError, match=r"c: inputs.x: shape\[0\] = '0 - 1' is -1"):
        planned_inputs(bound("0 - 1"))


def test_of_files_nothing_is_known_before_they_are_read() -> None:
    from tilec.manifest.types import Case

    files = (("x", "f32", "x.npy"), ("z", "f32", "z.npy"))
    one = bind(
        Case(name="c"),
        info(tensor("z", out=True), tensor("x"), points=({"T": "f32"},)),
        files=files,
    )
    with pytest.raises(CaseError, match="its inputs are in files"):
        planned_inputs(one)
