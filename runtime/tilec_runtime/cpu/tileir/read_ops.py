"""A reader for the operations of a function, driven by the table `ops.OPS`."""

from __future__ import annotations

import enum

from tilec_runtime.cpu.tileir.ir import (
    Attribute,
    Block,
    Bounded,
    DivBy,
    HintsAttr,
    Loc,
    NumberAttr,
    Op,
    SameElements,
    Scalar,
    Type,
    Value,
    Version,
)
from tilec_runtime.cpu.tileir.ops import BY_CODE, Arity, AttributeSpec, Kind, OpSpec
from tilec_runtime.cpu.tileir.tables import Constants, Cursor, Strings
from tilec_runtime.cpu.tileir.types import Types

_MAX_ATTRIBUTES = 16


class Attributes:
    """Reads attributes with the file's tables."""

    def __init__(self, strings: Strings, types: Types, constants: Constants) -> None:
        self._strings = strings
        self._types = types
        self._constants = constants

    def read(self, spec: AttributeSpec, cursor: Cursor) -> Attribute:
        """Read one attribute of an operation."""
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
        """Read the tagged optimization hints of a function."""
        attribute = self.tagged(cursor)
        if not isinstance(attribute, HintsAttr):
            raise cursor.fail("optimization hints are expected here")
        return attribute

    def tagged(self, cursor: Cursor, depth: int = 0) -> Attribute:
        """Read an attribute that starts with its kind."""
        if depth > _MAX_ATTRIBUTES:
            raise cursor.fail("attributes are nested too deeply")
        tag = cursor.byte()
        match tag:
            case 1:
                return NumberAttr(self._types.scalar(cursor.varint()), cursor.varint())
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
                return Bounded(
                    cursor.signed_varint() if flags & 1 else None,
                    cursor.signed_varint() if flags & 2 else None,
                )
        raise cursor.fail(f"attribute number {tag} is not known to this version of tilec")

    def _float(self, cursor: Cursor) -> NumberAttr:
        kind = self._types.scalar(cursor.varint())
        width = 19 if kind is Scalar.TF32 else kind.bits
        # Up to 8 bits are stored in a byte, more in a signed varint whose low bits count.
        bits = cursor.byte() if width <= 8 else cursor.signed_varint() & ((1 << width) - 1)
        return NumberAttr(kind, bits)

    def _dictionary(self, cursor: Cursor, depth: int) -> dict[str, Attribute]:
        return {
            self._strings[cursor.varint()]: self.tagged(cursor, depth + 1)
            for _ in range(cursor.count())
        }


def _member(kind: type[enum.Enum], cursor: Cursor) -> enum.Enum:
    number = cursor.varint()
    try:
        return kind(number)
    except ValueError as exc:
        raise cursor.fail(
            f"{kind.__name__} {number} is not known to this version of tilec"
        ) from exc


def _div_by(cursor: Cursor) -> DivBy:
    divisor, flags = cursor.varint(), cursor.byte()
    if divisor < 1:
        raise cursor.fail("a divisor of 0 does not make sense")
    return DivBy(
        divisor,
        cursor.signed_varint() if flags & 1 else None,
        cursor.signed_varint() if flags & 2 else None,
    )


_OP_ITEMS = 4  # cost of an operation in the file's budget
_MAX_REGIONS = 50  # nesting depth; each level takes some frames of Python's stack


