"""What C++ type names mean to a launcher: dtypes, vectors of them, and structs of known size."""

from __future__ import annotations

from tilec.model.dtype import DTYPES

_NAMES = {
    "bool": "bool",
    "char": "i8",
    "signed char": "i8",
    "unsigned char": "u8",
    "short": "i16",
    "unsigned short": "u16",
    "int": "i32",
    "unsigned": "u32",
    "unsigned int": "u32",
    "long": "i64",
    "unsigned long": "u64",
    "long long": "i64",
    "unsigned long long": "u64",
    "int8_t": "i8",
    "int16_t": "i16",
    "int32_t": "i32",
    "int64_t": "i64",
    "uint8_t": "u8",
    "uint16_t": "u16",
    "uint32_t": "u32",
    "uint64_t": "u64",
    "uchar": "u8",
    "ushort": "u16",
    "uint": "u32",
    "ulong": "u64",
    "size_t": "u64",
    "ssize_t": "i64",
    "ptrdiff_t": "i64",
    "intptr_t": "i64",
    "uintptr_t": "u64",
    "byte": "u8",
    "half": "f16",
    "__half": "f16",
    "nv_half": "f16",
    "nv_bfloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "float": "f32",
    "double": "f64",
    "__nv_fp8_e4m3": "f8e4m3",
    "__nv_fp8_e5m2": "f8e5m2",
    "__nv_fp8_e8m0": "f8e8m0",
    "cudaTextureObject_t": "u64",
    "cudaSurfaceObject_t": "u64",
    "CUtexObject": "u64",
    "CUsurfObject": "u64",
}

# Element dtype of the toolkit's vector types: a pointer to them is a tensor of that dtype.
_VECTORS = {
    **{f"{name}{n}": dtype for name, dtype in (("char", "i8"), ("uchar", "u8"), ("short", "i16"), ("ushort", "u16")) for n in (1, 2, 3, 4)},
    **{f"{name}{n}": dtype for name, dtype in (("int", "i32"), ("uint", "u32"), ("float", "f32")) for n in (1, 2, 3, 4)},
    **{f"{name}{n}": dtype for name, dtype in (("longlong", "i64"), ("ulonglong", "u64"), ("double", "f64")) for n in (1, 2, 3, 4)},
    **{f"{name}4_{a}a": dtype for name, dtype in (("longlong", "i64"), ("ulonglong", "u64"), ("double", "f64")) for a in (16, 32)},
    "half2": "f16",
    "__half2": "f16",
    "nv_bfloat162": "bf16",
    "__nv_bfloat162": "bf16",
    "__nv_fp8x2_e4m3": "f8e4m3",
    "__nv_fp8x4_e4m3": "f8e4m3",
    "__nv_fp8x2_e5m2": "f8e5m2",
    "__nv_fp8x4_e5m2": "f8e5m2",
}

_STRUCT_SIZES = {"dim3": 12, "CUtensorMap": 128, "__half_raw": 2, "half2": 4, "__half2": 4, "nv_bfloat162": 4, "__nv_bfloat162": 4}
_WORDS = ("unsigned", "signed", "long", "short", "char", "int")
_NAMESPACES = ("cuda::std::", "std::")


def scalar(name: str) -> str:
    """The dtype of a C++ type name, or empty where it is none."""
    return _NAMES.get(_plain(name), "")


def element(name: str) -> str:
    """The dtype behind a pointer to this type: scalars, and vectors of them; empty where it is none."""
    plain = _plain(name)
    return _NAMES.get(plain) or _VECTORS.get(plain, "")


def struct_size(name: str) -> int:
    """Bytes of a type of the toolkit that is passed by value; 0 where it is not known."""
    plain = _plain(name)
    if plain in _STRUCT_SIZES:
        return _STRUCT_SIZES[plain]
    dtype = _VECTORS.get(plain)
    count = plain.split("_", 1)[0][-1]
    return DTYPES[dtype].bytes * int(count) if dtype and count.isdigit() and "fp8" not in plain else 0


def _plain(name: str) -> str:
    name = name.removeprefix("::")
    for prefix in _NAMESPACES:
        name = name.removeprefix(prefix)
    words = name.split()
    if not words or not all(w in _WORDS for w in words):
        return name
    # `long unsigned int` and `unsigned long` are one type.
    count = words.count("long")
    base = "char" if "char" in words else "short" if "short" in words else "long long" if count > 1 else "long" if count else "int"
    if "unsigned" in words:
        return f"unsigned {base}"
    return "signed char" if base == "char" and "signed" in words else base
