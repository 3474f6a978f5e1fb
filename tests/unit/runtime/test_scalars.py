"""Numbers as kernel arguments: bytes of small floats, ranges, kinds."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest

from tilec_runtime.device.scalars import (
    encoded,
    encoder_of,
    format_of,
    refusal,
)
from tilec_runtime.model.dtype import DTYPES


def test_every_dtype_has_a_format_of_its_size():
    for name, row in DTYPES.items():
        assert struct.calcsize(f"={format_of(name)}") == row.bytes


@pytest.mark.parametrize(
    ("dtype", "value", "code"),
    [
        ("bf16", 1.0, 0x3F80),
        ("bf16", -2.0, 0xC000),
        ("bf16", 0.0, 0x0000),
        ("bf16", -0.0, 0x8000),
        ("bf16", 1.00390625, 0x3F80),  # half way: to even
        ("bf16", 1.01171875, 0x3F82),  # half way: to even, upwards
        ("bf16", 3.3895313892515355e38, 0x7F7F),
        ("bf16", math.inf, 0x7F80),
        ("bf16", 1e-40, 0x0001),
        ("bf16", math.nan, 0x7FC0),
        ("f8e4m3", 448.0, 0x7E),
        ("f8e4m3", 1.0, 0x38),
        ("f8e4m3", math.nan, 0x7F),
        ("f8e4m3", -0.0625, 0x98),
        ("f8e4m3", 2.0**-9, 0x01),
        ("f8e4m3", 2.0**-10, 0x00),
        ("f8e4m3", 15.9, 0x58),  # the mantissa's carry goes into the exponent
        ("f8e5m2", 57344.0, 0x7B),
        ("f8e5m2", math.inf, 0x7C),
        ("f8e5m2", math.nan, 0x7F),
        ("f8e8m0", 1.0, 127),
        ("f8e8m0", 0.25, 125),
        ("f8e8m0", math.nan, 255),
        ("f8e8m0", 1.42, 127),  # the nearest, not the nearest exponent
        ("f8e8m0", 1.5, 128),  # half way: upwards
        ("f8e8m0", 2.0**-130, 0),
    ],
)
def test_small_floats(dtype, value, code):
    encode = encoder_of(dtype)
    assert encode is not None
    assert encode(value) == code


@pytest.mark.parametrize(
    ("value", "dtype", "why"),
    [
        (127, "i8", ""),
        (128, "i8", "is 128, which i8 cannot hold (-128 to 127)"),
        (-1, "u32", "is -1, which u32 cannot hold (0 to 4294967295)"),
        (
            2**64,
            "u64",
            "is 18446744073709551616, which u64 cannot hold (0 to 18446744073709551615)",
        ),
        (1.0, "i32", "takes an integer (i32), got 1.0"),
        (np.int64(5), "i32", ""),
        (np.float32(5), "i32", "takes an integer (i32), got np.float32(5.0)"),
        (True, "bool", ""),
        (np.bool_(True), "bool", ""),
        (1, "bool", "takes a bool, got 1"),
        (65504, "f16", ""),
        (65520, "f16", "is 65520, which f16 cannot hold"),
        (1e39, "f32", "is 1e+39, which f32 cannot hold"),
        (math.inf, "f32", ""),
        (449.0, "f8e4m3", ""),
        (465.0, "f8e4m3", "is 465.0, which f8e4m3 cannot hold"),
        (math.inf, "f8e4m3", "is inf, which f8e4m3 cannot hold"),
        (0, "f8e8m0", "is 0, which f8e8m0 cannot hold"),
        (10**400, "f64", f"is {10**400}, which f64 cannot hold"),
    ],
)
def test_refusals(value, dtype, why):
    assert refusal(value, dtype) == why


@pytest.mark.parametrize("dtype", ["bf16", "f8e4m3", "f8e8m0", "f4e2m1", "f16", "f32"])
@pytest.mark.parametrize(
    "value",
    [np.str_("x"), np.str_("1.5"), np.bytes_(b"1"), np.complex64(1j), np.datetime64(3, "D")],
    ids=repr,
)
def test_what_is_no_number_is_refused_for_every_float(dtype: str, value: object) -> None:
    assert refusal(value, dtype) == f"is {value!r}, which {dtype} cannot hold"


def test_what_is_not_refused_packs_as_the_number_of_python_does() -> None:
    ones = (np.bool_(True), np.int8(1), np.uint64(1), np.float16(1), np.float64(1))
    packed = 0
    for value in (*ones, ml_dtypes.bfloat16(1)):
        for dtype in DTYPES:
            if not refusal(value, dtype):
                packed += 1
                format_ = dtype if encoder_of(dtype) else format_of(dtype)
                assert encoded(format_, value) == encoded(format_, value.item()), (value, dtype)
    assert packed > 60
