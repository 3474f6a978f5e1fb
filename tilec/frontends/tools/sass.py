"""Count spills in machine code, for compilers that do not report them."""

from __future__ import annotations

import struct

from tilec_runtime.bundle.cubin import CubinKernel, section
from tilec_runtime.model.image import Resources

# Instructions have 128 bits from compute capability 7.0 on: the opcode in the lowest 12 bits, the
# width of a memory access in bits 73 to 75.
_STL = 0x387
_LDL = 0x983
_WIDTHS = (1, 1, 2, 2, 4, 8, 16, 16)


def resources(cubin: bytes, entry: CubinKernel) -> Resources:
    """Return the resources of an entry point; only code with a stack frame can spill.

    Raises:
        BundleError: the cubin is damaged.
    """
    return entry.resources(spills(cubin, entry.name) if entry.stack else (0, 0))


def spills(cubin: bytes, symbol: str) -> tuple[int, int]:
    """Return the bytes per thread that local stores and loads move, each instruction once.

    Args:
        cubin: the image, of compute capability 7.0 or later.
        symbol: the entry point.

    Raises:
        BundleError: the cubin is damaged.
    """
    code = section(cubin, f".text.{symbol}")
    total = {_STL: 0, _LDL: 0}
    for low, high in struct.iter_unpack("<QQ", code[: len(code) // 16 * 16]):
        opcode = low & 0xFFF
        if opcode in total:
            total[opcode] += _WIDTHS[high >> 9 & 7]
    return total[_STL], total[_LDL]
