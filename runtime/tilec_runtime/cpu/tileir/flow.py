"""Data flow of a kernel: loops that may wait for blocks, and accesses by indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tilec_runtime.cpu.tileir.ir import Function, MemoryOrder, Op, Pointer, Tile, Value

_LEAVING = frozenset({"break", "continue", "return"})


def waiting_loops(function: Function) -> frozenset[Op]:
    """Return the loops whose exit may depend on concurrent writes of other blocks."""
    return frozenset(op for op in function.walk() if op.name in ("loop", "for") and _waits(op))


def _waits(loop: Op) -> bool:
    """Whether a loop's exit depends on an atomic or an ordered load in its body."""
    body = loop.regions[0]
    tainted = {result.index for op in body.walk() if _observes(op) for result in op.results}
    if not tainted:
        return False
    count = -1
    while count != len(tainted):
        count = len(tainted)
        for op in body.walk():
            _spread(op, tainted)
        # Values carried to the next iteration.
        for op in body.walk():
            if op.name == "continue" and _reads(op, tainted):
                tainted.update(argument.index for argument in body.args)
    return any(
        op.name == "if" and _leaves(op) and op.operand("condition").index in tainted
        for op in body.walk()
    )


def _observes(op: Op) -> bool:
    """Whether an operation may observe a write of another block in the same launch."""
    if op.name in ("atomic_cas_tko", "atomic_rmw_tko"):
        return True
    return (
        op.name in ("load_ptr_tko", "load_view_tko")
        and op.attributes.get("order", MemoryOrder.WEAK) is not MemoryOrder.WEAK
    )


def _spread(op: Op, tainted: set[int]) -> None:
    """Mark the results of an operation on marked values; regions count as a whole."""
    if _reads(op, tainted) or any(
        _reads(inner, tainted) for region in op.regions for inner in region.walk()
    ):
        tainted.update(result.index for result in op.results)
        for region in op.regions:
            tainted.update(argument.index for argument in region.args)


def _reads(op: Op, tainted: set[int]) -> bool:
    return any(value.index in tainted for values in op.operands.values() for value in values)


def _leaves(op: Op) -> bool:
    """Whether an `if` contains an exit from the loop or from the iteration."""
    return any(inner.name in _LEAVING for region in op.regions for inner in region.walk())


_SAME = {"reshape": "source", "broadcast": "source", "assume": "value"}
_POINTERS = ("source", "destination", "pointers")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Indexed:
    """An access at the address base + sum of index * stride.

    Attributes:
        base: index of the array's address among the entry's parameters.
        terms: index and stride per dimension.
    """

    base: int
    terms: tuple[tuple[Value, Value], ...]


def indexed_accesses(function: Function) -> Mapping[int, Indexed]:
    """Return the accesses by indices; keys are the numbers of their operations."""
    makers = {result.index: op for op in function.walk() for result in op.results}
    parameters = {value.index: index for index, value in enumerate(function.body.args)}
    accesses: dict[int, Indexed] = {}
    for op in function.walk():
        pointers = next((op.operands[name][0] for name in _POINTERS if op.operands.get(name)), None)
        if pointers is None or not op.name.endswith("_tko") or not isinstance(pointers.type, Tile):
            continue
        offset = makers.get(pointers.index)
        if (
            not isinstance(pointers.type.element, Pointer)
            or offset is None
            or offset.name != "offset"
        ):
            continue
        base = _origin(offset.operand("pointer"), makers)
        terms = [_term(value, makers) for value in _summands(offset.operand("offset"), makers)]
        whole = tuple(term for term in terms if term is not None)
        if base.index in parameters and len(whole) == len(terms):
            accesses[op.number] = Indexed(base=parameters[base.index], terms=whole)
    return accesses


def _origin(value: Value, makers: Mapping[int, Op]) -> Value:
    """Return the source of a value through reshapes, broadcasts and assumptions."""
    while (op := makers.get(value.index)) is not None and op.name in _SAME:
        value = op.operand(_SAME[op.name])
    return value


def _summands(value: Value, makers: Mapping[int, Op]) -> Iterator[Value]:
    """Yield the summands of a value in the order of addition."""
    op = makers.get(value.index)
    if op is None or op.name != "addi":
        yield value
        return
    yield from _summands(op.operand("lhs"), makers)
    yield op.operand("rhs")


def _term(value: Value, makers: Mapping[int, Op]) -> tuple[Value, Value] | None:
    """Return the factors of a product, or None if the value is not a product."""
    op = makers.get(value.index)
    return (op.operand("lhs"), op.operand("rhs")) if op is not None and op.name == "muli" else None
