"""A stepper through the operations of a kernel on the cpu device.

Each step gives the source line of an operation, and its tiles as arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilec_runtime.cpu.tileir.check.provenance import Provenance, points
from tilec_runtime.cpu.tileir.control import Moment, Pause
from tilec_runtime.cpu.tileir.elements import UPPER
from tilec_runtime.cpu.tileir.execute import Start
from tilec_runtime.cpu.tileir.frame import DEFAULT, Grid, Options
from tilec_runtime.cpu.tileir.ir import (
    Function,
    Op,
    Pointer,
    TensorView,
    Tile,
    Value,
    View,
    type_text,
)
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.cpu.tileir.text import attribute_text
from tilec_runtime.cpu.tileir.values import Layout, layout
from tilec_runtime.errors import ArgumentError, CallError, Location

if TYPE_CHECKING:
    from typing_extensions import Self

_SHOWN = 6  # elements of a tile in a line


class Places:
    """Formats addresses of one launch: `x+16` is 16 elements after the start of `x`."""

    def __init__(self, function: Function, arguments: Sequence[Any], memory: Memory) -> None:
        """Find the parameter that each pointer derives from.

        Args:
            function: the kernel.
            arguments: arguments of the launch.
            memory: memory of the launch.
        """
        self._memory = memory
        names: list[str] = []
        for parameter, argument in zip(function.body.args, arguments, strict=True):
            names.append(self._own(int(argument), names) if points(parameter) else "")
        self._provenance = Provenance(function, names)

    def _own(self, address: int, used: Sequence[str]) -> str:
        """Return the name of the first unused region that contains an address.

        Several parameters may have the same memory; each has a region with its own name.
        """
        held = [
            region.name for region in self._memory.regions if region.address <= address < region.end
        ]
        return next((name for name in held if name not in used), held[0] if held else "")

    def _region(self, value: Value, address: int) -> MemoryRegion | None:
        names = self._provenance.of_value(value) or ()
        own = (region for region in self._memory.regions if region.name in names)
        return next(own, None) or self._memory.find(address)

    def name(self, value: Value, address: Any, form: Layout) -> str:
        """Return the name of an address; offsets count elements of this layout."""
        address, size = int(address), form.size
        plain = address & ~UPPER if form.packed else address
        region = self._region(value, plain)
        if region is None:
            return f"{address:#x}"
        away = plain - region.address - region.origin
        if form.packed:
            return f"{region.name}{2 * away + (plain != address):+d}"
        return (
            f"{region.name}{away // size:+d}"
            if away % size == 0
            else f"{region.name}{away:+d} bytes"
        )


def words(op: Op) -> str:
    """Format an operation's name and attributes as `cmpi less_than signed`."""
    attributes = (
        attribute_text(op, name)
        for name, value in op.attributes.items()
        if not isinstance(value, bytes)
    )
    return " ".join([op.name, *filter(None, attributes)])


def short(item: Any, value: Value, places: Places) -> str:
    """Format a value other than a token briefly: type, shape and first elements."""
    kind = value.type
    if isinstance(kind, TensorView | View):
        tensor = kind.tensor if isinstance(kind, View) else kind
        where = places.name(value, item.base[0], layout(tensor.element))
        return f"tensor {tuple(item.extents[0].tolist())} at {where}"
    assert isinstance(kind, Tile)
    name = str(item.dtype)
    show: Callable[[Any], str] = _element
    if isinstance(kind.element, Pointer):
        name, form = type_text(kind.element), layout(kind.element.pointee)
        show = functools.partial(places.name, value, form=form)
    if item.ndim == 0:
        return f"{name} {show(item)}"
    first = ", ".join(show(part) for part in item.reshape(-1)[:_SHOWN])
    more = ", ..." if item.size > _SHOWN else ""
    return f"{name}[{'x'.join(map(str, item.shape))}] {first}{more}"


def _element(item: Any) -> str:
    return f"{float(item):.6g}" if np.asarray(item).dtype.kind not in "biu" else str(item)


Coordinates = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Executed:
    """An operation that a block has executed or, if it has regions, will start next.

    Attributes:
        op: the operation.
        block: the block, as (x, y, z).
        operands: contents of the operands by name, without the axis of blocks; None for tokens.
        results: contents of the results; empty if the operation will start next.
        starts: whether the operation will start next.
        places: formats addresses.
    """

    op: Op
    block: Coordinates
    operands: Mapping[str, tuple[Any, ...]]
    results: tuple[Any, ...]
    starts: bool
    places: Places

    @property
    def location(self) -> Location | None:
        """The location in the kernel's source."""
        return self.op.location

    def __str__(self) -> str:
        """Format on one line: location, result numbers, operation, and its tiles in short."""
        names = ", ".join(f"%{result.index}" for result in self.op.results)
        operands = ", ".join(
            f"%{value.index}" for values in self.op.operands.values() for value in values
        )
        text = f"{self.location or '?'}: {f'{names} = ' if names else ''}{words(self.op)} {operands}".rstrip()
        held = zip(self.op.results, self.results, strict=True) if self.results else self._given()
        shown = ", ".join(
            short(item, value, self.places) for value, item in held if item is not None
        )
        return f"{text}  {'<-' if not self.results else '->'} {shown}" if shown else text

    def _given(self) -> Iterator[tuple[Value, Any]]:
        for name, values in self.op.operands.items():
            yield from zip(values, self.operands[name], strict=True)


