"""Tensors of known contents and conversions on the cpu device, held against NumPy and ml_dtypes; a
GPU test holds CUDA against the same.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.runtime.api.creation_samples import (
    CONVERTED,
    COUNTED,
    FILLED,
    contents,
    every_bits,
    value_of,
)
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, Tensor, api, as_op, use_device
from tilec_runtime.errors import BorrowError, PlacementError, TensorError, UsageError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import numpy_dtype

pytestmark = pytest.mark.usefixtures("default_cpu")


@pytest.mark.parametrize("name", FILLED)
def test_every_function_and_dtype_gives_its_dtype(name):
    op = FILLED[name]()
    assert op.name == name.partition("-")[0]
    made = op.sync()
    assert isinstance(made, Tensor)
    assert made.is_contiguous
    assert (
        name.split("-")[1 if name.count("-") == 1 or name.split("-")[1] in DTYPES else 2]
        == made.dtype
    )


@pytest.mark.parametrize("dtype", CONVERTED)
def test_one_value_everywhere(dtype):
    wanted = np.full((3, 5), value_of(dtype)).astype(numpy_dtype(dtype))
    assert np.array_equal(contents(api.full((3, 5), value_of(dtype), dtype)), wanted)
    assert np.array_equal(contents(api.ones(7, dtype)).astype(np.float32), np.ones(7, np.float32))
    if dtype != "f8e8m0":
        assert not contents(api.zeros((2, 0, 3), dtype)).size
        assert np.array_equal(
            contents(api.zeros(9, dtype)).astype(np.float32), np.zeros(9, np.float32)
        )


def test_floats_are_the_default():
    for op in (
        api.zeros(2),
        api.ones(2),
        api.full(2, 3),
        api.arange(2),
        api.linspace(0, 1, 2),
        api.eye(2),
        api.rand(2),
        api.randn(2),
    ):
        assert op.sync().dtype == "f32"
    assert api.zeros(2, np.int16).sync().dtype == "i16"
    assert api.zeros(2, ml_dtypes.bfloat16).sync().dtype == "bf16"


def test_packed_elements_are_filled_two_by_two():
    made = api.full((2, 4), 1.5, "f4e2m1").sync()
    assert made.nbytes == 4
    assert contents(as_op(made.reinterpret("u8"))).tolist() == [0x33] * 4


@pytest.mark.parametrize("dtype", COUNTED)
def test_counting(dtype):
    wanted = np.arange(3, 90, 7).astype(np.float64).astype(numpy_dtype(dtype))
    assert np.array_equal(contents(api.arange(3, 90, 7, dtype=dtype)), wanted)
    assert contents(api.arange(5, 2, dtype=dtype)).shape == (0,)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 3), (2, 5), (5, 2), (0, 3), (3, 0)])
def test_unit_matrices(rows, columns):
    for dtype in ("f32", "i8", "bool", "f64", "bf16"):
        found = contents(api.eye(rows, columns, dtype))
        assert np.array_equal(found.astype(np.float32), np.eye(rows, columns, dtype=np.float32))
    assert np.array_equal(contents(api.eye(rows)), np.eye(rows, dtype=np.float32))


# Conversion


@pytest.mark.parametrize("target", CONVERTED)
@pytest.mark.parametrize("source", CONVERTED)
def test_conversions_are_those_of_numpy(source, target):
    array = every_bits(source)
    found = contents(api.convert(array, target))
    assert found.dtype == numpy_dtype(target)
    with np.errstate(all="ignore"):
        assert np.array_equal(
            found.view(f"u{found.dtype.itemsize}"), expected(array, source, target)
        )


def expected(array, source, target):
    """Bits, by NumPy and ml_dtypes where these round once, else by Python's own numbers."""
    real, kind = numpy_dtype(target), DTYPES[target].kind
    view = f"u{real.itemsize}"
    if source == target:
        return array.view(view)
    floats = DTYPES[source].kind == "float"
    if kind == "bool":
        return (array.astype(np.float64) != 0).view(view) if floats else (array != 0).view(view)
    if kind != "float":
        return (
            clipped(array.astype(np.float64), target).view(view)
            if floats
            else array.astype(real).view(view)
        )
    found = array.astype(real) if target in ("f32", "f64") else once(array, target)
    bits = found.view(view).copy()
    names = {
        "f64": 0x7FF8 << 48,
        "f32": 0x7FC0 << 16,
        "bf16": 0x7FC0,
        "f16": 0x7E00,
        "f8e5m2": 0x7E,
        "f8e4m3": 0x7F,
        "f8e8m0": 0xFF,
    }
    bits[np.isnan(found.astype(np.float64))] = names[target]
    return bits


