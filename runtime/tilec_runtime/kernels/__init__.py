"""The kernels of `tilec_runtime.api`: CUDA C++, and NumPy twins with equal bits.

kernels.tilec is the bundle of the CUDA kernels.
"""

from __future__ import annotations

from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.package import Package

PACKAGE = Package(__name__, "kernels.tilec")
# The kernels' code of each dtype: its place in this tuple, as in elements.cuh.
CODES = {
    name: code
    for code, name in enumerate(
        (
            "bool",
            "i8",
            "i16",
            "i32",
            "i64",
            "u8",
            "u16",
            "u32",
            "u64",
            "f16",
            "bf16",
            "f32",
            "f64",
            "f8e4m3",
            "f8e5m2",
            "f8e8m0",
        )
    )
}
# Dtypes with a special conversion from f32.
_FROM_F32 = frozenset(("f16", "bf16", "f64", "f8e4m3", "f8e5m2"))


def held_of(source: str, target: str) -> int:
    """Return the intermediate form of a conversion: `HELD` in convert.cu."""
    kind = DTYPES[source].kind
    if kind != "float" or source == "f64":
        return 0 if kind != "float" else 2
    return 3 if source == "f32" and target in _FROM_F32 else 1


def width_of(dtype: str) -> int:
    """Return the base-2 logarithm of an element's bytes."""
    return DTYPES[dtype].bytes.bit_length() - 1
