"""Map C++ type names to dtypes, elements of vector types, and sizes of structs."""

from __future__ import annotations

import re

from tilec.model.cpp import dtype_of, plain
from tilec_runtime.model.dtype import DTYPES

# Element dtypes of the toolkit's vector types: a pointer to one is a tensor of that dtype.
_VECTORS = {
    **{
        f"{name}{n}": dtype
        for name, dtype in (("char", "i8"), ("uchar", "u8"), ("short", "i16"), ("ushort", "u16"))
        for n in (1, 2, 3, 4)
    },
    **{
        f"{name}{n}": dtype
        for name, dtype in (("int", "i32"), ("uint", "u32"), ("float", "f32"))
        for n in (1, 2, 3, 4)
    },
    **{
        f"{name}{n}": dtype
        for name, dtype in (("longlong", "i64"), ("ulonglong", "u64"), ("double", "f64"))
        for n in (1, 2, 3, 4)
    },
    **{
        f"{name}4_{a}a": dtype
        for name, dtype in (("longlong", "i64"), ("ulonglong", "u64"), ("double", "f64"))
        for a in (16, 32)
    },
    "half2": "f16",
    "__half2": "f16",
    "nv_bfloat162": "bf16",
    "__nv_bfloat162": "bf16",
    "__nv_fp8x2_e4m3": "f8e4m3",
    "__nv_fp8x4_e4m3": "f8e4m3",
    "__nv_fp8x2_e5m2": "f8e5m2",
    "__nv_fp8x4_e5m2": "f8e5m2",
    "__nv_fp4x4_e2m1": "f4e2m1",
}

_STRUCT_SIZES = {
    "dim3": 12,
    "CUtensorMap": 128,
    "__half_raw": 2,
    "half2": 4,
    "__half2": 4,
    "nv_bfloat162": 4,
    "__nv_bfloat162": 4,
}


def element(name: str) -> str:
    """Return the dtype of a scalar type or of a vector type's elements, or an empty string."""
    return dtype_of(name) or _VECTORS.get(plain(name), "")


_TAG = re.compile(
    r"(?:::)?(?:cuda::)?std::(?:bool_constant<.*>|integral_constant<.*>|true_type|false_type)"
)


def is_tag(name: str) -> bool:
    """Return whether a type is an empty tag, such as `std::true_type`."""
    return _TAG.fullmatch(re.sub(r"\s+", "", name)) is not None


def struct_size(name: str) -> int:
    """Return the bytes of a toolkit's type that is passed by value, or 0 if unknown."""
    base = plain(name)
    if base in _STRUCT_SIZES:
        return _STRUCT_SIZES[base]
    dtype = _VECTORS.get(base)
    count = base.split("_", 1)[0][-1]
    return (
        DTYPES[dtype].bytes * int(count)
        if dtype and count.isdigit() and "fp8" not in base and "fp4" not in base
        else 0
    )
