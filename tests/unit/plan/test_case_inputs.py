"""Inputs of cases, held against the kernel's parameters before anything is built or run: most
kernels run on another machine.
"""

from __future__ import annotations

import pytest

from tests.unit.plan.test_plan import cuda_kernel, problems
from tilec.manifest.types import Case, Input

GIVEN = {
    "x": {"shape": ("10",), "dtype": "T"},
    "y": {"shape": ("x.shape[0]",)},
    "s": {"value": 2.0},
}


def with_case(**changes: dict[str, object]):
    inputs = tuple(
        Input(name=name, **(changes.get(name) or given)) for name, given in GIVEN.items()
    )
    return cuda_kernel(cases=(Case(name="few", inputs=inputs),))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"x": {"shape": ("2", "5")}}, ".x.shape: 2 extents, and the kernel takes 1 for x"),
        ({"y": {"shape": ()}}, ".y.shape: 0 extents, and the kernel takes 1 for y"),
        (
            {"x": {"shape": ("10",), "dtype": "f64"}},
            ".x.dtype: f64, and the kernel takes f16, f32 for x",
        ),
        (
            {"x": {"value": 3}},
            ".x: x is a tensor, and a number is given: inputs.x = { shape = [1024] }",
        ),
        ({"s": {"shape": ("1",)}}, ".s: s is a number, and a tensor is given: inputs.s = 2"),
    ],
)
def test_inputs_that_no_launch_would_take(changes: dict[str, dict[str, object]], told: str) -> None:
    assert problems(with_case(**changes)) == [f"kernel.scale.case.few.inputs{told}"]
