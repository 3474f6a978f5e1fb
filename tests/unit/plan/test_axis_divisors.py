"""Axes of the matrix among the divisors of `assume.sets`: each variant has its own value of them."""

from __future__ import annotations

import pytest

from tilec.manifest.types import AssumeSet, Kernel, Matrix
from tilec.plan.matrix import expand
from tilec_runtime.model.signature import Param, ParamKind

PARAMS = tuple(Param(name=name, kind=ParamKind.TENSOR, dtype="f32", rank=2) for name in ("y", "x"))


def expanded(axes, *sets):
    told = []
    kernel = Kernel(
        name="k",
        source="k.py",
        function="k",
        language="tile",
        matrix=Matrix(axes=axes),
        assume=sets,
    )
    variants = expand(kernel, PARAMS, lambda what, path, column=0: told.append((what, path)))
    return variants, told


@pytest.mark.parametrize(
    ("divisor", "axes", "said"),
    [
        (
            "COL",
            (("COLS", (512, 1024)),),
            "'COL' is no axis of the matrix: it has COLS; did you mean 'COLS'",
        ),
        ("COLS", (), "'COLS' is no axis of the matrix: it has none"),
        (
            "T",
            (("T", ("f32", "f16")),),
            "axis T is 'f32' in a variant: divisors are positive integers",
        ),
        (
            "FAST",
            (("FAST", (True,)),),
            "axis FAST is True in a variant: divisors are positive integers",
        ),
        ("N", (("N", (0, 4)),), "axis N is 0 in a variant: divisors are positive integers"),
    ],
)
def test_refuses_divisors_that_are_none(divisor, axes, said):
    _, told = expanded(axes, AssumeSet(divisible=(("x", (1, divisor)),)))
    assert told[0] == (said, ("kernel", "k", "assume", "sets", 0, "divisible", "x", 1))
