"""Entries of `against`: what is read, what is rejected, and what a call computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilec.bench.rivals import function_of, rivals_of
from tilec.case.cases import BoundCase
from tilec.case.functions import Functions
from tilec.manifest.types import Bench
from tilec_runtime.errors import CaseError, Location
from tilec_runtime.model.signature import Param, ParamKind

PLACE = Location(file="tilec.toml", line=7, column=1)
PARAMS = tuple(Param(name=name, kind=ParamKind.TENSOR) for name in ("a", "b", "alpha"))
VALUES = {"a": np.array([3.0, 4.0]), "b": np.full(2, 3.0), "alpha": 2.0}


def against(text: str) -> BoundCase:
    keys = {("bench", "against", 0): PLACE}
    bench = Bench(against=(text,))
    return BoundCase(name="gemm/4k", kernel="gemm", params=PARAMS, bench=bench, keys=keys)


def called(text: str, library: object) -> Any:
    case = against(text)
    (rival,) = rivals_of(case)
    return function_of(case, rival, library, Functions(""))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tourch:matmul(a, b)", "unknown library 'tourch'; did you mean 'torch'"),
        ("jax:add(a, b)", "unknown library 'jax'; there are torch, triton, cupy, numpy"),
        ("torch:matmul(a, b", "not valid Python: '(' was never closed"),
        ("torch:a", "it calls nothing"),
        ("torch:matmul(a, b); b", "not valid Python: invalid syntax"),
        ("torch:matmul(a, [x for x in b])", "[x for x in b] is not allowed in it"),
        ("torch:(lambda: a)()", "lambda: a is not allowed in it"),
        ("torch:a.__class__()", "'__class__' is private"),
        ("torch:__import__('os')", "'__import__' is private"),
        ("torch:matmul(a, b := a)", "(b := a) is not allowed in it"),
        ("torch:a(b)", "'a' is an input, and cannot be called"),
        ("torch:matmul(f'{a}', b)", "f'{a}' is not allowed in it"),
        ("numpy:a * 9**9**9", "9 ** 9 ** 9 is not allowed in it"),
        ("numpy:zeros(4)", "it uses none of the case's inputs (a, b"),
    ],
)
def test_malformed_entries_are_located(text: str, said: str) -> None:
    with pytest.raises(CaseError) as caught:
        rivals_of(against(text))
    assert str(caught.value).startswith(f"tilec.toml:7:1: gemm/4k: against {text!r}: {said}")
    assert caught.value.fix


@pytest.mark.parametrize(
    "call",
    [
        "add(a * alpha, b.T)",
        "norm(a) + -sum(b)",
        "add(stack((a, b))[0, 1], b)",
        "full(a.shape, b[1], dtype=float32)",
        "(a + b - 1) / alpha // 2",
        "reshape(a, [1, 2]) @ b",
        "b.reshape(1, 2)",
    ],
)
def test_a_call_is_evaluated_as_python_would(call: str) -> None:
    names = {
        name: getattr(np, name) for name in ("add", "sum", "stack", "full", "float32", "reshape")
    }
    expected = eval(call, {**names, "norm": np.linalg.norm}, VALUES)
    found = called(f"numpy:{call}", np)(VALUES)
    np.testing.assert_array_equal(found, expected)
    assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_unknown_functions_and_inputs_get_suggestions() -> None:
    for text, meant in (("numpy:matmull(a, b)", "matmul"), ("numpy:matmul(a, alfa)", "alpha")):
        with pytest.raises(CaseError, match=f"did you mean '{meant}'") as caught:
            called(text, np)
        assert caught.value.location == PLACE


def test_builtins_are_out_of_reach() -> None:
    with pytest.raises(CaseError, match="has no 'open'"):
        called("torch:open(a)", object())
