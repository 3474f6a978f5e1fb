"""Prepared kernels of Tile IR: every operation is bound once to its function."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from tilec_runtime.cpu.tileir import (
    access,
    atomics,
    convert,
    floats,
    functions,
    integer,
    mma,
    pointers,
    promises,
    reduce,
    shape,
    views,
)
from tilec_runtime.cpu.tileir.blocks import Footprint, footprint
from tilec_runtime.cpu.tileir.control import (
    Code,
    Control,
    Exit,
    branch,
    finish,
    loop,
)
from tilec_runtime.cpu.tileir.faults import fitting
from tilec_runtime.cpu.tileir.flow import waiting_loops
from tilec_runtime.cpu.tileir.frame import Binder, Body, Frame, Step
from tilec_runtime.cpu.tileir.ir import (
    Block,
    Function,
    Global,
    Module,
    Op,
    Scalar,
    Signature,
    Tile,
)
from tilec_runtime.cpu.tileir.memory import MemoryRegion
from tilec_runtime.cpu.tileir.values import elements, layout
from tilec_runtime.errors import TileIRError

_OWNERS = (
    access,
    atomics,
    convert,
    floats,
    functions,
    integer,
    mma,
    pointers,
    promises,
    reduce,
    shape,
    views,
)
BINDERS: Mapping[str, Binder] = {
    name: binder for owner in _OWNERS for name, binder in owner.BINDERS.items()
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Program:
    """A prepared kernel, for any number of runs and threads.

    Attributes:
        module: module of the kernel.
        function: entry point.
        code: operations bound to functions.
        footprint: memory and work of one block.
        waits: loops in which a block may wait for another; if it has any, blocks take turns.
        variables: memory of the module's variables, which keep their values between launches.
    """

    module: Module
    function: Function
    code: Code
    footprint: Footprint
    waits: frozenset[Op]
    variables: tuple[MemoryRegion, ...]

    @property
    def name(self) -> str:
        """The entry's symbol."""
        return self.function.name

    @property
    def signature(self) -> Signature:
        """Types of its parameters."""
        return self.function.signature


def prepare(
    module: Module, entry: str = "", variables: tuple[MemoryRegion, ...] | None = None
) -> Program:
    """Prepare a kernel for execution.

    Args:
        module: the module.
        entry: name of the entry; may be empty if the module has only one.
        variables: memory of the module's variables from `memory_of_variables`, for several entries;
            None for memory of its own.

    Raises:
        TileIRError: the module has no such entry, or the entry's operations do not fit together.
    """
    function = _entry(module, entry)
    with fitting(f"kernel {function.name}"):
        waits = waiting_loops(function)
        return Program(
            module=module,
            function=function,
            code=_code(function.body, waits),
            footprint=footprint(function),
            waits=waits,
            variables=memory_of_variables(module) if variables is None else variables,
        )


def memory_of_variables(module: Module) -> tuple[MemoryRegion, ...]:
    """Allocate memory for the module's variables, with their initial values."""
    return tuple(_variable(variable) for variable in module.globals)


def _variable(variable: Global) -> MemoryRegion:
    assert isinstance(variable.type.element, Scalar)
    form = layout(variable.type.element)
    with fitting(f"global {variable.name}"):
        data = form.bytes_of(elements(variable.type, variable.data))
    alignment = max(variable.alignment, 16)
    room = np.zeros(data.size + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    part = room[start : start + data.size]
    part[:] = data
    return MemoryRegion(
        variable.name,
        part.ctypes.data,
        part,
        writable=not variable.constant,
        itemsize=form.size,
    )


def body_of(block: Block) -> Body:
    """Prepare a block that an operation runs itself, such as that of a reduction.

    The block ends in a plain `yield`.
    """
    code = _code(block)
    return lambda frame: finish(code, frame)


def _entry(module: Module, entry: str) -> Function:
    entries = {function.name: function for function in module.functions if function.entry}
    if entry in entries:
        return entries[entry]
    if not entry and len(entries) == 1:
        return next(iter(entries.values()))
    names = ", ".join(sorted(entries)) or "none"
    message = (
        f"no kernel {entry} in this Tile IR"
        if entry
        else f"{len(entries)} kernels in this Tile IR, and no name says which"
    )
    raise TileIRError(message, fix=f"kernels that it has: {names}")


def _code(block: Block, waits: frozenset[Op] = frozenset()) -> Code:
    """Prepare the code of a block; `waits` are the loops that wait for other blocks."""
    parts: list[tuple[tuple[Step, ...], Control | None]] = []
    steps: list[Step] = []
    ops: dict[Step | Control, Op] = {}
    dead = _last_uses(block)
    *body, last = block.ops
    for index, op in enumerate(body):
        with fitting(f"operation {op.number}, {op.name}", op):
            control = _control(op, waits)
            if control is None:
                step = BINDERS[op.name](op, body_of)
                ops[step] = op
                steps.append(step)
            else:
                ops[control] = op
                parts.append((tuple(steps), control))
                steps = []
        if index in dead:
            steps.append(_forgetting(dead[index]))
    return Code(
        [*parts, (tuple(steps), None)], Exit(last.name), last.operands.get("values", ()), ops
    )


def _control(op: Op, waits: frozenset[Op]) -> Control | None:
    """Return the function of a control flow operation, or None for another operation."""
    if op.name == "if":
        return branch(op, *[_code(region, waits) for region in op.regions])
    if op.name in ("loop", "for"):
        return loop(op, _code(op.regions[0], waits), op in waits)
    return None


def _forgetting(indices: tuple[int, ...]) -> Step:
    """Return a step that frees values, unless an observer may read them."""

    def step(frame: Frame) -> None:
        if frame.launch.options.observer is None:
            frame.forget(indices)

    return step


def _last_uses(block: Block) -> dict[int, tuple[int, ...]]:
    """Return, for each position in a block, the tiles that no later operation needs.

    Scalars are left out, since they are small.
    """
    last: dict[int, int] = {}
    for argument in block.args:
        if isinstance(argument.type, Tile) and argument.type.shape:
            last[argument.index] = 0
    for place, op in enumerate(block.ops):
        for result in op.results:
            if isinstance(result.type, Tile) and result.type.shape:
                last[result.index] = place
        for index in _uses(op):
            if index in last:
                last[index] = place
    dead: dict[int, list[int]] = {}
    for index, place in last.items():
        dead.setdefault(place, []).append(index)
    return {place: tuple(indices) for place, indices in dead.items()}


def _uses(op: Op) -> set[int]:
    """Return the numbers of the values that an operation and its regions read."""
    nested = [inner for region in op.regions for inner in region.walk()]
    return {
        value.index for one in (op, *nested) for values in one.operands.values() for value in values
    }
