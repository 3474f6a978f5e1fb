"""Inputs of cases: from the manifest, the command line and files, and what is known of them."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.case.conftest import case, info, kernel, made, tensor
from tilec.case.arguments import (
    bind_arguments,
    overridden,
    parse_overrides,
)
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.files import (
    UnfitError,
    dtype_in,
    parse_array_file,
    read_array,
    storable,
)
from tilec.case.inputs import environment, facts_of, make_inputs, poisoned
from tilec.manifest.types import Input
from tilec_runtime.errors import CaseError, Location, UsageError
from tilec_runtime.model.dtype import DTYPES, DType
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.tensors.host import numpy_dtype


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


def test_inputs_differ_unless_they_name_one_seed() -> None:
    plain = make_inputs(bound(made("x", 64, dtype="f32"), made("y", 64, dtype="f32")))
    seeded = make_inputs(bound(*(made(name, 64, dtype="f32", seed=3) for name in ("x", "y"))))
    assert not np.array_equal(plain["x"], plain["y"])
    np.testing.assert_array_equal(seeded["x"], seeded["y"])
    np.testing.assert_array_equal(plain["x"], one(made("x", 64, dtype="f32")))


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
            'dist = "normal" makes fractions, and the dtype is i32: use dist = "integers", or "empty" for an output',
        ),
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
            "1.5 is not an integer, and i32 holds only integers",
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


def test_files_replace_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(tmp_path / "b.npy", np.ones(4, ml_dtypes.bfloat16))
    params = (
        Param(name="x", kind=ParamKind.TENSOR, dtype="f32"),
        Param(name="b", kind=ParamKind.TENSOR, dtype="bf16"),
    )
    case = bound(
        Input(name="x", file=f"{tmp_path}/x.npy"),
        Input(name="b", file="b.npy"),
        made("y", "x.shape[1]", dtype="f32"),
        params=params,
        root=str(tmp_path),
    )
    inputs = make_inputs(case)
    assert inputs["y"].shape == (3,)
    assert inputs["b"].dtype == ml_dtypes.bfloat16
    wrong = bound(Input(name="b", file=f"{tmp_path}/x.npy"), params=params)
    with pytest.raises(CaseError, match="it holds f32, not bf16"):
        make_inputs(wrong)
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(CaseError, match="x cannot be read from"):
        make_inputs(bound(Input(name="x", file=f"{tmp_path}/bad.npy"), params=params))


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


def taken_by(
    *settings: str, inputs: tuple[str, ...] = (), cwd: Path = Path()
) -> tuple[BoundCase, ...]:
    overrides = parse_overrides({"--set": settings, "--input": inputs}, cwd=cwd)
    return expand_cases(overridden(CASES, ADD, overrides), ADD)


def test_scalars_shapes_tensors_and_axes() -> None:
    one, two = taken_by("n=0x10", "alpha=2.5", "x=[12]")
    assert (one.name, two.name) == ("add/small[f16]", "add/small[f32]")
    made_of = make_inputs(two)
    assert (made_of["n"], made_of["alpha"], made_of["x"].tolist()) == (16, 2.5, [1.0] * 12)  # type: ignore[union-attr]
    assert made_of["z"].shape == (12,), "what depends on it follows"  # type: ignore[union-attr]
    (only,) = taken_by("VEC=4")
    assert (only.name, only.choose, only.variants) == ("add/small[f32]", (("VEC", 4),), ("2",))
    (only,) = taken_by("x=f16[3]:zeros")
    assert (only.name, make_inputs(only)["x"].tolist()) == ("add/small", [0.0] * 3)  # type: ignore[union-attr]
    (only,) = taken_by("T=f32")
    assert dict(only.axes)["T"] == "f32"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("n",), "--set 'n' is not NAME=VALUE"),
        (("n=",), "--set n=: '' is not a number, and add takes i32 for n"),
        (("=3",), "--set '=3' is not NAME=VALUE"),
        (("1n=3",), "--set '1n=3' is not NAME=VALUE"),
        (
            ("alhpa=3",),
            "--set alhpa=3: kernel add has no parameter or axis 'alhpa'; did you mean 'alpha'",
        ),
        (("q=3",), "kernel add has no parameter or axis 'q'; it has z, x, n, alpha, T, VEC"),
        (("n=3", "n=4"), "--set n=3: n is given more than once"),
        (("n=big",), "--set n=big: 'big' is not a number, and add takes i32 for n"),
        (("n=true",), "--set n=true: 'true' is not a number, and add takes i32 for n"),
        (("n=2.5",), "--set n=2.5: 2.5 is not an integer, and i32 holds only integers"),
        (("n=nan",), "--set n=nan: nan is not an integer"),
        (
            ("n=3000000000",),
            "--set n=3000000000: 3000000000 does not fit i32, which holds -2147483648 to 2147483647",
        ),
        (("x=3",), "--set x=3: add takes a tensor for x"),
        (("x=[4,]",), "--set x=[4,]: an extent is missing in [4,]"),
        (("x=f23[4]",), "--set x=f23[4]: unknown dtype 'f23'; did you mean 'f32'"),
        (("VEC=2",), "--set VEC=2: VEC was built for 1, 4"),
        (("VEC=",), "--set VEC=: VEC was built for 1, 4"),
        (("x=a.npy",), "--set x=a.npy: a.npy cannot be read: No such file"),
    ],
)
def test_settings_that_do_not_fit(settings: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        taken_by(*settings)
    assert words in str(caught.value)


def test_an_axis_value_may_be_the_empty_text() -> None:
    act = info(tensor("z", out=True), points=({"ACT": ""}, {"ACT": "relu"}))
    cases = kernel(case("small", made("z", 8)))
    changed = overridden(cases, act, parse_overrides({"--set": ("ACT=",)}, cwd=Path()))
    assert changed.cases[0].axes == (("ACT", ""),)


def given(*texts: str, cwd: Path = Path()) -> BoundCase:
    return bind_arguments(ADD, parse_overrides({"--arg": (*texts, "VEC=1")}, cwd=cwd))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "--arg 'x' is not NAME=VALUE"),
        ("1x=3", "is not NAME=VALUE"),
        ("x=", "--arg x=: add takes a tensor for x"),
        ("x=f23[4]", "unknown dtype 'f23'; did you mean 'f32'"),
        ("x=f32[4,]", "an extent is missing in [4,]"),
        ("x=f32[x.shape[0]]", "add takes a tensor for x"),
        ("x=f32[4]:nromal", "unknown distribution 'nromal'; did you mean 'normal'"),
        ("x=f32[4]:normal:-1", "the seed '-1' is not a whole number"),
        ("x=hello", "give x=f32[1024]:normal:7, or x=FILE.npy"),
        ("x=none.npy", "none.npy cannot be read: No such file or directory"),
        ("x=bad.npy", "bad.npy cannot be read"),
        ("z=f32[4]", "--arg z=f32[4]: z is given more than once"),
        ("VEC=2", "--arg VEC=2: VEC is given more than once"),
        ("ZEC=2", "--arg ZEC=2: kernel add has no parameter or axis 'ZEC'; did you mean 'VEC'"),
    ],
)
def test_malformed_arguments_are_rejected(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.npy").write_text("hello")
    with pytest.raises(UsageError) as caught:
        given(text, "z=f32[4]", cwd=tmp_path)
    assert words in str(caught.value)


F32 = np.dtype(np.float32)


BF16 = np.dtype(ml_dtypes.bfloat16)


def read(folder: Path, text: str, dtype: np.dtype[Any] = F32, name: str = "x") -> np.ndarray:
    return read_array(parse_array_file(text, cwd=folder), name, dtype)


def safetensors(path: Path, rows: object, data: bytes = b"") -> None:
    head = json.dumps(rows).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


@pytest.mark.parametrize(
    ("array", "dtype", "said"),
    [
        (np.arange(6, dtype="<f4").reshape(2, 3), F32, "f32"),
        (np.asarray(np.arange(6).reshape(2, 3), "<f4", "F"), F32, "f32"),
        (np.arange(6, dtype=">f4"), F32, "f32"),
        (np.float32(3), F32, "f32"),
        (np.zeros((0, 4), np.float32), F32, "f32"),
        (np.arange(3).astype(BF16), BF16, ""),  # NumPy writes no name of this dtype
    ],
)
def test_numpys_files_come_back(tmp_path: Path, array: Any, dtype: Any, said: str) -> None:
    np.save(tmp_path / "x.npy", array)
    np.savez_compressed(tmp_path / "z.npz", x=array, y=np.ones(2))
    for text in ("x.npy", "z.npz:x", "z.npz"):  # the parameter's name is a key
        found = read(tmp_path, text, dtype)
        assert (found.dtype, found.flags.c_contiguous) == (dtype, True)
        np.testing.assert_array_equal(found, array)
        assert dtype_in(parse_array_file(text, cwd=tmp_path), "x") == said


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_outputs_of_every_dtype_come_back(tmp_path: Path, dtype: DType) -> None:
    """NumPy writes files of f8e5m2 that it cannot read."""
    array = (np.arange(6).reshape(2, 3) % 2).astype(numpy_dtype(dtype.name))
    np.save(tmp_path / "x.npy", storable(array))
    assert read(tmp_path, "x.npy", array.dtype).tobytes() == array.tobytes()


def test_safetensors_come_back(tmp_path: Path) -> None:
    data = np.arange(4).astype(BF16).tobytes() + np.arange(2, dtype=np.float32).tobytes()
    rows = {
        "__metadata__": {"format": "np"},
        "w": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
        "x": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]},
        "odd": {"dtype": "F6_E2M3", "shape": [1], "data_offsets": [8, 9]},
    }
    safetensors(tmp_path / "a.safetensors", rows, data)
    assert read(tmp_path, "a.safetensors:w", BF16).tolist() == [[0, 1], [2, 3]]
    assert read(tmp_path, "a.safetensors").tolist() == [0, 1]
    assert dtype_in(parse_array_file("a.safetensors:w", cwd=tmp_path), "x") == "bf16"
    with pytest.raises(UnfitError, match=r"^it holds F6_E2M3, which is no dtype of kernels$"):
        read(tmp_path, "a.safetensors:odd")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("z.npz:yy", r"^it has no array 'yy'; did you mean 'y'; it has v, y$"),
        ("z.npz", r"^say which array: z.npz:KEY; it has v, y$"),
        ("v.npy", r"^it holds f64, not f32$"),
        ("c.npy", r"^it holds complex64, not f32$"),
        ("none.npy", r"^No such file or directory$"),
        ("o.npy", "Object arrays cannot be loaded"),
        ("e.safetensors", "^say which array: e.safetensors:KEY; it has no arrays$"),
    ],
)
def test_other_keys_and_dtypes_are_rejected(tmp_path: Path, text: str, said: str) -> None:
    np.savez(tmp_path / "z.npz", v=np.ones(1), y=np.ones(2))
    np.save(tmp_path / "v.npy", np.ones(2))
    np.save(tmp_path / "c.npy", np.ones(2, np.complex64))
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    safetensors(tmp_path / "e.safetensors", {})
    with pytest.raises(UnfitError, match=said):
        read(tmp_path, text)


def samples(folder: Path) -> dict[str, bytes]:
    array = np.arange(64, dtype=np.float32)
    np.save(folder / "x.npy", array)
    np.savez(folder / "x.npz", x=array)
    memory = io.BytesIO()
    np.savez_compressed(memory, x=array)
    (folder / "c.npz").write_bytes(memory.getvalue())
    row = {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}
    safetensors(folder / "x.safetensors", {"x": row}, array.tobytes())
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_rejected_and_nothing_else_is_raised(tmp_path: Path) -> None:
    """Cut off anywhere, or with bytes changed anywhere."""
    rng = random.Random(0)
    for name, data in samples(tmp_path).items():
        for place in [0, 1, 8, *rng.sample(range(len(data)), 60), len(data) - 1]:
            changed = bytearray(data)
            changed[place] = rng.randrange(256)
            for damaged in (data[:place], bytes(changed)):
                (tmp_path / name).write_bytes(damaged)
                try:
                    assert read(tmp_path, name).dtype == F32  # an element changed, or a date
                except UnfitError as refused:
                    assert str(refused)  # noqa: PT017 - either is right, nothing else is
