"""Which parameters a kernel's pointers and views come from, and which parameters it may write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilec_runtime.cpu.tileir.ir import Block, Function, Op, Scalar, Tile, Token, Value

_LEAVES = frozenset({"yield", "continue", "break"})
_TARGETS = ("view", "source", "destination", "pointers", "pointer")
_ACCESSES = ("load_", "store_", "atomic_")


class Provenance:
    """Follows pointers from the entry's parameters to accesses. What it cannot follow (pointers out of memory or numbers) it says.

    Args:
        function: the kernel.
        names: of the parameter of the launch that each parameter of the entry belongs to.
    """

    def __init__(self, function: Function, names: Sequence[str]) -> None:
        self._onward: dict[int, set[int]] = {}
        unknown: list[int] = []
        self._connect(function.body, (), unknown)
        self._names: dict[int, set[str]] = {}
        for value, name in zip(function.body.args, names, strict=False):
            if _points(value):
                self._reach([value.index], name)
        self._reach(unknown, "")
        self.written = self._all_written(function) if names else None

    def of(self, op: Op) -> frozenset[str] | None:
        """Names of the parameters whose memory an access is about; None if that is not known."""
        found = self._names.get(_target(op).index, {""})
        return None if "" in found else frozenset(found)

    def _all_written(self, function: Function) -> frozenset[str] | None:
        """Names of the parameters that the kernel may write; None if that is not known."""
        found: set[str] = set()
        for op in function.walk():
            if op.name.startswith(_ACCESSES) and not op.name.startswith("load_"):
                names = self.of(op)
                if names is None:
                    return None
                found |= names
        return frozenset(found)

    def _connect(self, block: Block, enclosing: tuple[Value, ...], unknown: list[int]) -> None:
        """Note where the pointers of a block's operations go on to; `enclosing` are the values that leaving the block may set."""
        for op in block.ops:
            given = _pointing(value for group in op.operands.values() for value in group)
            made = _pointing(op.results)
            if op.regions:
                inner = (*made, *(value for region in op.regions for value in _pointing(region.args)))
                self._join(given, inner)
                for region in op.regions:
                    self._connect(region, (*enclosing, *inner), unknown)
            elif op.name in _LEAVES:
                self._join(given, enclosing)
            elif made and (not given or op.name.startswith(_ACCESSES)):
                unknown.extend(value.index for value in made)
            else:
                self._join(given, made)

    def _join(self, sources: Iterable[Value], targets: Sequence[Value]) -> None:
        for source in sources:
            self._onward.setdefault(source.index, set()).update(value.index for value in targets)

    def _reach(self, start: Iterable[int], name: str) -> None:
        todo = list(start)
        while todo:
            index = todo.pop()
            known = self._names.setdefault(index, set())
            if name not in known:
                known.add(name)
                todo.extend(self._onward.get(index, ()))


def _target(op: Op) -> Value:
    return next(op.operand(name) for name in _TARGETS if op.operands.get(name))


def _pointing(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(value for value in values if _points(value))


def _points(value: Value) -> bool:
    """Whether a value leads to memory: pointers, and views of tensors."""
    kind = value.type
    return not isinstance(kind, Token) and not (isinstance(kind, Tile) and isinstance(kind.element, Scalar))
