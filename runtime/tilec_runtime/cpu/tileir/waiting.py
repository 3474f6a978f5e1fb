"""Finds the loops in which a block may wait for another one: their end hangs on an atomic or an ordered load inside them."""

from __future__ import annotations

from collections.abc import Iterator

from tilec_runtime.cpu.tileir.ir import Block, Function, MemoryOrder, Op

_LEAVING = frozenset({"break", "continue", "return"})


def waiting_loops(function: Function) -> frozenset[Op]:
    """The `loop` and `for` operations whose passes may depend on what other blocks write meanwhile."""
    return frozenset(op for op in function.walk() if op.name in ("loop", "for") and _waits(op))


def _waits(loop: Op) -> bool:
    """Whether a condition that decides who leaves or goes on comes from an atomic or ordered load of this loop's body."""
    body = loop.regions[0]
    tainted = {result.index for op in _inside(body) if _observes(op) for result in op.results}
    if not tainted:
        return False
    count = -1
    while count != len(tainted):
        count = len(tainted)
        for op in _inside(body):
            _spread(op, tainted)
        # What one pass gives to the next.
        for op in _inside(body):
            if op.name == "continue" and _reads(op, tainted):
                tainted.update(argument.index for argument in body.args)
    return any(op.name == "if" and _leaves(op) and op.operand("condition").index in tainted for op in _inside(body))


def _observes(op: Op) -> bool:
    """Whether an operation may see what another block wrote in the same launch."""
    if op.name in ("atomic_cas_tko", "atomic_rmw_tko"):
        return True
    return op.name in ("load_ptr_tko", "load_view_tko") and op.attributes.get("order", MemoryOrder.WEAK) is not MemoryOrder.WEAK


def _spread(op: Op, tainted: set[int]) -> None:
    """Mark what an operation computes from marked values; one with regions is taken as a whole."""
    if _reads(op, tainted) or any(_reads(inner, tainted) for region in op.regions for inner in _inside(region)):
        tainted.update(result.index for result in op.results)
        for region in op.regions:
            tainted.update(argument.index for argument in region.args)


def _reads(op: Op, tainted: set[int]) -> bool:
    return any(value.index in tainted for values in op.operands.values() for value in values)


def _leaves(op: Op) -> bool:
    """Whether an `if` decides who leaves the loop or starts the next pass."""
    return any(inner.name in _LEAVING for region in op.regions for inner in _inside(region))


def _inside(block: Block) -> Iterator[Op]:
    stack = list(reversed(block.ops))
    while stack:
        op = stack.pop()
        yield op
        for region in reversed(op.regions):
            stack.extend(reversed(region.ops))
