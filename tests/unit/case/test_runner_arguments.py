"""Inputs of a command line: `--arg`, `--set` and `--input`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.case.conftest import case, info, kernel, made, tensor
from tilec.case.arguments import (
    bind_arguments,
    overridden,
    parse_argument,
    parse_axis,
    parse_overrides,
)
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.inputs import make_inputs
from tilec.manifest.types import Input
from tilec_runtime.errors import UsageError
from tilec_runtime.model.signature import Param, ParamKind

ALPHA = Param(name="alpha", kind=ParamKind.SCALAR, dtype="f32", default=1.0)
COUNT = Param(name="n", kind=ParamKind.SCALAR, dtype="i32")
POINTS = ({"T": "f16", "VEC": 1}, {"T": "f32", "VEC": 1}, {"T": "f32", "VEC": 4})
ADD = info(tensor("z", out=True), tensor("x"), COUNT, ALPHA, points=POINTS, default={"VEC": 1})
CASES = kernel(
    case(
        "small",
        made("x", 8, dist="ones"),
        made("z", "x.shape[0]", dist="empty"),
        Input(name="n", value=8),
    )
)


def bound(
    *settings: str, inputs: tuple[str, ...] = (), cwd: Path = Path()
) -> tuple[BoundCase, ...]:
    changed, files = overridden(CASES, ADD, parse_overrides(settings, inputs, cwd=cwd))
    return expand_cases(changed, ADD, files=files)


def test_scalars_shapes_tensors_and_axes() -> None:
    one, two = bound("n=0x10", "alpha=2.5", "x=[12]")
    assert (one.name, two.name) == ("add/small[f16]", "add/small[f32]")
    made_of = make_inputs(two)
    assert (made_of["n"], made_of["alpha"], made_of["x"].tolist()) == (16, 2.5, [1.0] * 12)  # type: ignore[union-attr]
    assert made_of["z"].shape == (12,), "what depends on it follows"  # type: ignore[union-attr]
    (only,) = bound("VEC=4")
    assert (only.name, only.choose, only.variants) == ("add/small[f32]", (("VEC", 4),), ("2",))
    (only,) = bound("x=f16[3]:zeros")
    assert (only.name, make_inputs(only)["x"].tolist()) == ("add/small", [0.0] * 3)  # type: ignore[union-attr]
    (only,) = bound("T=f32")
    assert dict(only.axes)["T"] == "f32"


def test_inputs_from_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", weights=np.arange(5, dtype=np.float32))
    (only,) = bound(inputs=("x=d.npz:weights",), cwd=tmp_path)
    made_of = make_inputs(only)
    assert made_of["x"].tolist() == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    assert made_of["z"].shape == (5,)  # type: ignore[union-attr]
    assert dict(only.axes)["T"] == "f32", "its dtype settles the axis"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("n",), "--set 'n' is not NAME=VALUE"),
        (("n=",), "--set 'n=' is not NAME=VALUE"),
        (("1n=3",), "--set '1n=3' is not NAME=VALUE"),
        (
            ("alhpa=3",),
            "--set alhpa=3: kernel add has no parameter or axis 'alhpa'; did you mean 'alpha'",
        ),
        (("q=3",), "kernel add has no parameter or axis 'q'; it has z, x, n, alpha, T, VEC"),
        (("n=3", "n=4"), "--set n=3: n is given more than once"),
        (("n=big",), "--set n=big: 'big' is no number, and add takes i32 for n"),
        (("n=true",), "--set n=true: 'true' is no number, and add takes i32 for n"),
        (("n=2.5",), "--set n=2.5: 2.5 is no whole number, and add takes i32 for n"),
        (("n=nan",), "--set n=nan: nan is no whole number"),
        (
            ("n=3000000000",),
            "--set n=3000000000: 3000000000 does not fit i32, which holds -2147483648 to 2147483647",
        ),
        (("x=3",), "--set x=3: add takes a tensor for x"),
        (("x=[4,]",), "--set x=[4,]: an extent is missing in [4,]"),
        (("x=f23[4]",), "--set x=f23[4]: unknown dtype 'f23'; did you mean 'f32'"),
        (("VEC=2",), "--set 'VEC=2': VEC was built for 1, 4"),
        (("x=a.npy",), "--set 'x=a.npy': an array from a file is an input"),
    ],
)
def test_settings_that_do_not_fit(settings: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        bound(*settings)
    assert words in str(caught.value)


def test_inputs_that_do_not_fit(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3, np.float32))
    for text, words in (
        ("x=3", "'3' names no file of an array"),
        ("x=b.npy", "b.npy cannot be read: No such file or directory"),
        ("n=a.npy", "kernel add has no tensor 'n'; it has z, x"),
    ):
        with pytest.raises(UsageError) as caught:
            bound(inputs=(text,), cwd=tmp_path)
        assert words in str(caught.value)
        assert str(caught.value).startswith(f"--input {text}: ")


def given(*texts: str, cwd: Path = Path()) -> BoundCase:
    arguments = [parse_argument(text, cwd=cwd) for text in texts]
    axes = [parse_axis("VEC=1", ADD)]
    return bind_arguments(ADD, arguments, axes=axes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=f32[4, 2]:normal:7", Input(name="x", shape=("4", "2"), dtype="f32", seed=7)),
        ("x=f16[8]", Input(name="x", shape=("8",), dtype="f16")),
        ("x=f32[]:zeros", Input(name="x", shape=(), dtype="f32", dist="zeros")),
        ("alpha=2.5", Input(name="alpha", value=2.5, dtype="f32")),
        ("alpha=1e-5", Input(name="alpha", value=1e-5, dtype="f32")),
        ("n=0x10", Input(name="n", value=16, dtype="i32")),
        ("n=-3", Input(name="n", value=-3, dtype="i32")),
    ],
)
def test_arguments_become_inputs(text: str, expected: Input) -> None:
    dtype = expected.dtype if expected.name == "x" else "f32"
    others = {"x": f"x={dtype}[4]", "z": f"z={dtype}[4]:empty", "n": "n=4"}
    others.pop(expected.name, None)
    bound = given(text, *others.values())
    assert next(item for item in bound.inputs if item.name == expected.name) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "--arg 'x' is not NAME=VALUE"),
        ("1x=3", "is not NAME=VALUE"),
        ("x=", "is not NAME=VALUE"),
        ("x=f23[4]", "unknown dtype 'f23'; did you mean 'f32'"),
        ("x=f32[4,]", "an extent is missing in [4,]"),
        ("x=f32[x.shape[0]]", "is no tensor, number or file of an array"),
        ("x=f32[4]:nromal", "unknown distribution 'nromal'; did you mean 'normal'"),
        ("x=f32[4]:normal:-1", "the seed '-1' is not a whole number"),
        ("x=hello", "'hello' is no tensor, number or file of an array"),
        ("x=none.npy", "none.npy cannot be read: No such file or directory"),
        ("x=bad.npy", "bad.npy cannot be read"),
        ("z=f32[4]", "--arg z=… is given twice"),
    ],
)
def test_malformed_arguments_are_rejected(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.npy").write_text("hello")
    with pytest.raises(UsageError) as caught:
        given(text, "z=f32[4]", cwd=tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [("VAC=1", "no axis 'VAC'; did you mean 'VEC'"), ("VEC=2", "VEC was built for 1, 4")],
)
def test_axes_are_those_that_were_built(text: str, words: str) -> None:
    assert parse_axis("T=f16", ADD) == ("T", "f16")
    with pytest.raises(UsageError, match=words):
        parse_axis(text, ADD)
