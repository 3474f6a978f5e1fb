"""Building blocks of rules for operations.

A rule checks one operation and returns the violation, or an empty string.
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
STORED: Elements = NUMBERS - {Scalar.I4}  # element types in memory
IEEE = frozenset(
    {Rounding.NEAREST_EVEN, Rounding.ZERO, Rounding.NEGATIVE_INF, Rounding.POSITIVE_INF}
)


def rule(check: Callable[Concatenate[Op, Args], str]) -> Callable[Args, Rule]:
    """Turn a check of an operation into a factory of rules.

    The factory takes the check's other parameters.
    """
    return lambda *args, **more: lambda op: check(op, *args, **more)


def values(op: Op, ref: str) -> tuple[Value, ...]:
    """Return the values of a reference.

    `lhs` is an operand with any number of values, `>result` a result, and `>` all results.
    """
    if not ref.startswith(">"):
        return op.operands[ref]
    named = OPS[op.name].results
    return op.results if named is None or ref == ">" else (op.results[named.index(ref[1:])],)


def kinds(op: Op, *refs: str) -> Iterator[tuple[str, Type]]:
    """Yield the names and types of all present values."""
    for ref in refs:
        operands = values(op, ref)
        for index, value in enumerate(operands):
            yield (
                f"{ref.lstrip('>') or 'result'}{f' {index}' if len(operands) > 1 else ''}",
                value.type,
            )


def tile(op: Op, ref: str) -> Tile:
    """Return the type of a value that an earlier rule has checked to be a tile."""
    kind = values(op, ref)[0].type
    assert isinstance(kind, Tile)
    return kind


@rule
def tiles(op: Op, elements: Elements, *refs: str, rank: int | None = None) -> str:
    """Require tiles of these elements, and of this rank if given."""
    for name, kind in kinds(op, *refs):
        if not isinstance(kind, Tile) or element_class(kind.element) not in elements:
            return f"{name} is {type_text(kind)}, not a tile of {names(elements)}"
        if rank is not None and len(kind.shape) != rank:
            return f"{name} is {type_text(kind)}, not of rank {rank}"
    return ""


def element_class(element: Scalar | Pointer) -> Scalar | type[Pointer]:
    """Return the representative of an element type in a set of elements."""
    return Pointer if isinstance(element, Pointer) else element


def names(elements: Elements) -> str:
    """Format a set of elements."""
    numbers = sorted(
        (kind for kind in elements if isinstance(kind, Scalar)), key=list(Scalar).index
    )
    listed = [kind.text for kind in numbers] + (["pointers"] if Pointer in elements else [])
    return " or ".join(listed)


@rule
def equal(op: Op, *refs: str) -> str:
    """Require equal types of all present values."""
    first: tuple[str, Type] | None = None
    for name, kind in kinds(op, *refs):
        first = first or (name, kind)
        if kind != first[1]:
            return f"{name} is {type_text(kind)}, but {first[0]} is {type_text(first[1])}"
    return ""


@rule
def shapes(op: Op, *refs: str) -> str:
    """Require equal shapes of all present tiles."""
    first: tuple[str, Tile] | None = None
    for name, kind in kinds(op, *refs):
        assert isinstance(kind, Tile)
        first = first or (name, kind)
        if kind.shape != first[1].shape:
            return f"{name} is {type_text(kind)}, of another shape than {first[0]}, {type_text(first[1])}"
    return ""


@rule
def tokens(op: Op, *refs: str) -> str:
    """Require tokens."""
    for name, kind in kinds(op, *refs):
        if not isinstance(kind, Token):
            return f"{name} is {type_text(kind)}, not a token"
    return ""


@rule
def rounding(op: Op, allowed: Collection[Rounding], f32: Collection[Rounding] = ()) -> str:
    """Require a rounding mode in `allowed`, or for f32 also in `f32`."""
    mode, element = op.attributes["rounding"], tile(op, ">result").element
    fits = mode in allowed or (mode in f32 and element is Scalar.F32)
    return "" if fits else f"rounding {mode.name.lower()} is not for {type_text(element)}"


def flush(op: Op) -> str:
    """Allow `flush_to_zero` for f32 only."""
    element = tile(op, ">result").element
    return (
        f"flush_to_zero is not for {type_text(element)}"
        if op.attributes["flush_to_zero"] and element is not Scalar.F32
        else ""
    )


def size(kind: Tile) -> int:
    """Return the number of elements of a tile."""
    return math.prod(kind.shape)


def widest(kind: Scalar) -> tuple[int, int]:
    """Return the signed range of an integer type."""
    return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
