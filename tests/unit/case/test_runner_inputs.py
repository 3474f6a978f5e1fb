"""Inputs: every distribution and dtype, shapes as expressions, scalars, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.case.conftest import case, info, kernel, made, tensor
from tilec.case.cases import BoundCase, bind, expand_cases
from tilec.case.inputs import environment, facts_of, make_inputs, planned_inputs, poisoned
from tilec.manifest.types import Case, Input
from tilec_runtime.errors import CaseError, Location
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import Param, ParamKind


def bound(*inputs: Input, **more: Any) -> BoundCase:
    return BoundCase(
        name="k/c", kernel="k", inputs=inputs, location=Location(file="tilec.toml", line=3), **more
    )


def one(item: Input) -> Any:
    return make_inputs(bound(item))[item.name]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dist", ["integers", "zeros", "ones", "arange", "empty"])
def test_every_dtype_has_every_distribution_that_fits(dtype: str, dist: str) -> None:
    array = one(made("x", 2, 3, dtype=dtype, dist=dist, low=0.0, high=2.0))
    assert array.dtype.name == DTYPES[dtype].numpy
    assert array.shape == (2, 3)
    assert array.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"])
def test_random_floats_are_seeded_and_bounded(dtype: str) -> None:
    normal = one(made("x", 1000, dtype=dtype, dist="normal", seed=3))
    assert normal.tobytes() == one(made("x", 1000, dtype=dtype, dist="normal", seed=3)).tobytes()
    assert normal.tobytes() != one(made("x", 1000, dtype=dtype, dist="normal", seed=4)).tobytes()
    uniform = one(made("x", 1000, dtype=dtype, dist="uniform", low=-2.0, high=-1.0)).astype(
        np.float64
    )
    assert -2 <= uniform.min() < uniform.max() <= -1


def test_the_same_seed_gives_known_numbers() -> None:
    expected = np.random.Generator(np.random.PCG64(5)).standard_normal(4, np.float32)
    assert one(made("x", 4, dtype="f32", seed=5)).tolist() == expected.tolist()


def test_integers_stay_in_their_bounds() -> None:
    array = one(made("x", 1000, dtype="i8", dist="integers", low=-3, high=3))
    assert sorted(set(array.tolist())) == [-3, -2, -1, 0, 1, 2]


def test_empty_is_poison() -> None:
    assert np.isnan(poisoned((3,), DTYPES["bf16"]).astype(np.float32)).all()
    assert poisoned((2,), DTYPES["u32"]).tolist() == [0xCBCBCBCB] * 2
    assert poisoned((2,), DTYPES["f4e2m1"]).astype(np.float32).tolist() == [-6.0, -6.0]
    assert facts_of(poisoned((3, 4), DTYPES["f4e2m1"])).nbytes == 6
    assert poisoned((), DTYPES["i16"]).shape == ()
    assert poisoned((0, 4), DTYPES["i64"]).shape == (0, 4)


def test_shapes_see_earlier_inputs_axes_and_scalars() -> None:
    case = bound(
        made("x", 6, "BM // 2", dtype="f16"), Input(name="n", value=3, dtype="i32"), made("y", "x.shape[1]", "n", "nbytes(x)", dtype="f32"),
        axes=(("BM", 8),),
    )  # fmt: skip
    inputs = make_inputs(case)
    assert inputs["y"].shape == (4, 3, 48)
    assert environment(case, inputs)["BM"] == 8


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (made("x", "y.shape[0]", dtype="f32"), "k/c: inputs.x: shape[0] = 'y.shape[0]':"),
        (
            made("x", "-1", dtype="f32"),
            "shape[0] = '-1' is -1: an extent is a whole number of at least 0",
        ),
        (
            made("x", 4, dtype="i32", dist="normal"),
            'dist = "normal" makes fractions, and the dtype is i32: use dist = "integers"',
        ),
        (made("x", 4, dtype="f32", dist="gauss"), "unknown dist 'gauss'; there are normal,"),
        (
            made("x", 4, dtype="f32", dist="uniform", low=2.0, high=1.0),
            "low = 2.0 is not below high = 1.0",
        ),
        (
            made("x", 4, dtype="u8", dist="integers", low=-1, high=4),
            "goes beyond u8, which holds 0 to 255",
        ),
        (
            made("x", 4, dtype="f32", dist="integers", low=0.2, high=0.8),
            "no whole number lies in [0.2, 0.8)",
        ),
        (Input(name="x", value="text"), "'text' is neither a number nor a table with a shape"),
        (
            Input(name="x", value=1.5, dtype="i32"),
            "1.5 is no whole number, and the kernel takes i32",
        ),
        (Input(name="x", value=300, dtype="u8"), "300 does not fit u8, which holds 0 to 255"),
        (made("x", 1 << 60, dtype="f32", dist="zeros"), "does not fit in memory"),
        (
            made("x", 1 << 62, 1 << 62, dtype="f32"),
            "(85070591730234615865843651857942052864 bytes) does not fit in memory",
        ),
        (
            made("x", 0, 1 << 62, 1 << 62, dtype="f16", dist="empty"),
            "(0 bytes) does not fit in memory",
        ),
    ],
)
def test_what_cannot_be_made_is_said_with_its_place(item: Input, words: str) -> None:
    with pytest.raises(CaseError) as caught:
        one(item)
    assert words in str(caught.value)
    assert str(caught.value).startswith("tilec.toml:3: ")


def test_scalars_take_the_precision_of_the_kernel() -> None:
    assert one(Input(name="a", value=0.1, dtype="f32")) == float(np.float32(0.1))
    assert one(Input(name="a", value=2, dtype="f32")) == 2.0
    assert one(Input(name="a", value=1, dtype="bool")) is True
    assert one(Input(name="a", value=7, dtype="i64")) == 7


def test_files_replace_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(tmp_path / "b.npy", np.ones(4, ml_dtypes.bfloat16))
    params = (
        Param(name="x", kind=ParamKind.TENSOR, dtype="f32"),
        Param(name="b", kind=ParamKind.TENSOR, dtype="bf16"),
    )
    case = bound(
        made("y", "x.shape[1]", dtype="f32"),
        params=params,
        files=(("x", f"{tmp_path}/x.npy"), ("b", f"{tmp_path}/b.npy")),
    )
    inputs = make_inputs(case)
    assert inputs["y"].shape == (3,)
    assert inputs["b"].dtype == ml_dtypes.bfloat16
    wrong = bound(params=params, files=(("b", f"{tmp_path}/x.npy"),))
    with pytest.raises(CaseError, match="it holds f32, not bf16"):
        make_inputs(wrong)
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(CaseError, match="x cannot be read from"):
        make_inputs(bound(params=params, files=(("x", f"{tmp_path}/bad.npy"),)))


def planned(*shape: object, dtype: str = "f32") -> BoundCase:
    found = kernel(case("c", made("x", *shape, dtype=dtype), made("z", "x.shape[0]", dtype=dtype)))
    params = (tensor("z", out=True), tensor("x", rank=len(shape)))
    return expand_cases(found, info(*params, points=({"T": dtype},)))[0]


def test_of_files_nothing_is_known_before_they_are_read() -> None:
    files = (("x", "f32", "x.npy"), ("z", "f32", "z.npy"))
    one = bind(
        Case(name="c"),
        info(tensor("z", out=True), tensor("x"), points=({"T": "f32"},)),
        files=files,
    )
    with pytest.raises(CaseError, match="its inputs are in files"):
        planned_inputs(one)
