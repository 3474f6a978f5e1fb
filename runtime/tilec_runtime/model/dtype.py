"""Element types: a table of their sizes and of their names in each toolchain."""

from __future__ import annotations

from tilec_runtime.values import value_class


@value_class(frozen=True)
class DType:
    """An element type.

    Attributes:
        name: tilec's name, such as `f16`.
        bits: size of one element in bits.
        numpy: name in NumPy, or in `ml_dtypes` if NumPy has no such type.
        c: name in CUDA C++, for generated template arguments.
        tile: attribute name in `cuda.tile`; empty if it has no such type.
        typestr: type string of `__cuda_array_interface__`; empty if it has none.
        code: type code of DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 f8 e4m3fn, 12 f8
            e5m2, 14 f8 e8m0fnu, 17 f4 e2m1fn.
        kind: `bool`, `int`, `uint` or `float`.
    """

    name: str
    bits: int
    numpy: str
    c: str
    tile: str
    typestr: str
    code: int
    kind: str

    @property
    def dlpack(self) -> tuple[int, int]:
        """Type code and bits of DLPack."""
        return self.code, self.bits

    @property
    def bytes(self) -> int:
        """Size of one element in bytes; 1 for a packed dtype, whose elements share a byte."""
        return (self.bits + 7) // 8

    @property
    def packed(self) -> bool:
        """Whether several elements share a byte; the first one is in the low bits."""
        return self.bits < 8

    @property
    def per_byte(self) -> int:
        """Number of elements in a byte; 1 for dtypes that are not packed."""
        return 8 // self.bits if self.packed else 1

    def size_of(self, count: int) -> int:
        """Return the size of `count` elements in bytes."""
        return -(-count * self.bits // 8)

    def __str__(self) -> str:
        """tilec's name."""
        return self.name


_ROWS = (
    DType("bool", 8, "bool", "bool", "bool_", "|b1", 6, "bool"),
    DType("i8", 8, "int8", "signed char", "int8", "|i1", 0, "int"),
    DType("i16", 16, "int16", "short", "int16", "<i2", 0, "int"),
    DType("i32", 32, "int32", "int", "int32", "<i4", 0, "int"),
    DType("i64", 64, "int64", "long long", "int64", "<i8", 0, "int"),
    DType("u8", 8, "uint8", "unsigned char", "uint8", "|u1", 1, "uint"),
    DType("u16", 16, "uint16", "unsigned short", "uint16", "<u2", 1, "uint"),
    DType("u32", 32, "uint32", "unsigned int", "uint32", "<u4", 1, "uint"),
    DType("u64", 64, "uint64", "unsigned long long", "uint64", "<u8", 1, "uint"),
    DType("f16", 16, "float16", "__half", "float16", "<f2", 2, "float"),
    DType("bf16", 16, "bfloat16", "__nv_bfloat16", "bfloat16", "", 4, "float"),
    DType("f32", 32, "float32", "float", "float32", "<f4", 2, "float"),
    DType("f64", 64, "float64", "double", "float64", "<f8", 2, "float"),
    DType("f8e4m3", 8, "float8_e4m3fn", "__nv_fp8_e4m3", "float8_e4m3fn", "", 10, "float"),
    DType("f8e5m2", 8, "float8_e5m2", "__nv_fp8_e5m2", "float8_e5m2", "", 12, "float"),
    DType("f8e8m0", 8, "float8_e8m0fnu", "__nv_fp8_e8m0", "float8_e8m0fnu", "", 14, "float"),
    # The C++ type is a byte with two elements; `__nv_fp4_e2m1` is a byte with one element.
    DType("f4e2m1", 4, "float4_e2m1fn", "__nv_fp4x2_e2m1", "float4_e2m1fn", "", 17, "float"),
)

DTYPES: dict[str, DType] = {row.name: row for row in _ROWS}
BY_TYPESTR: dict[str, DType] = {row.typestr: row for row in _ROWS if row.typestr}
BY_DLPACK: dict[tuple[int, int], DType] = {row.dlpack: row for row in _ROWS}
BY_NUMPY: dict[str, DType] = {row.numpy: row for row in _ROWS}


def short_name(text: str) -> str:
    """Convert a NumPy or torch name (`float32`) to `f32`; return other text as is."""
    row = BY_NUMPY.get(text)
    return row.name if row else text
