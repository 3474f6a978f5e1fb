"""Count spills in machine code, for compilers that do not report them."""

from __future__ import annotations

import struct

from tilec_runtime.bundle.cubin import CubinKernel
from tilec_runtime.errors import BundleError
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
        BundleError: the cubin has no such entry point, or is damaged.
    """
    try:
        code = _section(cubin, f".text.{symbol}")
    except (struct.error, ValueError, IndexError) as exc:
        raise BundleError(f"the cubin is damaged: {exc}") from exc
    return count(code)


def count(code: bytes) -> tuple[int, int]:
    """Return the bytes of local stores and of local loads in machine code."""
    total = {_STL: 0, _LDL: 0}
    for low, high in struct.iter_unpack("<QQ", code[: len(code) // 16 * 16]):
        opcode = low & 0xFFF
        if opcode in total:
            total[opcode] += _WIDTHS[high >> 9 & 7]
    return total[_STL], total[_LDL]


def _section(data: bytes, name: str) -> bytes:
    (table,) = struct.unpack_from("<Q", data, 40)
    entry, number, names = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQ", data, table + i * entry) for i in range(number)]
    start = rows[names][4]
    wanted = name.encode() + b"\0"
    for at, _, _, _, offset, size in rows:
        if data.startswith(wanted, start + at):
            return data[offset : offset + size]
    raise BundleError(f"the cubin has no code for {name.removeprefix('.text.')!r}")
