"""What rules about operations are made of. A rule looks at one operation and says what does not
fit, or gives an empty text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Concatenate, ParamSpec, TypeAlias

from tilec_runtime.cpu.tileir.ir import (
    Op,
    Pointer,
    Rounding,
    Scalar,
    Tile,
    Token,
    Type,
    Value,
    type_text,
)
from tilec_runtime.cpu.tileir.ops import OPS

Rule: TypeAlias = Callable[[Op], str]
Args = ParamSpec("Args")
Elements: TypeAlias = "frozenset[Scalar | type[Pointer]]"

FLOATS: Elements = frozenset({Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64})
INTS: Elements = frozenset({Scalar.I1, Scalar.I8, Scalar.I16, Scalar.I32, Scalar.I64})
BITS: Elements = frozenset({Scalar.I1})
POINTERS: Elements = frozenset({Pointer})
NUMBERS: Elements = frozenset(Scalar)
ANY_FLOAT: Elements = frozenset(kind for kind in Scalar if kind.is_float)
ANY: Elements = NUMBERS | POINTERS
STORED: Elements = NUMBERS - {Scalar.I4}  # what memory holds
IEEE = frozenset(
    {Rounding.NEAREST_EVEN, Rounding.ZERO, Rounding.NEGATIVE_INF, Rounding.POSITIVE_INF}
)


def rule(check: Callable[Concatenate[Op, Args], str]) -> Callable[Args, Rule]:
    """Make rules of a check: called with what it takes behind the operation, it gives one."""
    return lambda *args, **more: lambda op: check(op, *args, **more)


def values(op: Op, ref: str) -> tuple[Value, ...]:
    """The values that a reference names: `lhs` is an operand (of many values, or none), `>result` a
    result, `>` all of them.
    """
    if not ref.startswith(">"):
        return op.operands[ref]
    named = OPS[op.name].results
    return op.results if named is None or ref == ">" else (op.results[named.index(ref[1:])],)


def kinds(op: Op, *refs: str) -> Iterator[tuple[str, Type]]:
    """Names and types of all values that are there."""
    for ref in refs:
        operands = values(op, ref)
        for place, value in enumerate(operands):
            yield (
                f"{ref.lstrip('>') or 'result'}{f' {place}' if len(operands) > 1 else ''}",
                value.type,
            )


def tile(op: Op, ref: str) -> Tile:
    """The type of a value that earlier rules found to be a tile."""
    kind = values(op, ref)[0].type
    assert isinstance(kind, Tile)
    return kind


@rule
def tiles(op: Op, elements: Elements, *refs: str, rank: int | None = None) -> str:
    """Values are tiles of these elements, of this rank if one is given."""
    for name, kind in kinds(op, *refs):
        if not isinstance(kind, Tile) or element_class(kind.element) not in elements:
            return f"{name} is {type_text(kind)}, not a tile of {names(elements)}"
        if rank is not None and len(kind.shape) != rank:
            return f"{name} is {type_text(kind)}, not of rank {rank}"
    return ""


def element_class(element: Scalar | Pointer) -> Scalar | type[Pointer]:
    """What stands for an element in a set of elements."""
    return Pointer if isinstance(element, Pointer) else element


def names(elements: Elements) -> str:
    """A set of elements as text."""
    numbers = sorted(
        (kind for kind in elements if isinstance(kind, Scalar)), key=list(Scalar).index
    )
    listed = [kind.text for kind in numbers] + (["pointers"] if Pointer in elements else [])
    return " or ".join(listed)


@rule
def equal(op: Op, *refs: str) -> str:
    """Values that are there have one type."""
    first: tuple[str, Type] | None = None
    for name, kind in kinds(op, *refs):
        first = first or (name, kind)
        if kind != first[1]:
            return f"{name} is {type_text(kind)}, but {first[0]} is {type_text(first[1])}"
    return ""


@rule
def shapes(op: Op, *refs: str) -> str:
    """Tiles that are there have one shape."""
    first: tuple[str, Tile] | None = None
    for name, kind in kinds(op, *refs):
        assert isinstance(kind, Tile)
        first = first or (name, kind)
        if kind.shape != first[1].shape:
            return f"{name} is {type_text(kind)}, of another shape than {first[0]}, {type_text(first[1])}"
    return ""


@rule
def tokens(op: Op, *refs: str) -> str:
    """Values that are there are tokens."""
    for name, kind in kinds(op, *refs):
        if not isinstance(kind, Token):
            return f"{name} is {type_text(kind)}, not a token"
    return ""


@rule
def rounding(op: Op, allowed: Collection[Rounding], f32: Collection[Rounding] = ()) -> str:
    """The rounding is one of these; for f32 also one of those."""
    mode, element = op.attributes["rounding"], tile(op, ">result").element
    fits = mode in allowed or (mode in f32 and element is Scalar.F32)
    return "" if fits else f"rounding {mode.name.lower()} is not for {type_text(element)}"


def flush(op: Op) -> str:
    """Only f32 is flushed to zero."""
    element = tile(op, ">result").element
    return (
        f"flush_to_zero is not for {type_text(element)}"
        if op.attributes["flush_to_zero"] and element is not Scalar.F32
        else ""
    )


def size(kind: Tile) -> int:
    """How many elements a tile has."""
    return math.prod(kind.shape)


def widest(kind: Scalar) -> tuple[int, int]:
    """The signed range of an integer type."""
    return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
