"""Executes a kernel on the CPU: all blocks of a grid, in batches, over memory that the caller
lends.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.blocks import batches, refuse_huge
from tilec_runtime.cpu.tileir.control import Run
from tilec_runtime.cpu.tileir.faults import stopped
from tilec_runtime.cpu.tileir.frame import GARBAGE, Frame, Grid, Launch, Observer, Undetermined
from tilec_runtime.cpu.tileir.ir import Global, Module, Pointer, Scalar, Tile, Value
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.program import Program, bind, run_whole
from tilec_runtime.cpu.tileir.turns import take_turns
from tilec_runtime.cpu.tileir.values import Array, elements, layout, storage
from tilec_runtime.errors import ArgumentError, LaunchLimitError

# Numbers of blocks that take turns are made in pieces of this many.
_CHUNK = 4096


def _print(text: str) -> None:
    sys.stdout.write(text)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to execute.

    Attributes:
        kernel: name in messages; empty for the entry's symbol.
        order: of the blocks: "forward", "reverse", or the seed of a random one.
        batch: most blocks in flight; 0 to have it chosen from the sizes of the tiles.
        steps: most passes of loops of one batch of blocks.
        elements: most elements that a launch may compute, as `Footprint` counts them.
        observer: told of every access and assumption.
        output: takes what the kernel prints.
        cancelled: asked now and then whether to stop; for those who launch on another thread than
            the main one.
        undetermined: what elements hold whose value Tile IR leaves open.
    """

    kernel: str = ""
    order: str | int = "forward"
    batch: int = 0
    steps: int = 10_000_000
    elements: int = 2_000_000_000_000
    observer: Observer | None = None
    output: Callable[[str], None] = _print
    cancelled: Callable[[], bool] | None = None
    undetermined: Undetermined = GARBAGE


DEFAULT = Options()


def prepare(module: Module, entry: str = "", variables: tuple[MemoryRegion, ...] = ()) -> Program:
    """Make a kernel ready to run. `entry` may be empty where the module has one.

    `variables` is memory of the module's variables, as `memory_of_variables` makes it, where they
    are to keep what launches leave in them. Without it each launch starts with the values that the
    module gives them.

    Raises:
        TileIRError: there is no such entry, or it has something that is not known.
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

    Args:
        program: the kernel.
        arguments: one for each parameter: an address for a pointer, a number for a number.
        grid: blocks along x, y and z; without blocks nothing happens.
        memory: all that the kernel may touch.
        options: limits, order, observer.

    Raises:
        ArgumentError: arguments that do not fit.
        LaunchLimitError: no grid.
        FaultError: the kernel did what it must not; names operation, place in the source and block.
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
    """Makes frames of a launch. `values` is what each parameter holds."""

    program: Program
    launch: Launch
    values: tuple[Array, ...]
    options: Options

    def frame(self, blocks: Array, turns: bool = False) -> Frame:
        """A frame for some blocks, with the arguments set."""
        frame = Frame(self.launch, blocks, turns=turns)
        for parameter, held in zip(self.program.function.body.args, self.values, strict=True):
            frame.set(parameter, held)
        return frame

    def one(self, number: int) -> tuple[Frame, Run]:
        """One block that takes turns with others."""
        frame = self.frame(np.array([number]), turns=True)
        return frame, self.program.code.run(frame)

    def check(self) -> None:
        """Stop if a stop was requested."""
        if self.options.cancelled is not None and self.options.cancelled():
            raise stopped(self.launch.kernel)


@contextmanager
def launched(
    program: Program, arguments: Sequence[Any], grid: Grid, memory: Memory, options: Options
) -> Iterator[Start | None]:
    """Check a launch and set up what its blocks share; None where there are no blocks. Arguments as
    those of `execute`.
    """
    kernel = options.kernel or program.name
    values = held_arguments(program, arguments, kernel)
    check_grid(grid, kernel)
    if 0 in grid:
        yield None
        return
    refuse_huge(program.footprint, grid, options.batch, options.elements, kernel)
    variables = program.variables or memory_of_variables(program.module)
    try:
        for region in variables:
            memory.add(region)
        launch = Launch(
            kernel=kernel,
            grid=grid,
            memory=memory,
            observer=options.observer,
            output=options.output,
            globals={region.name: region.address for region in variables},
            undetermined=options.undetermined,
            steps=options.steps,
            cancelled=options.cancelled,
        )
        yield Start(program=program, launch=launch, values=values, options=options)
    finally:
        for region in variables:
            memory.discard(region)


def memory_of_variables(module: Module) -> tuple[MemoryRegion, ...]:
    """Memory for the module's variables, holding what the module says."""
    return tuple(_variable(variable) for variable in module.globals)


def _variable(variable: Global) -> MemoryRegion:
    assert isinstance(variable.type.element, Scalar)
    form = layout(variable.type.element)
    data = form.bytes_of(elements(variable.type, variable.data))
    alignment = max(variable.alignment, 16)
    room = np.zeros(data.size + alignment, np.uint8)
    start = -room.ctypes.data % alignment
    room[start : start + data.size] = data
    region = MemoryRegion.of(
        variable.name, room[start : start + data.size], writable=not variable.constant
    )
    region.itemsize = form.size
    return region


def held_arguments(program: Program, arguments: Sequence[Any], kernel: str) -> tuple[Array, ...]:
    """Arguments as the parameters hold them.

    Raises:
        ArgumentError: another number of them than of parameters, or a value that a parameter cannot
            hold.
    """
    parameters = program.function.body.args
    if len(arguments) != len(parameters):
        raise ArgumentError(
            f"{kernel}: {len(arguments)} arguments for {len(parameters)} parameters", kernel=kernel
        )
    return tuple(
        _held(parameter, value, place, kernel)
        for place, (parameter, value) in enumerate(zip(parameters, arguments, strict=True))
    )


def _held(parameter: Value, value: Any, place: int, kernel: str) -> Array:
    kind = parameter.type
    element = kind.element if isinstance(kind, Tile) else kind
    assert isinstance(element, Scalar | Pointer)
    try:
        if isinstance(element, Scalar) and element.is_float:
            return np.array([value]).astype(storage(element))
        bits = 64 if isinstance(element, Pointer) else element.bits
        return np.array(
            [
                _signed(
                    operator.index(value.item() if isinstance(value, np.generic) else value), bits
                )
            ],
            storage(element),
        )
    except (TypeError, ValueError, OverflowError) as exc:
        raise ArgumentError(
            f"{kernel}: argument {place} is {value!r}, which the parameter cannot hold: {exc}",
            kernel=kernel,
        ) from exc


def _signed(number: int, bits: int) -> int:
    """An integer as its bits are held; one that fits unsigned is taken as such."""
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise OverflowError(f"it does not fit {bits} bits")
    return number - (1 << bits) if bits > 1 and number >= 1 << (bits - 1) else number


def check_grid(grid: Grid, kernel: str) -> None:
    """Refuse what is no grid.

    Raises:
        LaunchLimitError: it has not three extents of 0 to 2^31 - 1.
    """
    if len(grid) != len("xyz") or not all(0 <= extent < 1 << 31 for extent in grid):
        raise LaunchLimitError(
            f"{kernel}: grid {grid}: three extents from 0 to {(1 << 31) - 1} are needed",
            kernel=kernel,
        )
