"""Builds Tile IR by hand: whole kernels, or one operation that runs on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.frame import GARBAGE, Frame, Launch, Observer, Options, Undetermined
from tilec_runtime.cpu.tileir.ir import (
    AtomicMode,
    Block,
    Function,
    Global,
    Loc,
    MemoryOrder,
    MemoryScope,
    Module,
    Op,
    Overflow,
    Padding,
    Pointer,
    Predicate,
    Scalar,
    Signature,
    Signedness,
    TensorView,
    Tile,
    Token,
    Type,
    Value,
    View,
)
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.program import BINDERS, Program, body_of, prepare
from tilec_runtime.cpu.tileir.values import STORAGE
from tilec_runtime.tensors.host import host_memory

FILE = "kernel.py"
NEWEST = (13, 4)


def tile(element: Scalar | Pointer, *shape: int) -> Tile:
    return Tile(element, shape)


I1, I32, I64, F32 = tile(Scalar.I1), tile(Scalar.I32), tile(Scalar.I64), tile(Scalar.F32)
TOKEN = Token()


def region_of(name: str, array: np.ndarray) -> MemoryRegion:
    """The memory between an array's lowest and highest element, at its real address."""
    steps = [
        stride * (extent - 1) for extent, stride in zip(array.shape, array.strides, strict=True)
    ]
    origin = -sum(min(step, 0) for step in steps)
    low, size = array.ctypes.data - origin, sum(map(abs, steps)) + array.itemsize
    return MemoryRegion(
        name,
        low,
        host_memory(low, size if array.size else 0, writable=array.flags.writeable, owner=array),
        writable=array.flags.writeable,
        itemsize=array.itemsize,
        shape=array.shape,
        strides=tuple(stride // array.itemsize for stride in array.strides),
        origin=origin,
    )


def partition(
    tile: tuple[int, ...],
    tensor: TensorView,
    dims: tuple[int, ...],
    padding: Padding | None = None,
    steps: tuple[int, ...] | None = None,
) -> View:
    """The type of a partition; with `steps` of a strided view."""
    name = "partition_view" if steps is None else "strided_view"
    return View(
        name=name, tile=tile, tensor=tensor, steps=steps or tile, dims=dims, padding=padding
    )


def gathered(
    tile: tuple[int, ...], tensor: TensorView, sparse: int, padding: Padding | None = None
) -> View:
    """The type of a view that gathers and scatters along a dimension."""
    rank = len(tile)
    return View(
        name="gather_scatter_view",
        tile=tile,
        tensor=tensor,
        steps=(1,) * rank,
        dims=tuple(range(rank)),
        sparse=sparse,
        padding=padding,
    )


class Region:
    """A block under construction; `args` are its arguments."""

    def __init__(self, builder: Builder, types: Sequence[Type]) -> None:
        self.builder = builder
        self.args = tuple(builder.value(kind) for kind in types)
        self.ops: list[Op] = []

    def block(self) -> Block:
        return Block(self.args, tuple(self.ops))


class Builder:
    """Adds operations to the block under construction. Each stands on a line of its own of
    `kernel.py`, counted from 1.
    """

    def __init__(self) -> None:
        self.values = 0
        self.number = 0
        self._stack: list[Region] = []

    def value(self, kind: Type) -> Value:
        self.values += 1
        return Value(self.values - 1, kind)

    def region(self, types: Sequence[Type], fill: Callable[..., object]) -> Block:
        """A nested block; `fill` is called with its arguments and adds its operations."""
        region = Region(self, types)
        self._stack.append(region)
        fill(*region.args)
        self._stack.pop()
        return region.block()

    def op(
        self,
        name: str,
        operands: Mapping[str, Any] | None = None,
        results: Type | Sequence[Type] = (),
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Block] = (),
        line: int = 0,
    ) -> Any:
        """Add an operation, its operands values, several or None; gives its result: the only one, a
        tuple of several, or None.
        """
        types = tuple(results) if isinstance(results, list | tuple) else (results,)
        made = tuple(self.value(kind) for kind in types)
        groups = {key: _group(value) for key, value in (operands or {}).items()}
        self.number += 1
        self._stack[-1].ops.append(
            Op(
                name=name,
                results=made,
                operands=groups,
                attributes=dict(attributes or {}),
                regions=tuple(regions),
                loc=Loc(FILE, line or self.number, 1),
                number=self.number - 1,
            )
        )
        return made[0] if len(made) == 1 else (made or None)

    def constant(self, value: Any, element: Scalar = Scalar.I32, *shape: int) -> Value:
        """A constant of a type whose elements fill whole bytes."""
        data = (
            np.packbits([bool(value)], bitorder="little")
            if element is Scalar.I1
            else np.asarray(value, STORAGE[element])
        )
        made: Value = self.op("constant", {}, Tile(element, shape), {"value": data.tobytes()})
        return made

    def block(self) -> Value:
        """The block's number along x."""
        found: Value = self.op("get_tile_block_id", {}, [I32] * 3)[0]
        return found

    def add(self, lhs: Value, rhs: Value, overflow: Overflow = Overflow.NONE) -> Value:
        found: Value = self.op("addi", {"lhs": lhs, "rhs": rhs}, lhs.type, {"overflow": overflow})
        return found

    def compare(self, lhs: Value, rhs: Value, predicate: Predicate = Predicate.LESS_THAN) -> Value:
        found: Value = self.op(
            "cmpi",
            {"lhs": lhs, "rhs": rhs},
            I1,
            {"predicate": predicate, "signedness": Signedness.SIGNED},
        )
        return found

    def spread(self, source: Value, *shape: int) -> Value:
        """A tile whose elements are all a scalar."""
        element = source.type.element  # type: ignore[union-attr]
        one = self.op("reshape", {"source": source}, Tile(element, (1,) * len(shape)))
        found: Value = self.op("broadcast", {"source": one}, Tile(element, shape))
        return found

    def at(self, pointer: Value, offset: Value) -> Value:
        """A pointer so many elements further on."""
        found: Value = self.op("offset", {"pointer": pointer, "offset": offset}, pointer.type)
        return found

    def load(self, source: Value, kind: Type | None = None, line: int = 0) -> Value:
        """What lies at a pointer: an integer, unless told otherwise."""
        weak = {"order": MemoryOrder.WEAK}
        results = [kind or I32, TOKEN]
        found: Value = self.op("load_ptr_tko", {"source": source}, results, weak, line=line)[0]
        return found

    def store(self, destination: Value, value: Value, line: int = 0) -> None:
        operands = {"destination": destination, "value": value}
        self.op("store_ptr_tko", operands, TOKEN, {"order": MemoryOrder.WEAK}, line=line)

    def atomic_add(self, pointer: Value, number: Value) -> Value:
        more = {
            "order": MemoryOrder.ACQ_REL,
            "scope": MemoryScope.DEVICE,
            "mode": AtomicMode.ADD,
        }
        found: Value = self.op(
            "atomic_rmw_tko", {"pointers": pointer, "value": number}, [I32, TOKEN], more
        )[0]
        return found

    def show(self, *values: Value, text: str = "") -> None:
        """Print; integers with a semicolon behind, unless told otherwise."""
        text = text or " ".join(["%lld"] * len(values)) + ";"
        self.op("print_tko", {"args": values}, TOKEN, {"text": text})

    def ret(self) -> None:
        self.op("return", {"values": ()})


