"""Executes a kernel on the CPU: all blocks of a grid in batches, on given memory."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.blocks import batches
from tilec_runtime.cpu.tileir.control import Run
from tilec_runtime.cpu.tileir.faults import fitting, stopped
from tilec_runtime.cpu.tileir.frame import DEFAULT, Frame, Grid, Launch, Options
from tilec_runtime.cpu.tileir.ir import Global, Module, Pointer, Scalar, Tile, Value
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.program import Program, bind, run_whole
from tilec_runtime.cpu.tileir.turns import take_turns
from tilec_runtime.cpu.tileir.values import Array, elements, layout, storage

# Numbers of blocks that take turns are generated in chunks of this size.
_CHUNK = 4096


def prepare(module: Module, entry: str = "", variables: tuple[MemoryRegion, ...] = ()) -> Program:
    """Prepare a kernel for execution.

    Args:
        module: the module.
        entry: name of the entry; may be empty if the module has only one.
        variables: memory of the module's variables from `memory_of_variables`, which keeps their
            values between launches. Without it each launch starts with their initial values.

    Raises:
        TileIRError: the module has no such entry, or the entry uses an unknown feature.
    """
    return dataclasses.replace(bind(module, entry), variables=variables)


def execute(
    program: Program,
    arguments: Sequence[Any],
    grid: Grid,
    memory: Memory,
    options: Options = DEFAULT,
) -> None:
    """Run every block of a grid.

    Launches have checked the arguments and the grid.

    Args:
        program: prepared kernel.
        arguments: one per parameter, an address or a number.
        grid: blocks along x, y and z; an empty grid is allowed.
        memory: memory that the kernel may access.
        options: options of the interpreter.

    Raises:
        FaultError: the kernel performed an invalid operation; the message gives operation, block
            and location.
    """
    with launched(program, arguments, grid, memory, options) as start, np.errstate(all="ignore"):
        if start is None:
            return
        if program.waits:
            numbers = itertools.chain.from_iterable(
                blocks.tolist() for blocks in batches(grid, _CHUNK, "forward")
            )
            most = program.footprint.flight
            turns = take_turns(
                numbers, start.one, most=most, order=options.order, cancelled=options.cancelled
            )
            collections.deque(turns, maxlen=0)
            return
        for blocks in batches(grid, options.batch or program.footprint.batch, options.order):
            start.check()
            frame = start.frame(blocks)
            try:
                run_whole(program, frame)
            finally:
                frame.flush()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Start:
    """Creates frames of a launch. `values` are the values of the parameters."""

    program: Program
    launch: Launch
    values: tuple[Array, ...]

    def frame(self, blocks: Array, turns: bool = False) -> Frame:
        """Create a frame for some blocks, with the arguments set."""
        frame = Frame(self.launch, blocks, turns=turns)
        for parameter, held in zip(self.program.function.body.args, self.values, strict=True):
            frame.set(parameter, held)
        return frame

    def one(self, number: int) -> tuple[Frame, Run]:
        """Start one block that takes turns with others."""
        frame = self.frame(np.array([number]), turns=True)
        return frame, self.program.code.run(frame)

    def check(self) -> None:
        """Raise if a stop was requested."""
        options = self.launch.options
        if options.cancelled is not None and options.cancelled():
            raise stopped(options.kernel)


@contextmanager
def launched(
    program: Program, arguments: Sequence[Any], grid: Grid, memory: Memory, options: Options
) -> Iterator[Start | None]:
    """Set up the shared state of a launch; yield None for an empty grid.

    The parameters are those of `execute`.
    """
    if 0 in grid:
        yield None
        return
    parameters = program.function.body.args
    values = tuple(map(_held, parameters, arguments))
    variables = program.variables or memory_of_variables(program.module)
    try:
        for region in variables:
            memory.add(region)
        launch = Launch(
            options=dataclasses.replace(options, kernel=options.kernel or program.name),
            grid=grid,
            memory=memory,
            globals={region.name: region.address for region in variables},
        )
        yield Start(program=program, launch=launch, values=values)
    finally:
        for region in variables:
            memory.discard(region)


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


def _held(parameter: Value, value: Any) -> Array:
    """Return an argument as the value of a parameter.

    Addresses and unsigned numbers become the signed ones with the same bits.
    """
    kind = parameter.type
    element = kind.element if isinstance(kind, Tile) else kind
    assert isinstance(element, Scalar | Pointer)
    if isinstance(element, Scalar) and element.is_float:
        return np.array([value]).astype(storage(element))
    half = 1 << (63 if isinstance(element, Pointer) else element.bits - 1)
    return np.array([(int(value) + half) % (2 * half) - half], storage(element))
