"""The provenance of pointers and views: their parameters, and written ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tilec_runtime.cpu.tileir.check.findings import index_text
from tilec_runtime.cpu.tileir.frame import Access, Frame
from tilec_runtime.cpu.tileir.ir import Block, Function, Op, Scalar, Tile, Token, Value
from tilec_runtime.cpu.tileir.memory import MemoryRegion
from tilec_runtime.cpu.tileir.values import Array

_LEAVES = frozenset({"yield", "continue", "break"})
_TARGETS = ("view", "source", "destination", "pointers", "pointer")
_ACCESSES = ("load_", "store_", "atomic_")
# Operations whose result has the elements of an operand.
_SAME = {"reshape": "source", "broadcast": "source", "assume": "value"}


class Provenance:
    """Follows pointers from the entry's parameters to accesses.

    Pointers loaded from memory or made of integers are unknown.

    Args:
        function: the kernel.
        names: name of the launcher's parameter for each parameter of the entry.
    """

    def __init__(self, function: Function, names: Sequence[str]) -> None:
        self._onward: dict[int, set[int]] = {}
        unknown: list[int] = []
        self._connect(function.body, (), unknown)
        self._names: dict[int, set[str]] = {}
        for value, name in zip(function.body.args, names, strict=False):
            if points(value):
                self._reach([value.index], name)
        self._reach(unknown, "")
        self.written = self._all_written(function) if names else None

    def of(self, op: Op) -> frozenset[str] | None:
        """Return the names of the parameters of an access, or None if unknown."""
        return self.of_value(_target(op))

    def of_value(self, value: Value) -> frozenset[str] | None:
        """Return the names of the parameters that a pointer may derive from, or None."""
        names = self._names.get(value.index, {""})
        return None if "" in names else frozenset(names)

    def _all_written(self, function: Function) -> frozenset[str] | None:
        """Return the names of parameters that the kernel may write, or None if unknown."""
        written: set[str] = set()
        for op in function.walk():
            if op.name.startswith(_ACCESSES) and not op.name.startswith("load_"):
                names = self.of(op)
                if names is None:
                    return None
                written |= names
        return frozenset(written)

    def _connect(self, block: Block, enclosing: tuple[Value, ...], unknown: list[int]) -> None:
        """Record the flow of pointers through a block's operations.

        `enclosing` are values that an operation which leaves the block may set.
        """
        for op in block.ops:
            given = _pointing(value for group in op.operands.values() for value in group)
            pointers = _pointing(op.results)
            if op.regions:
                inner = (
                    *pointers,
                    *(value for region in op.regions for value in _pointing(region.args)),
                )
                self._join(given, inner)
                for region in op.regions:
                    self._connect(region, (*enclosing, *inner), unknown)
            elif op.name in _LEAVES:
                self._join(given, enclosing)
            elif pointers and (not given or op.name.startswith(_ACCESSES)):
                unknown.extend(value.index for value in pointers)
            else:
                self._join(given, pointers)

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
    return tuple(value for value in values if points(value))


def points(value: Value) -> bool:
    """Whether a value is a pointer or a view."""
    kind = value.type
    return not isinstance(kind, Token) and not (
        isinstance(kind, Tile) and isinstance(kind.element, Scalar)
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Indexed:
    """An access at the address base + sum of index * stride.

    Attributes:
        base: index of the array's address among the entry's parameters.
        terms: index and stride per dimension.
    """

    base: int
    terms: tuple[tuple[Value, Value], ...]


def _indexed_accesses(function: Function) -> Mapping[int, _Indexed]:
    """Return the accesses by indices; keys are the numbers of their operations."""
    makers = {result.index: op for op in function.walk() for result in op.results}
    parameters = {value.index: index for index, value in enumerate(function.body.args)}
    accesses: dict[int, _Indexed] = {}
    for op in function.walk():
        if not op.name.startswith(_ACCESSES):
            continue
        offset = makers.get(_target(op).index)
        if offset is None or offset.name != "offset":
            continue
        base = _origin(offset.operand("pointer"), makers)
        terms = [_term(value, makers) for value in _summands(offset.operand("offset"), makers)]
        whole = tuple(term for term in terms if term is not None)
        if base.index in parameters and len(whole) == len(terms):
            accesses[op.number] = _Indexed(base=parameters[base.index], terms=whole)
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


class Extents:
    """Compares accesses with the extents of their array.

    Args:
        function: the kernel.
        names: name of the launcher's parameter for each parameter of the entry.
    """

    def __init__(self, function: Function, names: Sequence[str]) -> None:
        self._names = names
        self._indexed = _indexed_accesses(function) if names else {}

    def beyond(self, access: Access, home: MemoryRegion) -> Array | None:
        """Return a mask of the accessed addresses that are not elements of `home`.

        The mask has the shape of the access's offsets; None if all are elements.
        """
        indices = self._indices(access.op, access.frame, home)
        if indices is not None and home.shape is not None:
            off = np.zeros((1,) * access.offsets.ndim, np.bool_)
            for index, extent in zip(indices, home.shape, strict=True):
                off = off | (index < 0) | (index >= extent)
            off = np.broadcast_to(off, access.offsets.shape)
        else:
            off = _between(home, access.offsets + (access.region.address - home.address))
        if access.mask is not None:
            off = off & access.mask
        return off if off.any() else None

    def described(
        self, access: Access, home: MemoryRegion, where: tuple[int, ...]
    ) -> tuple[tuple[int, ...], str]:
        """Return the index of an access outside of the array, and its description."""
        indices, extents = (
            self._indices(access.op, access.frame, home),
            ", ".join(map(str, home.shape or ())),
        )
        if indices is None:
            index = home.element(int(access.offsets[where]) + access.region.address - home.address)
            return (
                index,
                f"memory behind element [{index_text(index)}] of {home.name}, which is between its elements",
            )
        index = tuple(int(np.broadcast_to(item, access.offsets.shape)[where]) for item in indices)
        return index, f"element [{index_text(index)}] of {home.name}, whose extents are [{extents}]"

    def _indices(self, op: Op, frame: Frame, home: MemoryRegion) -> list[Array] | None:
        """Return the index along each dimension, or None without plain indices."""
        indexed = self._indexed.get(op.number)
        if (
            indexed is None
            or home.shape is None
            or home.strides is None
            or len(indexed.terms) != len(home.shape)
        ):
            return None
        if (
            not indexed.base < len(self._names)
            or self._names[indexed.base] != home.name
            or not self._steps(indexed, frame, home)
        ):
            return None
        return [frame.get(index) for index, _ in indexed.terms]

    def _steps(self, indexed: _Indexed, frame: Frame, home: MemoryRegion) -> bool:
        """Whether the kernel multiplies each index by the stride of its dimension."""
        assert home.shape is not None
        assert home.strides is not None
        pairs = zip(indexed.terms, home.shape, home.strides, strict=True)
        return all(
            extent <= 1 or bool((frame.get(stride) == step).all())
            for (_, stride), extent, step in pairs
        )


def _between(region: MemoryRegion, offsets: Array) -> Array:
    """Mark byte offsets between elements of an array; none if elements overlap."""
    nothing = np.zeros(offsets.shape, np.bool_)
    if (
        region.shape is None
        or region.strides is None
        or math.prod(region.shape) * region.itemsize >= region.data.size
    ):
        return nothing
    steps = sorted(
        (
            (abs(step), extent)
            for step, extent in zip(region.strides, region.shape, strict=True)
            if extent > 1
        ),
        reverse=True,
    )
    reach = 0
    for step, extent in reversed(steps):
        if step <= reach:
            return nothing
        reach += step * (extent - 1)
    left = (
        offsets // region.itemsize
    )  # from the span's start, which is the element with the lowest address
    for step, extent in steps:
        left = left - np.minimum(left // step, extent - 1) * step
    return left != 0
