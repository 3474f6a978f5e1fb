"""Conversions between numeric types, and bit casts."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from tilec_runtime.cpu.tileir import exact, integer
from tilec_runtime.cpu.tileir.formats import chunked, narrow, round_exact, widen
from tilec_runtime.cpu.tileir.frame import Binder, Bodies, Step
from tilec_runtime.cpu.tileir.ir import Op, Pointer, Rounding, Scalar, Signedness
from tilec_runtime.cpu.tileir.steps import compute, element, tile
from tilec_runtime.cpu.tileir.values import Array, storage

assert sys.byteorder == "little", "Tile IR lays tiles out as little-endian machines do"


def _extend(op: Op, _: Bodies) -> Step:
    kind, target = element(op.operand("source")), storage(element(op.results[0]))
    if op.attributes["signedness"] is Signedness.UNSIGNED:
        return compute(op, lambda x: integer.unsigned(x, kind).astype(target), "source")
    return compute(op, lambda x: integer.signed(x).astype(target), "source")


def _truncate(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])
    if kind in (Scalar.I1, Scalar.I4):
        step = compute(op, lambda x: integer.cut(x, kind), "source")
    else:
        target = storage(kind)
        step = compute(op, lambda x: x.astype(target), "source")
    return integer.watched(op, step)


def _float_to_float(op: Op, _: Bodies) -> Step:
    kind, target = element(op.operand("source")), element(op.results[0])
    rounding = op.attributes.get("rounding", Rounding.NEAREST_EVEN)
    return compute(op, chunked(lambda x: narrow(widen(x, kind), target, rounding)), "source")


def _float_to_int(op: Op, _: Bodies) -> Step:
    """Convert with saturation, with or without `saturating`; a NaN becomes zero.

    The conversion to i1 tests for nonzero like on GPUs; a NaN gives true.
    """
    kind, target = element(op.operand("source")), element(op.results[0])
    if target is Scalar.I1:
        return compute(op, lambda x: widen(x, kind) != 0, "source")
    is_signed = op.attributes["signedness"] is Signedness.SIGNED
    round_to = _ROUND[op.attributes.get("rounding", Rounding.NEAREST_INT_TO_ZERO)]
    least = -(2 ** (target.bits - 1)) if is_signed else 0
    beyond = 2 ** (target.bits - 1) if is_signed else 2**target.bits
    wide = np.dtype(
        "u8" if target.bits == 64 and not is_signed else "i8" if target.bits > 16 else "i4"
    )

    def convert(x: Array) -> Array:
        numbers = round_to(widen(x, kind))
        low, high = numbers < least, numbers >= beyond
        odd = low | high | np.isnan(numbers)
        if odd.any():
            whole = np.where(odd, 0, numbers).astype(wide)
            whole[low] = least
            whole[high] = beyond - 1
        else:
            whole = numbers.astype(wide)
        if target in (Scalar.I1, Scalar.I4):
            return integer.cut(whole, target)
        return (
            whole.astype(storage(target), copy=False) if target.bits < 64 else whole.view(np.int64)
        )

    return compute(op, convert, "source")


def _int_to_float(op: Op, _: Bodies) -> Step:
    kind, target = element(op.operand("source")), element(op.results[0])
    rounding = op.attributes.get("rounding", Rounding.NEAREST_EVEN)
    is_signed = op.attributes["signedness"] is Signedness.SIGNED

    def convert(x: Array) -> Array:
        numbers = integer.signed(x) if is_signed else integer.unsigned(x, kind)
        if rounding is Rounding.NEAREST_EVEN and target in (Scalar.F32, Scalar.F64):
            return numbers.astype(storage(target))
        if kind.bits < 64:
            return narrow(
                numbers.astype(np.float32 if kind.bits <= 16 else np.float64), target, rounding
            )
        return round_exact(*_float64(numbers), target, rounding)

    return compute(op, chunked(convert), "source")


def _float64(numbers: Array) -> tuple[Array, Array]:
    """Convert 64-bit integers to the nearest float64; return it and the error."""
    high = (numbers >> 32).astype(np.float64) * 2.0**32
    return exact.two_sum(high, (numbers & 0xFFFFFFFF).astype(np.float64))


def _bitcast(op: Op, _: Bodies) -> Step:
    kind, target = tile(op.operand("source")).element, tile(op.results[0]).element
    return _reading(op, kind, target, lambda bits: bits)


def _repack(op: Op, _: Bodies) -> Step:
    """Build `pack` of a 1-D tile to bytes, first element lowest, or `unpack`."""
    kind, target = element(op.operand("source")), element(op.results[0])
    shape = tile(op.results[0]).shape
    return _reading(op, kind, target, lambda bits: bits.reshape(bits.shape[0], *shape))


def _reading(
    op: Op, kind: Scalar | Pointer, target: Scalar | Pointer, reshaped: Callable[[Array], Array]
) -> Step:
    """Reinterpret bits as elements of another type."""
    source = _width(kind)
    wanted = _width(target)
    if source == wanted and source >= 8:
        held = storage(target)
        if Scalar.TF32 in (kind, target):
            # A tf32 is stored in 32 bits; clear the bits that it lacks.
            return compute(
                op, lambda x: (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(held), "source"
            )
        return compute(op, lambda x: reshaped(x.view(held)), "source")
    return compute(
        op, lambda x: reshaped(_from_bytes(_to_bytes(x, source), wanted, target)), "source"
    )


def _width(kind: Scalar | Pointer) -> int:
    return 64 if isinstance(kind, Pointer) else kind.bits


def _to_bytes(held: Array, bits: int) -> Array:
    """Return the bytes of tiles, shape (blocks, bytes).

    Elements below 8 bits are packed.
    """
    flat = np.ascontiguousarray(held).reshape(held.shape[0], -1)
    if bits == 1:
        return np.packbits(flat, axis=1, bitorder="little")
    if bits == 4:
        digits = flat.view(np.uint8) & np.uint8(15)
        return digits[:, ::2] | digits[:, 1::2] << np.uint8(4)
    return flat.view(np.uint8)


def _from_bytes(data: Array, bits: int, target: Scalar | Pointer) -> Array:
    held = storage(target)
    if bits == 1:
        return np.unpackbits(data, axis=1, bitorder="little").astype(np.bool_)
    if bits == 4:
        digits = np.stack((data & np.uint8(15), data >> np.uint8(4)), axis=2).reshape(
            data.shape[0], -1
        )
        return integer.cut(digits, Scalar.I4) if target is Scalar.I4 else digits.view(held)
    return np.ascontiguousarray(data).view(held)


_ROUND: dict[Rounding, Callable[[Array], Array]] = {
    Rounding.NEAREST_INT_TO_ZERO: np.trunc,
    Rounding.ZERO: np.trunc,
    Rounding.NEAREST_EVEN: np.rint,
    Rounding.NEGATIVE_INF: np.floor,
    Rounding.POSITIVE_INF: np.ceil,
}

BINDERS: dict[str, Binder] = {
    "exti": _extend,
    "trunci": _truncate,
    "ftof": _float_to_float,
    "ftoi": _float_to_int,
    "itof": _int_to_float,
    "bitcast": _bitcast,
    "pack": _repack,
    "unpack": _repack,
}
