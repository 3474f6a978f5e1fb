"""Names of C++ types, as sources and template arguments have them, and the dtype that each means."""

from __future__ import annotations

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
    "__nv_fp4x2_e2m1": "f4e2m1",
    "cudaTextureObject_t": "u64",
    "cudaSurfaceObject_t": "u64",
    "CUtexObject": "u64",
    "CUsurfObject": "u64",
}
_WORDS = ("unsigned", "signed", "long", "short", "char", "int")
_NAMESPACES = ("cuda::std::", "std::")


def dtype_of(name: str) -> str:
    """Return the dtype of a C++ type name, or an empty text."""
    return _NAMES.get(plain(name), "")


def plain(name: str) -> str:
    """A type name without the namespaces of the standard library, integers spelled in one way."""
    name = name.removeprefix("::")
    for prefix in _NAMESPACES:
        name = name.removeprefix(prefix)
    words = name.split()
    if not words or not all(w in _WORDS for w in words):
        return name
    # `long unsigned int` and `unsigned long` are one type.
    count = words.count("long")
    base = (
        "char"
        if "char" in words
        else "short"
        if "short" in words
        else "long long"
        if count > 1
        else "long"
        if count
        else "int"
    )
    if "unsigned" in words:
        return f"unsigned {base}"
    return "signed char" if base == "char" and "signed" in words else base


def cut(text: str) -> tuple[str, list[str] | None]:
    """Return (name, template arguments) of `name<a, b>`, or None without an argument list."""
    text = text.strip().removeprefix("::")
    if "<" not in text or not text.endswith(">"):
        return text, None
    base, _, rest = text.partition("<")
    parts, depth, current = [], 0, ""
    for char in rest[:-1]:
        depth += (char in "<([{") - (char in ">)]}")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return base.strip(), [*parts, current.strip()] if current.strip() or parts else []