def clipped(values, target):
    bounds = np.iinfo(DTYPES[target].numpy)
    found = [
        0
        if v != v
        else bounds.max
        if v >= bounds.max
        else bounds.min
        if v <= bounds.min
        else int(v)
        for v in values.tolist()
    ]
    return np.array(found, DTYPES[target].numpy)


def once(array, target):
    """Numbers rounded once to a small float: float32 that were rounded to odd are as good as exact."""
    if target == "f8e8m0":
        return scales(array)
    if array.dtype == np.float64 or (array.dtype.kind in "iu" and array.dtype.itemsize > 2):
        array = odd(array)
    return array.astype(np.float32).astype(numpy_dtype(target))


def scales(array):
    """The nearest power of two, the upper one of two that are as near."""
    exact = array.astype(np.longdouble)  # has 64 digits
    part, power = np.frexp(np.where((exact > 0) & np.isfinite(exact), exact, 1))
    codes = np.maximum(np.where(part >= 0.75, power, power - 1) + 127, 0)
    codes[~((exact > 0) & np.isfinite(exact))] = 0xFF
    return np.minimum(codes, 0xFF).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)


def odd(array):
    """Numbers in float32 towards zero, the last digit set where anything was dropped."""
    exact = array.astype(np.longdouble)
    near = array.astype(np.float32)
    near = np.where(np.abs(near) > np.abs(exact), np.nextafter(near, np.float32(0)), near)
    dropped = (near != exact) & ~np.isnan(exact)
    return (near.view(np.uint32) | dropped).view(np.float32)


def test_views_and_shared_tensors_are_converted_and_stay():
    t = api.arange(24).then(lambda t: as_op(t.reshape(4, 6))).sync()
    with t[1:3, ::2] as part:
        assert contents(api.convert(part, "i16")).tolist() == [[6, 8, 10], [12, 14, 16]]
        assert contents(api.convert(part, "f32")).tolist() == [[6, 8, 10], [12, 14, 16]]
    assert contents(api.convert(t, "u8")).shape == (4, 6)
    shared = t.share()
    assert contents(api.convert(shared, "f64")).sum() == 276
    assert contents(api.convert(shared.clone(), "f32")).sum() == 276


# Whatever was there, and tensors like others


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_but_memory_is_made(dtype: str) -> None:
    driver = FakeDriver()
    with use_device(Device(0, driver=driver)):
        made = api.empty((3, 4), dtype).sync()
    assert (type(made), made.shape, made.dtype, made.is_contiguous) == (Tensor, (3, 4), dtype, True)
    calls = [step.call for step in driver.steps]
    assert calls.count("allocate") == 1
    assert not {"launch", "fill"} & set(calls)


