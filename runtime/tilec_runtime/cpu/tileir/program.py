"""Prepared kernels of Tile IR: every operation is bound once to its function."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

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
    paused,
    watched,
)
from tilec_runtime.cpu.tileir.faults import fitting
from tilec_runtime.cpu.tileir.flow import waiting_loops
from tilec_runtime.cpu.tileir.frame import Binder, Body, Frame, Step
from tilec_runtime.cpu.tileir.ir import Block, Function, Module, Op, Signature, Tile
from tilec_runtime.cpu.tileir.memory import MemoryRegion
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
        variables: memory of the module's variables; empty if each launch has its own.
    """

    module: Module
    function: Function
    code: Code
    footprint: Footprint
    waits: frozenset[Op]
    variables: tuple[MemoryRegion, ...] = ()

    @property
    def name(self) -> str:
        """The entry's symbol."""
        return self.function.name

    @property
    def signature(self) -> Signature:
        """Types of its parameters."""
        return self.function.signature


def bind(module: Module, entry: str = "", watch: bool = False) -> Program:
    """Prepare a kernel.

    Args:
        module: the module.
        entry: name of the entry; may be empty if the module has only one.
        watch: pause at every operation.

    Raises:
        TileIRError: the module has no such entry, or the entry's operations do not fit together.
    """
    function = _entry(module, entry)
    with fitting(f"kernel {function.name}"):
        waits = waiting_loops(function)
        code = _Coder(waits, watch).code(function.body)
        return Program(
            module=module,
            function=function,
            code=code,
            footprint=footprint(function),
            waits=waits,
        )


def body_of(block: Block) -> Body:
    """Prepare a block that an operation runs itself, such as that of a reduction.

    The block ends in a plain `yield`.
    """
    code = _Coder(frozenset(), False).code(block)
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


class _Coder:
    """Prepares the code of blocks."""

    def __init__(self, waits: frozenset[Op], watch: bool) -> None:
        self._waits = waits
        self._watch = watch

    def code(self, block: Block) -> Code:
        """Prepare the code of a block."""
        parts: list[tuple[tuple[Step, ...], Control | None]] = []
        steps: list[Step] = []
        ops: dict[Step, Op] = {}
        dead = {} if self._watch else _last_uses(block)
        *body, last = block.ops
        for index, op in enumerate(body):
            with fitting(f"operation {op.number}, {op.name}", op):
                control = self._control(op)
                step = None if control else BINDERS[op.name](op, body_of)
            if step is not None:
                ops[step] = op
                if self._watch:
                    control = watched(op, step)
                else:
                    steps.append(step)
            if control is not None:
                parts.append((tuple(steps), control))
                steps = []
            if index in dead:
                steps.append(_forgetting(dead[index]))
        return Code(
            [*parts, (tuple(steps), None)], Exit(last.name), last.operands.get("values", ()), ops
        )

    def _control(self, op: Op) -> Control | None:
        """Return the function of a control flow operation, or None for another operation."""
        if op.name == "if":
            control = branch(op, *[self.code(region) for region in op.regions])
        elif op.name in ("loop", "for"):
            control = loop(op, self.code(op.regions[0]), op in self._waits)
        else:
            return None
        return paused(op, control) if self._watch else control


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


def run_whole(program: Program, frame: Frame) -> None:
    """Run a program on a batch to its end, ignoring pauses."""
    for _ in program.code.run(frame):
        pass