class OpReader:
    """Reads a function's body."""

    def __init__(
        self, version: Version, types: Types, attributes: Attributes, locs: list[Loc | None]
    ) -> None:
        self._values = 0  # number of values so far
        self._version = version
        self._types = types
        self._attributes = attributes
        self._locs = locs
        self._ops = 0
        self._located = 0  # operations of the file; those added by the reader have no location
        self._scope: list[Value] = []  # by the file's numbers, which repeat after a region

    def body(self, cursor: Cursor, params: tuple[Value, ...]) -> Block:
        """Read a function's body: operations up to the end of the data."""
        self._scope = list(params)
        self._values = len(params)
        ops = []
        while cursor.at < cursor.end:
            ops.append(self._op(cursor, 0))
        return Block(params, tuple(ops))

    def _op(self, cursor: Cursor, depth: int) -> Op:
        code = cursor.varint()
        spec = BY_CODE.get(code)
        if spec is None:
            raise cursor.fail(f"operation number {code} is not known to this version of tilec")
        number, loc_index = self._ops, self._located
        self._ops += 1
        self._located += 1
        cursor.spend(_OP_ITEMS)
        types = self._result_types(spec, cursor)
        flags = self._flags(spec, cursor)
        attributes = self._read_attributes(spec, cursor, flags)
        operands = self._operands(spec, cursor, flags)
        regions = self._regions(spec, cursor, depth)
        results = self._define(types)
        loc = self._locs[loc_index] if loc_index < len(self._locs) else None
        return Op(
            name=spec.name,
            results=results,
            operands=operands,
            attributes=attributes,
            regions=regions,
            loc=loc,
            number=number,
        )

    def _define(self, types: tuple[Type, ...]) -> tuple[Value, ...]:
        values = tuple(Value(self._values + i, kind) for i, kind in enumerate(types))
        self._values += len(values)
        self._scope.extend(values)
        return values

    def _result_types(self, spec: OpSpec, cursor: Cursor) -> tuple[Type, ...]:
        if spec.results is None or spec.counted_results:
            number = cursor.count()
            if spec.results is not None and number != len(spec.results):
                raise cursor.fail(
                    f"{spec.name} has {number} results instead of {len(spec.results)}"
                )
        else:
            number = len(spec.results)
        return tuple(self._types.value(cursor.varint()) for _ in range(number))

    def _flags(self, spec: OpSpec, cursor: Cursor) -> frozenset[str]:
        if not spec.flags or self._version < spec.flags_since:
            return frozenset()
        bits = cursor.varint()
        if bits >> len(spec.flags):
            raise cursor.fail(
                f"{spec.name} has flags {bits:#x} that are not known to this version of tilec"
            )
        return frozenset(name for index, name in enumerate(spec.flags) if bits >> index & 1)

    def _read_attributes(
        self, spec: OpSpec, cursor: Cursor, flags: frozenset[str]
    ) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {}
        for attribute in spec.attributes:
            if attribute.since > self._version:
                if attribute.before is not None:
                    attributes[attribute.name] = attribute.before
            elif not attribute.optional or attribute.name in flags:
                attributes[attribute.name] = self._attributes.read(attribute, cursor)
        named = {attribute.name for attribute in spec.attributes} | {
            operand.name for operand in spec.operands
        }
        attributes.update((name, name in flags) for name in spec.flags if name not in named)
        return attributes

    def _operands(
        self, spec: OpSpec, cursor: Cursor, flags: frozenset[str]
    ) -> dict[str, tuple[Value, ...]]:
        counted = any(operand.arity is Arity.REST for operand in spec.operands)
        left = cursor.count() if counted else 0
        operands: dict[str, tuple[Value, ...]] = {}
        for operand in spec.operands:
            match operand.arity:
                case Arity.ONE:
                    number = 1
                case Arity.OPTIONAL:
                    number = int(operand.name in flags)
                case Arity.MANY:
                    number = cursor.count()
                case Arity.REST:
                    number = left
            operands[operand.name] = tuple(self._value(cursor) for _ in range(number))
            left -= number
        if counted and left:
            raise cursor.fail(f"{spec.name} has a wrong number of operands")
        return operands

    def _value(self, cursor: Cursor) -> Value:
        number = cursor.varint()
        if number >= len(self._scope):
            raise cursor.fail(f"value {number} is used before it is defined")
        return self._scope[number]

    def _regions(self, spec: OpSpec, cursor: Cursor, depth: int) -> tuple[Block, ...]:
        if not spec.regions:
            return ()
        number = cursor.varint()
        if number != spec.regions:
            raise cursor.fail(f"{spec.name} has {number} regions instead of {spec.regions}")
        return tuple(self._region(cursor, depth + 1) for _ in range(number))

    def _region(self, cursor: Cursor, depth: int) -> Block:
        if depth > _MAX_REGIONS:
            raise cursor.fail("regions are nested too deeply")
        blocks = cursor.varint()
        if not blocks:
            return self._nothing()
        if blocks > 1:
            raise cursor.fail(f"a region has {blocks} blocks instead of one")
        outer = len(self._scope)
        args = self._define(
            tuple(self._types.value(cursor.varint()) for _ in range(cursor.count()))
        )
        ops = tuple(self._op(cursor, depth) for _ in range(cursor.count()))
        del self._scope[outer:]
        return Block(args, ops)

    def _nothing(self) -> Block:
        """Return the missing `else` block of an `if`, which yields nothing."""
        number = self._ops
        self._ops += 1
        end = Op(
            name="yield",
            results=(),
            operands={"values": ()},
            attributes={},
            regions=(),
            loc=None,
            number=number,
        )
        return Block((), (end,))