@pytest.mark.parametrize(
    ("source", "shape", "dtype"),
    [
        (np.zeros((2, 3), np.int16), (2, 3), "i16"),
        (np.zeros((2, 3)).T, (3, 2), "f64"),
        (np.zeros(2, ml_dtypes.bfloat16), (2,), "bf16"),
    ],
    ids=["array", "transposed", "ml_dtypes"],
)
def test_tensors_like_others(source: Any, shape: tuple[int, ...], dtype: str) -> None:
    for make, number in (
        (api.zeros_like, 0),
        (api.ones_like, 1),
        (lambda t: api.full_like(t, 2), 2),
    ):
        made = make(source).sync()
        assert (made.shape, made.dtype, made.is_contiguous) == (shape, dtype, True)
        assert (made.to_host().astype(np.float32) == number).all()
    made = api.empty_like(source).sync()
    assert (made.shape, made.dtype) == (shape, dtype)


def test_like_tensors_of_tilec() -> None:
    t = api.ones((4, 6), "f16").sync()
    with t[:, ::2] as view:
        assert api.zeros_like(view).sync().to_host().tolist() == [[0] * 3] * 4
    assert api.full_like(t, 3, dtype=np.int8).sync().dtype == "i8"
    assert api.ones_like(api.zeros((2,), "bool")).sync().to_host().tolist() == [True, True]
    t.share()
    assert api.empty_like(t).sync().shape == (4, 6)  # what has moved has a shape


# Filling what is there


def test_filling_gives_the_tensor_back():
    t = api.zeros((2, 3), "i32").sync()
    filled = api.fill(t, 9).sync()
    assert contents(as_op(filled)).tolist() == [[9] * 3] * 2
    assert filled is t
    with filled.borrow_mut() as m:
        api.fill(m, 4).sync()
    assert contents(api.fill(api.fill(api.zeros(3), 1), 2)).tolist() == [2, 2, 2]
    array = np.zeros(4)
    api.fill(Tensor.from_foreign(array), 7).sync()
    assert array.tolist() == [7] * 4


def test_gaps_are_not_filled():
    array = np.zeros((4, 4), np.float32)
    with pytest.raises(TensorError, match="do not lie side by side"):
        api.fill(Tensor.from_foreign(array[:, ::2]), 1)
    api.fill(Tensor.from_foreign(array.T), 1).sync()
    assert array.all()
    with pytest.raises(BorrowError, match="reading only"):
        api.fill(api.zeros(3).sync().share(), 1)