class Stepper:
    """Steps through the operations of blocks: an iterator and a context manager.

    The blocks write to memory immediately, as in a launch. A launcher on the cpu device creates one
    for the arguments of a call: `with module.add.step(z, x, y, block=(3, 0, 0)) as stepper: ...`.
    """

    def __init__(
        self,
        program: Program,
        arguments: Sequence[Any],
        grid: Grid,
        memory: Memory,
        block: int | Sequence[int] | Sequence[Sequence[int]] = 0,
        options: Options = DEFAULT,
    ) -> None:
        """Step through one block of a launch, or through several in order.

        Other blocks run only if blocks of the kernel may wait for each other; they are not shown.

        Raises:
            ArgumentError: a block is not one to three integers.
            CallError: a block is outside of the grid.
        """
        several = isinstance(block, list | tuple) and all(
            isinstance(one, list | tuple) for one in block
        )
        blocks: Any = block if several else [block]
        chosen = [_number(_coordinates(one), grid) for one in blocks]
        self._start = Start(program, arguments, grid, memory, options, watched=True)
        self._places = Places(program.function, arguments, memory)
        self._pauses = _pauses(self._start, chosen)

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> Executed:
        """Execute up to the next operation and return it."""
        with np.errstate(all="ignore"):
            pause = next(self._pauses)
        return _executed(pause, self._places)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the stepper."""
        self.close()

    def close(self) -> None:
        """Stop without running the rest of the blocks."""
        self._pauses.close()

    def run_to(self, line: int, file: str = "") -> Executed | None:
        """Continue to the next operation of a source line, or return None if none follows.

        `file` may be the end of the file's path.
        """
        for executed in self:
            loc = executed.op.loc
            if loc is not None and loc.line == line and loc.file.endswith(file):
                return executed
        return None

    def parameters(self) -> list[tuple[Value, str]]:
        """Return the entry point's parameters, formatted."""
        held = zip(self._start.program.function.body.args, self._start.values, strict=True)
        return [(value, short(_alone(item), value, self._places)) for value, item in held]


def _coordinates(given: Any) -> Coordinates:
    """Return the three numbers of a block; missing ones are 0."""
    numbers = list(given) if isinstance(given, list | tuple) else [given]
    whole = all(
        isinstance(number, int | np.integer) and not isinstance(number, bool) for number in numbers
    )
    if not whole or not 1 <= len(numbers) <= 3:
        raise ArgumentError(
            f"block is {given!r}", fix="give one to three whole numbers: 3, or (3, 0, 0)"
        )
    x, y, z = (*map(int, numbers), 0, 0)[:3]
    return x, y, z


def _pauses(start: Start, chosen: list[int]) -> Generator[Pause]:
    if start.program.waits:
        for pause in start.turns():
            if int(pause.frame.blocks[0]) in chosen:
                pause.frame.say()  # print before the operation is shown
                yield pause
        return
    for number in chosen:
        frame = start.frame(np.array([number]))
        try:
            for pause in start.program.code.run(frame):
                frame.say()
                yield pause
        finally:
            frame.flush()


def _executed(pause: Pause, places: Places) -> Executed:
    op, frame = pause.op, pause.frame
    starts = pause.moment is Moment.BEFORE
    return Executed(
        op=op,
        block=frame.place(0),
        operands={
            name: tuple(_alone(frame.get(value)) for value in values)
            for name, values in op.operands.items()
        },
        results=() if starts else tuple(_alone(frame.get(result)) for result in op.results),
        starts=starts,
        places=places,
    )


def _alone(held: Any) -> Any:
    """Return a value of a frame with a single block, without the axis of blocks."""
    return held[0, ...] if isinstance(held, np.ndarray) else held


def _number(block: Coordinates, grid: Grid) -> int:
    if not all(0 <= index < extent for index, extent in zip(block, grid, strict=True)):
        count = math.prod(grid)
        raise CallError(
            f"block {block} is not of the grid {grid}",
            fix="there are no blocks" if not count else "blocks count from (0, 0, 0)",
        )
    return block[0] + grid[0] * (block[1] + grid[1] * block[2])
