"""Arguments of a run as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.case.conftest import info, tensor
from tilec.case.arguments import Argument, bind_arguments, parse_argument, parse_axis
from tilec.case.inputs import make_inputs
from tilec.manifest.types import Input
from tilec_runtime.errors import UsageError
from tilec_runtime.model.signature import Param, ParamKind

ALPHA = Param(name="alpha", kind=ParamKind.SCALAR, dtype="f32", default=1.0)
ADD = info(
    tensor("z", out=True),
    tensor("x"),
    ALPHA,
    points=({"T": "f16", "VEC": 1}, {"T": "f32", "VEC": 4}),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "x=f32[1024, 512]:normal:7",
            Input(name="x", shape=("1024", "512"), dtype="f32", dist="normal", seed=7),
        ),
        ("x=f16[8]", Input(name="x", shape=("8",), dtype="f16")),
        ("x=i32[8]", Input(name="x", shape=("8",), dtype="i32", dist="integers")),
        ("z=f32[x.shape[0]]", None),
        ("z=f32[]:zeros", Input(name="z", shape=(), dtype="f32", dist="zeros")),
        ("alpha=2.5", Input(name="alpha", value=2.5)),
        ("n=0x10", Input(name="n", value=16)),
        ("n=-3", Input(name="n", value=-3)),
        ("flag=true", Input(name="flag", value=True)),
        ("eps=1e-5", Input(name="eps", value=1e-5)),
    ],
)
def test_forms(text: str, expected: Input | None) -> None:
    if expected is None:
        with pytest.raises(UsageError):
            parse_argument(text, cwd=Path())
    else:
        assert parse_argument(text, cwd=Path()) == Argument(name=expected.name, input=expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "--arg 'x' is not NAME=VALUE"),
        ("1x=3", "is not NAME=VALUE"),
        ("x=", "is not NAME=VALUE"),
        ("x=f23[4]", "unknown dtype 'f23'; did you mean 'f32'"),
        ("x=f32[4,]", "an extent is missing in [4,]"),
        ("x=f32[4]:nromal", "unknown distribution 'nromal'; did you mean 'normal'"),
        ("x=f32[4]:normal:-1", "the seed '-1' is not a whole number"),
        ("x=hello", "'hello' is no tensor, number or file of an array"),
        ("x=none.npy", "none.npy cannot be read: No such file or directory"),
    ],
)
def test_errors(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_argument(text, cwd=tmp_path)
    assert words in str(caught.value)


def test_files_bring_their_dtype(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(5, np.float16))
    argument = parse_argument("x=x.npy", cwd=tmp_path)
    assert argument == Argument(name="x", path=str(tmp_path / "x.npy"), dtype="f16")
    bound = bind_arguments(ADD, [argument, parse_argument("z=f16[5]:empty", cwd=tmp_path)])
    assert dict(bound.axes)["T"] == "f16"
    assert make_inputs(bound)["x"].tolist() == [1.0] * 5
    (tmp_path / "bad.npy").write_text("hello")
    with pytest.raises(UsageError, match=r"bad\.npy cannot be read"):
        parse_argument("x=bad.npy", cwd=tmp_path)


def test_arguments_bind_like_a_case() -> None:
    given = [parse_argument(t, cwd=Path()) for t in ("x=f32[6]", "z=f32[6]:empty", "alpha=3")]
    bound = bind_arguments(ADD, given, axes=[parse_axis("VEC=4", ADD)])
    assert (bound.name, bound.choose, bound.reference) == ("add", (("VEC", 4),), "")
    assert make_inputs(bound)["alpha"] == 3.0
    with pytest.raises(UsageError, match="--arg x=… is given twice"):
        bind_arguments(ADD, [given[0], given[0]])


def test_axes_are_those_that_were_built() -> None:
    assert parse_axis("T=f16", ADD) == ("T", "f16")
    with pytest.raises(UsageError, match="no axis 'VAC'; did you mean 'VEC'"):
        parse_axis("VAC=1", ADD)
    with pytest.raises(UsageError, match="VEC was built for 1, 4"):
        parse_axis("VEC=2", ADD)
