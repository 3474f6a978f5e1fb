"""Executes a kernel on the CPU: all blocks of a grid in batches, on given memory."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.blocks import batches
from tilec_runtime.cpu.tileir.control import Pause, Run, finish
from tilec_runtime.cpu.tileir.faults import stopped
from tilec_runtime.cpu.tileir.frame import DEFAULT, Frame, Grid, Launch, Options
from tilec_runtime.cpu.tileir.ir import Pointer, Scalar, Tile, Value
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.cpu.tileir.turns import take_turns
from tilec_runtime.cpu.tileir.values import Array, storage

# Numbers of blocks that take turns are generated in chunks of this size.
_CHUNK = 4096


def execute(
    program: Program,
    arguments: Sequence[Any],
    grid: Grid,
    memory: Memory,
    options: Options = DEFAULT,
) -> None:
    """Run every block of a grid.

    The launch has already checked the arguments and the grid.

    Args:
        program: prepared kernel.
        arguments: one per parameter, an address or a number.
        grid: blocks along x, y and z; an empty grid is allowed.
        memory: memory that the kernel may access, besides its variables.
        options: options of the interpreter.

    Raises:
        FaultError: the kernel performed an invalid operation; the message gives operation, block
            and location.
    """
    start = Start(program, arguments, grid, memory, options)
    with np.errstate(all="ignore"):
        if program.waits:
            collections.deque(start.turns(), maxlen=0)
            return
        for blocks in batches(grid, options.batch or program.footprint.batch, options.order):
            frame = start.frame(blocks)
            try:
                finish(program.code, frame)
            finally:
                frame.flush()


class Start:
    """The start of a launch, which creates the frames of its blocks.

    Attributes:
        program: prepared kernel.
        launch: state of the launch.
        values: values of the parameters.
    """

    def __init__(
        self,
        program: Program,
        arguments: Sequence[Any],
        grid: Grid,
        memory: Memory,
        options: Options,
        *,
        watched: bool = False,
    ) -> None:
        """Set up the state that all blocks share; `watched` is as for `Launch`."""
        variables = program.variables
        if not options.kernel:
            options = dataclasses.replace(options, kernel=program.name)
        self.program = program
        self.values = tuple(map(_held, program.function.body.args, arguments))
        self.launch = Launch(
            options=options,
            grid=grid,
            memory=Memory((*memory.regions, *variables)) if variables else memory,
            globals={region.name: region.address for region in variables},
            watched=watched,
        )

    def frame(self, blocks: Array) -> Frame:
        """Create a frame for some blocks, with the arguments set.

        Raises:
            FaultError: a stop was requested.
        """
        options = self.launch.options
        if options.cancelled is not None and options.cancelled():
            raise stopped(options.kernel)
        frame = Frame(self.launch, blocks)
        for parameter, held in zip(self.program.function.body.args, self.values, strict=True):
            frame.set(parameter, held)
        return frame

    def turns(self) -> Iterator[Pause]:
        """Run all blocks in turns, since they may wait for each other; yield every pause."""
        numbers = itertools.chain.from_iterable(
            blocks.tolist() for blocks in batches(self.launch.grid, _CHUNK, "forward")
        )
        flight = self.program.footprint.flight
        return take_turns(numbers, self._start_block, most=flight, order=self.launch.options.order)

    def _start_block(self, number: int) -> tuple[Frame, Run]:
        frame = self.frame(np.array([number]))
        return frame, self.program.code.run(frame)


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
