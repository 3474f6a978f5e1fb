"""Data flow of a kernel: loops that may wait for other blocks."""

from __future__ import annotations

from tilec_runtime.cpu.tileir.ir import Function, MemoryOrder, Op

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
