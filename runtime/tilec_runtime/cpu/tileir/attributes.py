"""Reads attributes of operations: numbers, enums, strings, tagged values."""

from __future__ import annotations

import enum

from tilec_runtime.cpu.tileir.cursor import Cursor
from tilec_runtime.cpu.tileir.ir import Attribute, Bounded, DivBy, FloatAttr, HintsAttr, IntegerAttr, SameElements, Scalar
from tilec_runtime.cpu.tileir.ops import AttributeSpec, Kind
from tilec_runtime.cpu.tileir.tables import Constants, Strings
from tilec_runtime.cpu.tileir.types import Types

_MAX_DEPTH = 16
_INTEGER, _FLOAT, _BOOL, _TYPE, _STRING, _ARRAY, _DENSE, _DIV_BY, _SAME, _DICTIONARY, _HINTS, _BOUNDED = range(1, 13)


class Attributes:
    """Reads attributes with the file's tables."""

    def __init__(self, strings: Strings, types: Types, constants: Constants) -> None:
        self._strings = strings
        self._types = types
        self._constants = constants

    def read(self, spec: AttributeSpec, cursor: Cursor) -> Attribute:
        """One attribute of an operation, stored as `spec` says."""
        if not isinstance(spec.kind, Kind):
            return _member(spec.kind, cursor)
        match spec.kind:
            case Kind.INT:
                return cursor.varint()
            case Kind.BOOL:
                return bool(cursor.byte())
            case Kind.STRING:
                return self._strings[cursor.varint()]
            case Kind.ARRAY:
                return tuple(self.tagged(cursor) for _ in range(cursor.count()))
            case Kind.TAGGED:
                return self.tagged(cursor)
            case Kind.CONSTANT:
                return self._constants[cursor.varint()]
            case Kind.INTS:
                return cursor.ints(4)
            case Kind.BOOLS:
                return tuple(bool(item) for item in cursor.ints(1))
            case Kind.HINTS:
                return HintsAttr(self._dictionary(cursor, 0))

    def hints(self, cursor: Cursor) -> HintsAttr:
        """The tagged optimization hints of a function."""
        found = self.tagged(cursor)
        if not isinstance(found, HintsAttr):
            raise cursor.fail("optimization hints are expected here")
        return found

    def tagged(self, cursor: Cursor, depth: int = 0) -> Attribute:
        """An attribute that starts with its kind."""
        if depth > _MAX_DEPTH:
            raise cursor.fail("attributes are nested too deeply")
        tag = cursor.byte()
        match tag:
            case 1:
                return IntegerAttr(self._types.scalar(cursor.varint()), cursor.varint())
            case 2:
                return self._float(cursor)
            case 3:
                return bool(cursor.byte())
            case 4:
                return self._types[cursor.varint()]
            case 5:
                return self._strings[cursor.varint()]
            case 6:
                return tuple(self.tagged(cursor, depth + 1) for _ in range(cursor.count()))
            case 7:
                cursor.varint()  # its type
                return self._constants[cursor.varint()]
            case 8:
                return _div_by(cursor)
            case 9:
                return SameElements(cursor.ints(8))
            case 10:
                return self._dictionary(cursor, depth)
            case 11:
                return HintsAttr(self._dictionary(cursor, depth))
            case 12:
                flags = cursor.byte()
                return Bounded(cursor.signed_varint() if flags & 1 else None, cursor.signed_varint() if flags & 2 else None)
        raise cursor.fail(f"attribute number {tag} is not known to this version of tilec")

    def _float(self, cursor: Cursor) -> FloatAttr:
        kind = self._types.scalar(cursor.varint())
        width = 19 if kind is Scalar.TF32 else kind.bits
        # Up to 8 bits are a byte; more are a signed number, of which only the low bits count.
        bits = cursor.byte() if width <= 8 else cursor.signed_varint() & ((1 << width) - 1)
        return FloatAttr(kind, bits)

    def _dictionary(self, cursor: Cursor, depth: int) -> dict[str, Attribute]:
        return {self._strings[cursor.varint()]: self.tagged(cursor, depth + 1) for _ in range(cursor.count())}


def _member(kind: type[enum.Enum], cursor: Cursor) -> enum.Enum:
    number = cursor.varint()
    try:
        return kind(number)
    except ValueError as exc:
        raise cursor.fail(f"{kind.__name__} {number} is not known to this version of tilec") from exc


def _div_by(cursor: Cursor) -> DivBy:
    divisor, flags = cursor.varint(), cursor.byte()
    if divisor < 1:
        raise cursor.fail("a divisor of 0 does not make sense")
    return DivBy(divisor, cursor.signed_varint() if flags & 1 else None, cursor.signed_varint() if flags & 2 else None)
