"""The array and the indices that the pointers of an access are computed from.

cuda.tile turns `gather(x, (i, j))` into `x.ptr + (i * x.stride[0] + j * x.stride[1])`. The address
alone does not tell an index beyond its extent from one of the next row; the indices do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tilec_runtime.cpu.tileir.ir import Function, Op, Pointer, Tile, Value

_SAME = {"reshape": "source", "broadcast": "source", "assume": "value"}
_POINTERS = ("source", "destination", "pointers")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Indexed:
    """An access by indices.

    Attributes:
        base: place of the array's address among the entry's parameters.
        terms: for each dimension an index and the stride that it is multiplied by; the products add
            up to the offset from the base.
    """

    base: int
    terms: tuple[tuple[Value, Value], ...]


def indexed_accesses(function: Function) -> Mapping[int, Indexed]:
    """Find accesses by indices; keys are the numbers of their operations."""
    makers = {result.index: op for op in function.walk() for result in op.results}
    parameters = {value.index: place for place, value in enumerate(function.body.args)}
    found: dict[int, Indexed] = {}
    for op in function.walk():
        pointers = next((op.operands[name][0] for name in _POINTERS if op.operands.get(name)), None)
        if pointers is None or not op.name.endswith("_tko") or not isinstance(pointers.type, Tile):
            continue
        offset = makers.get(pointers.index)
        if not isinstance(pointers.type.element, Pointer) or offset is None or offset.name != "offset":
            continue
        base = _origin(offset.operand("pointer"), makers)
        terms = [_term(value, makers) for value in _summands(offset.operand("offset"), makers)]
        whole = tuple(term for term in terms if term is not None)
        if base.index in parameters and len(whole) == len(terms):
            found[op.number] = Indexed(base=parameters[base.index], terms=whole)
    return found


def _origin(value: Value, makers: Mapping[int, Op]) -> Value:
    """The value that one is a copy of, in another shape."""
    while (op := makers.get(value.index)) is not None and op.name in _SAME:
        value = op.operand(_SAME[op.name])
    return value


def _summands(value: Value, makers: Mapping[int, Op]) -> Iterator[Value]:
    """The values that one is the sum of, in the order in which they were added."""
    op = makers.get(value.index)
    if op is None or op.name != "addi":
        yield value
        return
    yield from _summands(op.operand("lhs"), makers)
    yield op.operand("rhs")


def _term(value: Value, makers: Mapping[int, Op]) -> tuple[Value, Value] | None:
    """The factors of a product; None of anything else."""
    op = makers.get(value.index)
    return (op.operand("lhs"), op.operand("rhs")) if op is not None and op.name == "muli" else None
