"""What rules about operations are made of. A rule looks at one operation and says what does not fit, or gives an empty text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tilec_runtime.cpu.tileir.ir import Op, Pointer, Rounding, Scalar, Tile, Token, Type, Value, type_text
from tilec_runtime.cpu.tileir.ops import OPS

Rule: TypeAlias = Callable[[Op], str]
Elements: TypeAlias = "frozenset[Scalar | type[Pointer]]"

FLOATS: Elements = frozenset({Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64})
INTS: Elements = frozenset({Scalar.I1, Scalar.I8, Scalar.I16, Scalar.I32, Scalar.I64})
BITS: Elements = frozenset({Scalar.I1})
POINTERS: Elements = frozenset({Pointer})
NUMBERS: Elements = frozenset(Scalar)
ANY_FLOAT: Elements = frozenset(kind for kind in Scalar if kind.is_float)
ANY: Elements = NUMBERS | POINTERS
STORED: Elements = NUMBERS - {Scalar.I4}  # what memory holds
IEEE = frozenset({Rounding.NEAREST_EVEN, Rounding.ZERO, Rounding.NEGATIVE_INF, Rounding.POSITIVE_INF})


def values(op: Op, ref: str) -> tuple[Value, ...]:
    """The values that a reference names: `lhs` is an operand (of many values, or none), `>result` a result, `>` all of them."""
    if not ref.startswith(">"):
        return op.operands[ref]
    named = OPS[op.name].results
    return op.results if named is None or ref == ">" else (op.results[named.index(ref[1:])],)


def kinds(op: Op, *refs: str) -> Iterator[tuple[str, Type]]:
    """Names and types of all values that are there."""
    for ref in refs:
        found = values(op, ref)
        for place, value in enumerate(found):
            yield f"{ref.lstrip('>') or 'result'}{f' {place}' if len(found) > 1 else ''}", value.type


def tile(op: Op, ref: str) -> Tile:
    """The type of a value that earlier rules found to be a tile."""
    kind = values(op, ref)[0].type
    assert isinstance(kind, Tile)
    return kind


def tiles(elements: Elements, *refs: str, rank: int | None = None) -> Rule:
    """Values are tiles of these elements, of this rank if one is given."""

    def rule(op: Op) -> str:
        for name, kind in kinds(op, *refs):
            if not isinstance(kind, Tile) or element_class(kind.element) not in elements:
                return f"{name} is {type_text(kind)}, not a tile of {names(elements)}"
            if rank is not None and len(kind.shape) != rank:
                return f"{name} is {type_text(kind)}, not of rank {rank}"
        return ""

    return rule


def element_class(element: Scalar | Pointer) -> Scalar | type[Pointer]:
    """What stands for an element in a set of elements."""
    return Pointer if isinstance(element, Pointer) else element


def names(elements: Elements) -> str:
    """A set of elements as text."""
    numbers = sorted((kind for kind in elements if isinstance(kind, Scalar)), key=list(Scalar).index)
    listed = [kind.text for kind in numbers] + (["pointers"] if Pointer in elements else [])
    return " or ".join(listed)


def equal(*refs: str) -> Rule:
    """Values that are there have one type."""

    def rule(op: Op) -> str:
        first: tuple[str, Type] | None = None
        for name, kind in kinds(op, *refs):
            first = first or (name, kind)
            if kind != first[1]:
                return f"{name} is {type_text(kind)}, but {first[0]} is {type_text(first[1])}"
        return ""

    return rule


def shapes(*refs: str) -> Rule:
    """Tiles that are there have one shape."""

    def rule(op: Op) -> str:
        first: tuple[str, Tile] | None = None
        for name, kind in kinds(op, *refs):
            assert isinstance(kind, Tile)
            first = first or (name, kind)
            if kind.shape != first[1].shape:
                return f"{name} is {type_text(kind)}, of another shape than {first[0]}, {type_text(first[1])}"
        return ""

    return rule


def tokens(*refs: str) -> Rule:
    """Values that are there are tokens."""

    def rule(op: Op) -> str:
        for name, kind in kinds(op, *refs):
            if not isinstance(kind, Token):
                return f"{name} is {type_text(kind)}, not a token"
        return ""

    return rule


def rounding(allowed: Iterable[Rounding], ref: str = ">result", f32: Iterable[Rounding] = ()) -> Rule:
    """The rounding is one of these; for f32 also one of those."""
    usual, more = frozenset(allowed), frozenset(f32)

    def rule(op: Op) -> str:
        mode = op.attributes["rounding"]
        element = tile(op, ref).element
        if mode in usual or (mode in more and element is Scalar.F32):
            return ""
        return f"rounding {mode.name.lower()} is not for {type_text(element)}"

    return rule


def flush(op: Op) -> str:
    """Only f32 is flushed to zero."""
    element = tile(op, ">result").element
    return f"flush_to_zero is not for {type_text(element)}" if op.attributes["flush_to_zero"] and element is not Scalar.F32 else ""


def size(kind: Tile) -> int:
    """How many elements a tile has."""
    return math.prod(kind.shape)


def widest(kind: Scalar) -> tuple[int, int]:
    """The signed range of an integer type."""
    return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