def _group(value: Value | Sequence[Value] | None) -> tuple[Value, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, Value) else tuple(value)


def module(
    params: Sequence[Type],
    fill: Callable[..., object],
    name: str = "kernel",
    variables: Sequence[Global] = (),
) -> Module:
    """A module with one kernel; `fill` is called with a builder and the kernel's parameters."""
    builder = Builder()
    body = builder.region(params, lambda *args: fill(builder, *args))
    function = Function(
        name=name,
        signature=Signature(tuple(params), ()),
        entry=True,
        hints=None,
        body=body,
        loc=Loc(FILE, 1, 1),
    )
    return Module(version=NEWEST, functions=(function,), globals=tuple(variables))


def program(params: Sequence[Type], fill: Callable[..., object], **more: Any) -> Program:
    """The same, ready to run."""
    return prepare(module(params, fill, **more))


def launch(
    blocks: int = 1,
    memory: Memory | None = None,
    observer: Observer | None = None,
    grid: tuple[int, int, int] | None = None,
    output: Callable[[str], None] = lambda text: None,
    addresses: Mapping[str, int] | None = None,
    undetermined: Undetermined = GARBAGE,
) -> Launch:
    return Launch(
        options=Options(
            kernel="kernel", observer=observer, output=output, undetermined=undetermined
        ),
        grid=grid or (blocks, 1, 1),
        memory=memory or Memory(),
        globals=addresses or {},
    )


def run_op(
    name: str,
    operands: Mapping[str, tuple[Type, Any] | Sequence[tuple[Type, Any]] | None],
    results: Type | Sequence[Type] = (),
    attributes: Mapping[str, Any] | None = None,
    regions: Callable[[Builder], Sequence[Block]] | None = None,
    **more: Any,
) -> tuple[Any, ...]:
    """Run one operation: `operands` gives for each its type and what it holds, with the axis of
    blocks in front.

    `regions` makes nested blocks; the rest goes to `launch`. Gives what each result holds.
    """
    held = {key: _pairs(value) for key, value in operands.items()}
    sizes = [
        np.shape(item)[0]
        for pairs in held.values()
        for _, item in pairs
        if isinstance(item, np.ndarray)
    ]
    blocks = more.pop("blocks", max(sizes, default=1))
    made: list[tuple[Value, Any]] = []
    ops: list[Op] = []

    def fill(builder: Builder) -> None:
        groups = {}
        for key, pairs in held.items():
            groups[key] = tuple(builder.value(kind) for kind, _ in pairs)
            made.extend(zip(groups[key], (item for _, item in pairs), strict=True))
        builder.op(name, groups, results, attributes, regions(builder) if regions else ())
        ops.extend(builder._stack[-1].ops[-1:])

    builder = Builder()
    builder.region((), lambda: fill(builder))
    where = launch(blocks, **more)
    frame = Frame(where, np.arange(blocks))
    for value, item in made:
        frame.set(value, item)
    with np.errstate(all="ignore"):
        BINDERS[name](ops[0], body_of)(frame)
    frame.flush()
    return tuple(frame.get(result) for result in ops[0].results)


def _pairs(value: Any) -> tuple[tuple[Type, Any], ...]:
    if value is None:
        return ()
    if isinstance(value, list):
        return tuple(value)
    return (value,)