# What is refused, before anything is enqueued


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: api.zeros((2, -1)), TensorError, "negative extent"),
        (lambda: api.zeros("four"), TensorError, "no shape"),
        (lambda: api.zeros(2.5), TensorError, "no shape"),
        (lambda: api.zeros((2, True)), TensorError, "no shape"),
        (lambda: api.empty(-1), TensorError, "negative extent"),
        (lambda: api.zeros_like([1, 2]), TensorError, "has a shape and a dtype, and got a list"),
        (lambda: api.empty_like(np.zeros(2, np.complex64)), TensorError, "complex64"),
        (lambda: api.zeros(3, "f33"), TensorError, "no dtype"),
        (lambda: api.zeros(3, "f8e8m0"), TensorError, "zeros makes no tensors of f8e8m0"),
        (lambda: api.zeros((1 << 30, 1 << 30)), TensorError, "no device has as much memory"),
        (lambda: api.zeros((3,), "f4e2m1"), TensorError, "does not fill its bytes"),
        (lambda: api.full(3, 300, "u8"), TensorError, r"300, which u8 cannot hold \(0 to 255\)"),
        (lambda: api.full(3, 2.5, "i32"), TensorError, "takes an integer"),
        (lambda: api.full(3, 1, "bool"), TensorError, "takes a bool"),
        (lambda: api.full(3, 1e6, "f16"), TensorError, "f16 cannot hold"),
        (lambda: api.full(3, "x"), TensorError, "the value is a str"),
        (lambda: api.fill(3, 1), TensorError, "fill takes a tensor, and got a int"),
        (lambda: api.arange(0, 5, 0), UsageError, "the step is 0"),
        (lambda: api.arange(0, 5, 0.0), UsageError, "the step is 0"),
        (lambda: api.arange(0, float("inf")), UsageError, "stop is inf, and must be finite"),
        (lambda: api.arange("5"), UsageError, "stop is '5', and must be a number"),
        (lambda: api.arange(True), UsageError, "must be a number"),
        (
            lambda: api.arange(0, 5, 0.5, dtype="i32"),
            UsageError,
            "step is 0.5, and i32 takes integers",
        ),
        (
            lambda: api.arange(300, dtype="i8"),
            TensorError,
            r"299, which i8 cannot hold \(-128 to 127\)",
        ),
        (lambda: api.arange(-1, 3, dtype="u8"), TensorError, "-1, which u8 cannot hold"),
        (lambda: api.arange(70000, dtype="f16"), TensorError, "f16 cannot hold"),
        (lambda: api.arange(1 << 60), TensorError, "no device has as much memory"),
        (lambda: api.arange(0, 1e300, 1e-300), UsageError, "further than f64 reaches"),
        (
            lambda: api.arange(10**400, 10**400 + 5),
            UsageError,
            "start is an integer of 1329 bits, which f64 cannot hold",
        ),
        (lambda: api.arange(5, dtype="bool"), TensorError, "arange makes no tensors of bool"),
        (lambda: api.linspace(0, 1, 1), TensorError, "one number cannot be both 0.0 and 1.0"),
        (lambda: api.linspace(0, 1, -1), TensorError, "negative extent"),
        (lambda: api.linspace(0, 1, 2.5), TensorError, "num is 2.5, and must be a whole number"),
        (lambda: api.linspace(0, float("nan"), 3), UsageError, "must be finite"),
        (
            lambda: api.linspace(-1.7e308, 1.7e308, 3, dtype="f64"),
            UsageError,
            "further than f64 reaches",
        ),
        (lambda: api.linspace(0, 300, 5, dtype="u8"), TensorError, "300, which u8 cannot hold"),
        (lambda: api.eye(-1), TensorError, "negative extent"),
        (lambda: api.eye(2.0), TensorError, "n is 2.0, and must be a whole number"),
        (lambda: api.eye(2, True), TensorError, "columns is True"),
        (lambda: api.eye(2, dtype="f8e8m0"), TensorError, "eye makes no tensors of f8e8m0"),
        (lambda: api.convert(np.zeros(3), "f33"), TensorError, "no dtype"),
        (lambda: api.convert(np.zeros(3), "f4e2m1"), TensorError, "does not fill its bytes"),
        (lambda: api.rand((2, -2)), TensorError, "negative extent"),
        (lambda: api.rand(3, dtype="i32"), TensorError, "rand makes no tensors of i32"),
        (
            lambda: api.rand(3, seed=-1),
            UsageError,
            r"the seed is -1, and must be from 0 to 2\^64 - 1",
        ),
        (lambda: api.rand(3, seed=2**64), UsageError, "modulo"),
        (lambda: api.rand(3, seed=1.5), UsageError, "the seed is 1.5, and must be a whole number"),
        (lambda: api.randn(3, std=-1), UsageError, "std is -1, and a deviation is not negative"),
        (lambda: api.randn(3, mean=float("nan")), UsageError, "mean is nan, and must be finite"),
        (lambda: api.randn(3, mean=1e300), UsageError, r"mean is 1e\+300, which f32 cannot hold"),
        (lambda: api.randn(3, dtype="f8e4m3"), TensorError, "randn makes no tensors of f8e4m3"),
        (lambda: api.randn(-3, dtype="f16"), TensorError, "negative extent"),
    ],
)
def test_what_is_off_is_refused_before_anything_runs(make, error, text):
    with pytest.raises(error, match=text):
        make()


# Order, chains, other devices


def test_a_tensor_is_converted_where_it_is():
    op = api.convert(api.zeros(3).sync(), "f16")
    with (
        use_device(Device(0, driver=FakeDriver())),
        pytest.raises(PlacementError, match="cannot run on"),
    ):
        op.sync()
