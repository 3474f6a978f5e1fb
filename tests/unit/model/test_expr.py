"""The expression language: values, names used, every refusal with its column, and bounds."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest

from tilec.model.argument import parse_abi
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.expr import parse


@dataclasses.dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...] = (4, 8)
    stride: tuple[int, ...] = (8, 1)
    size: int = 32
    ptr: int = 4096
    dtype: str = "f16"
    nbytes: int = 64


class Foreign:
    """A scalar of another library."""

    def __index__(self) -> int:
        return 7


class ForeignFloat:
    def __float__(self) -> float:
        return 0.5


ENV: dict[str, Any] = {
    "x": Tensor(),
    "y": Tensor((2, 2), (2, 1), 4, 8, "f32", 16),
    "BM": 3,
    "T": "f16",
    "eps": 1.5,
    "flag": True,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x.shape[0]", 4),
        ("x.shape[-1]", 8),
        ("x.stride[1]", 1),
        ("x.size", 32),
        ("x.ptr", 4096),
        ("x.dtype == 'f16'", True),
        ('x.dtype == T == "f16"', True),
        ("x.dtype != y.dtype", True),
        ("x.shape == y.shape", False),
        ("x.shape == (4, 8)", True),
        ("x.stride != (BM, 1)", True),
        ("BM", 3),
        ("T", "f16"),
        ("eps", 1.5),
        ("0x10 + 1_000", 1016),
        ("1.5e1", 15.0),
        ("7 // 2 * 2 % 4", 2),
        ("-7 // 2", -4),
        ("10 - 3 - 2", 5),
        ("2 * (3 + 4)", 14),
        ("- -3", 3),
        ("cdiv(x.shape[0], BM)", 2),
        ("cdiv(-7, 2)", -3),
        ("min(3, BM - 1, 7)", 2),
        ("max(3, 1.5)", 3),
        ("next_pow2(5)", 8),
        ("next_pow2(8)", 8),
        ("next_pow2(0)", 1),
        ("nbytes(x) + nbytes(y)", 80),
        ("1 < BM <= 3 < 4", True),
        ("1 < BM < 3", False),
        ("not BM == 3 or flag and eps > 1", True),
        ("flag == True and not False", True),
        ("0 or BM", 3),
        ("1 and 0", 0),
        (" \n BM\t+\n1 ", 4),
        ("+".join(["BM"] * 100), 300),
    ],
)
def test_values(text: str, value: object) -> None:
    got = parse(text).evaluate(ENV)
    assert got == value
    assert type(got) is type(value)


def test_numbers_of_other_libraries() -> None:
    assert parse("n + 1").evaluate({"n": Foreign()}) == 8
    assert parse("n * 2").evaluate({"n": ForeignFloat()}) == 1.0
    assert parse("n").evaluate({"n": np.bool_(True)}) is True


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "the expression is empty"),
        (" \n", 1, "the expression is empty"),
        ("BM / 2", 4, "unexpected '/': write '//' for integer division"),
        ("BM ** 2", 4, "unexpected '**': there is no power: write the product"),
        ("BM && T", 4, "unexpected '&&': write 'and'"),
        ("BM | T", 4, "unexpected '|': write 'or'"),
        ("!BM", 1, "unexpected '!': write 'not'"),
        ("BM = 3", 4, "unexpected '=': write '==' to compare"),
        ("BM := 3", 5, "unexpected '=': write '==' to compare"),
        ("é + 1", 1, "unexpected 'é'"),
        ("1and 2", 1, "unexpected '1and'"),
        ("007", 1, "unexpected '007'"),
        ("f'x' == T", 1, "unexpected 'f'"),
        ("'a\\n' == T", 1, 'unexpected "\'"'),
        ("1; 2", 2, "unexpected ';'"),
        ("1 # no", 3, "unexpected '#'"),
        ("1 +", 4, "the expression ends too early"),
        ("BM and ", 7, "the expression ends too early"),
        ("(BM", 1, "'(' was never closed"),
        ("x.shape[0", 8, "'[' was never closed"),
        ("BM)", 3, "unmatched ')'"),
        ("  BM BM", 6, "the expression cannot be read at 'BM'"),
        ("1 if BM else 2", 1, "'if' is not part of the language"),
        ("[1]", 1, "a list is not part of the language"),
        ("None", 1, "None is not part of the language"),
        ("BM is 3", 1, "the comparisons are == != < <= > >="),
        ("BM in x.shape", 1, "the comparisons are == != < <= > >="),
        ("+BM", 1, "unary plus is not part of the language"),
        ("'a'", 1, "text can only be compared with == or !="),
        ("1 + 'a'", 5, "text can only be compared with == or !="),
        ("(1, 2)", 1, "a tuple can only be compared with a shape or a stride"),
        ("x.shape", 1, "a whole shape can only be compared: take one extent, such as x.shape[0]"),
        (
            "1 + x.shape",
            5,
            "a whole shape can only be compared: take one extent, such as x.shape[0]",
        ),
        ("1 + x.dtype", 5, "a dtype or text can only be compared with == or !="),
        ("x.shape < y.shape", 1, "shapes, dtypes and text can only be compared with == or !="),
        ("T < 'a'", 1, "shapes, dtypes and text can only be compared with == or !="),
        ("x.shape == 4", 12, "a shape is compared with a number"),
        ("x.size == 4 == x.shape", 16, "a number is compared with a shape"),
        ("'a' == x.shape", 8, "a text is compared with a shape"),
        ("x.shap[0]", 1, "unknown attribute 'x.shap'; did you mean 'shape'"),
        ("x.strides[0]", 1, "unknown attribute 'x.strides'; did you mean 'stride'"),
        (
            "x.__class__",
            1,
            "unknown attribute 'x.__class__'; known are shape, stride, size, ptr, dtype",
        ),
        ("x.shape.real", 1, "'.real' follows a parameter's name only, as in x.real"),
        ("x[0]", 1, "only shapes and strides have parts, as in x.shape[0]"),
        ("x.size[0]", 1, "only shapes and strides have parts, as in x.shape[0]"),
        ("x.shape[::2]", 11, "a part of a shape has two ends, as in x.shape[1:3]"),
        (
            "x.shape[1:]",
            1,
            "a whole shape can only be compared: take one extent, such as x.shape[0]",
        ),
        ("x.shape[0, 1]", 1, "one index is needed, as in x.shape[0]"),
        ("ceildiv(1, 2)", 1, "unknown function 'ceildiv'; did you mean 'cdiv'"),
        ("open(1)", 1, "unknown function 'open'; known are cdiv, min, max, next_pow2, nbytes"),
        ("x.size(1)", 1, "only cdiv, min, max, next_pow2, nbytes can be called"),
        ("i32(BM) + 1", 1, "the cast i32() stands only around a whole kernel argument"),
        ("min(1)", 1, "min() takes two values or more, 1 given"),
        ("cdiv(1)", 1, "cdiv() takes two values, 1 given"),
        ("nbytes(x.shape)", 8, "nbytes() takes a tensor parameter's name"),
        ("cdiv(*x.shape)", 1, "cdiv() takes two values, 1 given"),
        ("min(1, *x.shape)", 8, "'*' is not part of the language"),
        ("99999999999999999999", 1, "the number is too large: integers end below 2**63"),
        ("1e999", 1, "the number is too large: integers end below 2**63"),
        ("-" * 40 + "1", 33, "the expression is nested too deeply: the most is 32 levels"),
        ("(" * 400 + "1" + ")" * 400, None, "the expression is nested too deeply"),
        ("1 +" * 400 + "1", 1, "the expression has 1201 characters, the most is 1000"),
        ("x.size + BM // 0", 16, "division by zero"),
        ("BM % 0", 6, "division by zero"),
        ("cdiv(x.size, -0)", 14, "division by zero"),
    ],
)
def test_refusals(text: str, column: int | None, message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ExpressionError) as caught:
            parse(text)
    assert caught.value.what == message
    if column is not None:
        assert caught.value.column == column


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("x.shape[0] + bm", 14, "unknown name 'bm'; did you mean 'BM'"),
        ("zzz", 1, "unknown name 'zzz'; known are BM, x"),
        ("nbytes(X)", 8, "unknown name 'X'; did you mean 'x'"),
        ("min + 1", 1, "'min' is a function: write min(…)"),
        ("x.shape == 'é'", 12, "a shape is compared with a text"),
    ],
)
def test_names_are_checked(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, names={"x", "BM"})
    assert (caught.value.what, caught.value.column) == (message, column)


def test_extents_that_are_written_out_are_known() -> None:
    found = parse("x.shape[0] + x.shape[-1] * y.stride[BM] + cdiv(y.stride[2], x.shape[1 + 1])")
    assert found.extents == {("x", "shape", 0), ("x", "shape", -1), ("y", "stride", 2)}


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (
            "x.shape[5]",
            1,
            "x.shape has 2 dimensions and no [5] in 'x.shape[5]' with x.shape = (4, 8)",
        ),
        ("1 + BM // (BM - 3)", 12, "division by zero in '1 + BM // (BM - 3)' with BM = 3"),
        (
            "cdiv(x.size, BM - 3)",
            1,
            "division by zero in 'cdiv(x.size, BM - 3)' with BM = 3, x.size = 32",
        ),
        (
            "BM + x",
            6,
            "'x' is no number: of a tensor use x.shape[0], x.size, x.dtype in 'BM + x' with BM = 3",
        ),
        ("T + 1", 1, "'f16' is no number in 'T + 1' with T = 'f16'"),
        ("BM.shape[0]", 1, "'BM' is no tensor: it has no 'shape' in 'BM.shape[0]'"),
        ("nbytes(BM)", 8, "'BM' is no tensor: it has no 'nbytes' in 'nbytes(BM)'"),
        ("T == BM", 6, "'f16' and 3 cannot be compared in 'T == BM' with BM = 3, T = 'f16'"),
        ("T < T", 5, "'f16' and 'f16' cannot be compared by size in 'T < T' with T = 'f16'"),
        ("gone + 1", 1, "'gone' has no value in 'gone + 1'"),
        (
            "9223372036854775807 + BM",
            23,
            "a value is beyond 64 bits in '9223372036854775807 + BM' with BM = 3",
        ),
        (
            "next_pow2(9223372036854775807)",
            1,
            "a value is beyond 64 bits in 'next_pow2(9223372036854775807)'",
        ),
        ("next_pow2(-1)", 1, "next_pow2(): -1 is negative in 'next_pow2(-1)'"),
        ("next_pow2(eps)", 1, "next_pow2(): 1.5 is no integer in 'next_pow2(eps)' with eps = 1.5"),
        ("huge", 1, "the value of 'huge' is beyond 64 bits with huge = 9223372036854775808"),
        ("far * 1.5", 7, "a value is beyond 64 bits in 'far * 1.5'"),
    ],
)
def test_values_that_do_not_fit(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text).evaluate({**ENV, "huge": 2**63, "far": 10**400})
    assert caught.value.what.split(" with far")[0] == message
    assert caught.value.column == column
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "type_", "inner"),
    [
        ("y.ptr", "ptr", "y.ptr"),
        ("i32(x.shape[1])", "i32", "x.shape[1]"),
        (" f32( eps * 2 ) ", "f32", "eps * 2"),
        ("u64(x.ptr)", "u64", "x.ptr"),
        ("i32((BM + 1))", "i32", "BM + 1"),
        ("i64(4)", "i64", "4"),
        ("eps", "", "eps"),
    ],
)
def test_arguments_of_the_entry_point(text: str, type_: str, inner: str) -> None:
    got, expr = parse_abi(text, names=ENV)
    assert (got, expr.text) == (type_, inner)
    assert expr.evaluate(ENV) == parse(inner).evaluate(ENV)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (
            "x.shape[0]",
            1,
            "the argument has no definite type: write a cast, such as i32(x.shape[0])",
        ),
        ("i32(1) + i32(2)", 1, "the cast i32() stands only around a whole kernel argument"),
        ("i32(1, 2)", 1, "the cast i32() takes one value"),
        ("int(BM)", 1, "unknown function 'int'; did you mean 'min'"),
        (
            "i32(x.shape)",
            5,
            "a whole shape can only be compared: take one extent, such as x.shape[0]",
        ),
        ("i32(q)", 5, "unknown name 'q'; known are BM, T, eps, flag, x, y"),
        ("Y.ptr", 1, "unknown name 'Y'; did you mean 'y'"),
        ("eps2", 1, "unknown name 'eps2'; did you mean 'eps'"),
    ],
)
def test_arguments_refused(text: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_abi(text, names=ENV)
    assert (caught.value.what, caught.value.column) == (message, column)
