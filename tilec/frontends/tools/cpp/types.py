"""Map C++ type names to dtypes, elements of vector types, and sizes of structs."""

from __future__ import annotations

import re

from tilec.model.cpp import dtype_of, plain
from tilec_runtime.model.dtype import DTYPES

_FUNDAMENTAL = (
    ("char", "i8"),
    ("uchar", "u8"),
    ("short", "i16"),
    ("ushort", "u16"),
    ("int", "i32"),
    ("uint", "u32"),
    ("float", "f32"),
    ("longlong", "i64"),
    ("ulonglong", "u64"),
    ("double", "f64"),
)
# Element dtypes and numbers of elements of the toolkit's vector types: a pointer to one is a tensor
# of that dtype.
_VECTORS = {
    **{f"{name}{n}": (dtype, n) for name, dtype in _FUNDAMENTAL for n in (1, 2, 3, 4)},
    **{f"{name}4_{a}a": (dtype, 4) for name, dtype in _FUNDAMENTAL[-3:] for a in (16, 32)},
    "half2": ("f16", 2),
    "__half2": ("f16", 2),
    "nv_bfloat162": ("bf16", 2),
    "__nv_bfloat162": ("bf16", 2),
    "__nv_fp8x2_e4m3": ("f8e4m3", 2),
    "__nv_fp8x4_e4m3": ("f8e4m3", 4),
    "__nv_fp8x2_e5m2": ("f8e5m2", 2),
    "__nv_fp8x4_e5m2": ("f8e5m2", 4),
    "__nv_fp4x4_e2m1": ("f4e2m1", 2),  # of pairs, which have a byte each
}
_STRUCT_SIZES = {
    **{name: DTYPES[dtype].bytes * n for name, (dtype, n) in _VECTORS.items()},
    "dim3": 12,
    "CUtensorMap": 128,
    "__half_raw": 2,
}


def element(name: str) -> str:
    """Return the dtype of a scalar type or of a vector type's elements, or an empty string."""
    return dtype_of(name) or _VECTORS.get(plain(name), ("", 0))[0]


_TAG = re.compile(
    r"(?:::)?(?:cuda::)?std::(?:bool_constant<.*>|integral_constant<.*>|true_type|false_type)"
)


def is_tag(name: str) -> bool:
    """Return whether a type is an empty tag, such as `std::true_type`."""
    return _TAG.fullmatch(re.sub(r"\s+", "", name)) is not None


def struct_size(name: str) -> int:
    """Return the bytes of a toolkit's type that is passed by value, or 0 if unknown."""
    return _STRUCT_SIZES.get(plain(name), 0)
