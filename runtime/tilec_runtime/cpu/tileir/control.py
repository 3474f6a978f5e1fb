"""Control flow of a batch of blocks.

Code runs for the whole batch. The batch is split if blocks diverge, and joined again.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tilec_runtime.cpu.tileir.faults import fault, stopped, unexpected
from tilec_runtime.cpu.tileir.frame import Frame, Step, whole
from tilec_runtime.cpu.tileir.ir import Op, Value
from tilec_runtime.cpu.tileir.values import Rows, join, take
from tilec_runtime.errors import TilecError


class Exit(enum.Enum):
    """The operation by which blocks leave code."""

    YIELD = "yield"
    CONTINUE = "continue"
    BREAK = "break"
    RETURN = "return"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Leave:
    """Blocks that left code, with their exit, rows and values.

    The rows are those of the code's frame; None means all.
    """

    exit: Exit
    rows: Rows | None
    values: tuple[Any, ...]


class Moment(enum.Enum):
    """The reason of a pause."""

    BEFORE = "before"  # before an operation with regions
    AFTER = "after"  # after an operation
    WAIT = "wait"  # before the next iteration of a loop that waits for other blocks


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Pause:
    """The position at which a run has paused until it is resumed."""

    moment: Moment
    op: Op
    frame: Frame


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Onward:
    """Blocks that continue after a control operation.

    `frame` is their frame, `rows` their rows in the operation's frame (None: all).
    """

    frame: Frame
    rows: Rows | None = None


Run: TypeAlias = "Generator[Pause, None, list[Leave]]"
Passage: TypeAlias = "Generator[Pause, None, tuple[Onward | None, list[Leave]]]"
# Runs an operation that may split the batch; returns the blocks that continue, and those that left
# the enclosing code.
Control: TypeAlias = Callable[[Frame], Passage]


class Code:
    """The operations of a block: runs of steps, each before a control operation."""

    __slots__ = ("_exit", "_ops", "_parts", "_values")

    def __init__(
        self,
        parts: Sequence[tuple[tuple[Step, ...], Control | None]],
        way: Exit,
        values: tuple[Value, ...],
        ops: Mapping[Step | Control, Op],
    ) -> None:
        self._parts = tuple(parts)
        self._ops = ops
        self._exit = way
        self._values = values

    def run(self, frame: Frame) -> Run:
        """Run on a batch whose arguments are set; return the exits of its blocks."""
        left: list[Leave] = []
        rows: Rows | None = None
        watched = frame.launch.watched
        for steps, control in self._parts:
            try:
                for step in steps:
                    step(frame)
                    if watched and step in self._ops:
                        yield Pause(Moment.AFTER, self._ops[step], frame)
            except TilecError:
                raise
            except Exception as exc:
                raise unexpected(exc, self._ops.get(step), frame) from exc
            if control is None:
                continue
            if watched:
                yield Pause(Moment.BEFORE, self._ops[control], frame)
            onward, leaves = yield from control(frame)
            left.extend(_relocated(leaves, rows))
            if onward is None:
                return left
            if onward.rows is not None:
                rows = onward.rows if rows is None else rows[onward.rows]
            frame = onward.frame
        left.append(Leave(self._exit, rows, tuple([frame.get(value) for value in self._values])))
        return left


def branch(op: Op, then: Code, otherwise: Code) -> Control:
    """Build an `if`."""
    condition, results = op.operand("condition"), op.results

    def control(frame: Frame) -> Passage:
        held = frame.get(condition)
        if bool(held[0]) if held.shape[0] == 1 else bool(held.all()):
            leaves = yield from then.run(frame)
        elif held.shape[0] == 1 or not held.any():
            leaves = yield from otherwise.run(frame)
        else:
            yes, no = np.flatnonzero(held), np.flatnonzero(~held)
            first = yield from then.run(frame.narrow(yes))
            second = yield from otherwise.run(frame.narrow(no))
            leaves = _relocated(first, yes) + _relocated(second, no)
        return _settle(frame, leaves, Exit.YIELD, results)

    return control


def loop(op: Op, body: Code, waits: bool) -> Control:
    """Build a `loop`, which runs until its blocks break or return, or a `for`.

    The blocks of a `for` may have different numbers of iterations.
    """
    init, results = op.operands.get("init", ()), op.results
    counts = op.name == "for"
    arguments = op.regions[0].args

    def control(frame: Frame) -> Passage:
        going = _Going(frame, tuple([frame.get(value) for value in init]))
        counter = _Counter(op, frame) if counts else None
        done = 0
        while True:
            if counter is not None and not counter.goes_on(done, going):
                return _settle(frame, going.left, Exit.BREAK, results)
            current = going.current
            _count(op, current)
            if waits:
                yield Pause(Moment.WAIT, op, current)
            if counter is not None:
                current.set(arguments[0], counter.at(done, going.rows))
            for argument, held in zip(arguments[counts:], going.carried, strict=True):
                current.set(argument, held)
            leaves = yield from body.run(current)
            if not going.follow(leaves):
                return _settle(frame, going.left, Exit.BREAK, results)
            done += 1

    return control


def _count(op: Op, frame: Frame) -> None:
    """Count one iteration of a loop.

    Raises:
        FaultError: the batch exceeds its limit of iterations, or a stop was requested.
    """
    options, batch = frame.launch.options, frame.batch
    batch.passes += 1
    if batch.passes > options.steps:
        raise fault(
            op,
            frame,
            0,
            f"still running after {options.steps:,} passes of its loops",
            cause="a loop whose end never comes, or far more work than the limit allows",
            fix="look at the loop's condition; where the kernel does need more, raise the limit of steps (--steps)",
        )
    if options.cancelled is not None and options.cancelled():
        raise stopped(options.kernel, op)


def finish(code: Code, frame: Frame) -> tuple[Any, ...]:
    """Run code that ends in a plain `yield`; return the values.

    Pauses are ignored.
    """
    run = code.run(frame)
    while True:
        try:
            next(run)
        except StopIteration as end:
            return _meet(end.value, frame.size)[1]


class _Going:
    """The blocks of a batch that are still in a loop.

    Attributes:
        current: frame of these blocks.
        rows: their rows in the loop's frame, None for all.
        carried: values for the next iteration.
        left: blocks that have left; BREAK also stands for the regular end of the loop.
    """

    __slots__ = ("_frame", "carried", "current", "left", "rows")

    def __init__(self, frame: Frame, carried: tuple[Any, ...]) -> None:
        self._frame = frame
        self.current = frame
        self.rows: Rows | None = None
        self.carried = carried
        self.left: list[Leave] = []

    def follow(self, leaves: list[Leave]) -> bool:
        """Process the exits of an iteration; return False if no block continues."""
        if len(leaves) == 1 and leaves[0].rows is None and leaves[0].exit is Exit.CONTINUE:
            self.carried = leaves[0].values
            return True
        on = [leave for leave in leaves if leave.exit is Exit.CONTINUE]
        self.left += _relocated(
            [leave for leave in leaves if leave.exit is not Exit.CONTINUE], self.rows
        )
        if not on:
            return False
        size = self.current.size
        rows, self.carried = _meet(on, size)
        if rows is not None:
            self._narrow(rows)
        return True

    def finish(self, more: Any) -> bool:
        """Remove the blocks that have done all iterations; return False if none is left.

        `more` tells, for each block of the loop's frame or for all at once, whether it continues.
        """
        alive = more if self.rows is None else take(more, self.rows)
        stay = whole(alive, self.current.size)
        if stay.all():
            return True
        if not stay.any():
            self.left.append(Leave(Exit.BREAK, self.rows, self.carried))
            return False
        ended, on = np.flatnonzero(~stay), np.flatnonzero(stay)
        self.left += _relocated(
            [Leave(Exit.BREAK, ended, tuple([take(held, ended) for held in self.carried]))],
            self.rows,
        )
        self.carried = tuple([take(held, on) for held in self.carried])
        self._narrow(on)
        return True

    def _narrow(self, rows: Rows) -> None:
        # Narrow the loop's own frame: narrowing the current one would build a chain of frames, slow
        # and finally too deep for recursion.
        self.rows = rows if self.rows is None else self.rows[rows]
        self.current = self._frame.narrow(self.rows)


def _relocated(leaves: list[Leave], rows: Rows | None) -> list[Leave]:
    """Translate rows of a frame narrowed to `rows` to rows of its parent frame."""
    if rows is None:
        return leaves
    return [
        Leave(leave.exit, rows if leave.rows is None else rows[leave.rows], leave.values)
        for leave in leaves
    ]


def _settle(
    frame: Frame, leaves: list[Leave], wanted: Exit, results: tuple[Value, ...]
) -> tuple[Onward | None, list[Leave]]:
    """Set the results of a control operation from the blocks that left it by `wanted`.

    Blocks with another exit also leave the enclosing code.
    """
    if len(leaves) == 1 and leaves[0].rows is None and leaves[0].exit is wanted:
        for result, held in zip(results, leaves[0].values, strict=True):
            frame.set(result, held)
        return Onward(frame), []
    others = [leave for leave in leaves if leave.exit is not wanted]
    mine = [leave for leave in leaves if leave.exit is wanted]
    if not mine:
        return None, others
    rows, values = _meet(mine, frame.size)
    onward = Onward(frame) if rows is None else Onward(frame.narrow(rows), rows)
    for result, held in zip(results, values, strict=True):
        onward.frame.set(result, held)
    return onward, others


def _meet(leaves: list[Leave], size: int) -> tuple[Rows | None, tuple[Any, ...]]:
    """Join blocks of several exits; return sorted rows and values.

    Rows are None for all blocks.
    """
    if len(leaves) == 1:
        rows = leaves[0].rows
        return (None if rows is None or len(rows) == size else rows), leaves[0].values
    parts = [leave.rows for leave in leaves if leave.rows is not None]
    assert len(parts) == len(leaves)
    rows = np.sort(np.concatenate(parts))
    complete = len(rows) == size
    places = parts if complete else [np.searchsorted(rows, part) for part in parts]
    values = tuple(
        [
            join(list(items), places, len(rows))
            for items in zip(*[leave.values for leave in leaves], strict=True)
        ]
    )
    return (None if complete else rows), values


class _Counter:
    """The range of a `for`, computed without overflow."""

    __slots__ = ("_bound", "_lower", "_step", "_trips")

    def __init__(self, op: Op, frame: Frame) -> None:
        unsigned = bool(op.attributes.get("unsigned_cmp"))
        lower, upper, step = (frame.get(op.operand(name)) for name in ("lower", "upper", "step"))
        bad = step == 0 if unsigned else step <= 0
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise fault(
                op, frame, row, f"the step of the loop is {int(step[row])}; it must be positive"
            )
        low, high, by = (_integers(held, unsigned) for held in (lower, upper, step))
        self._trips = np.where(
            low < high, (high - low + by - 1) // by, 0
        )  # number of iterations of each block
        self._bound = int(self._trips.min())
        self._lower, self._step = lower, step

    def goes_on(self, done: int, going: _Going) -> bool:
        """Remove the blocks that have done all iterations; return False if none is left."""
        if done < self._bound:
            return True
        if not going.finish(self._trips > done):
            return False
        self._bound = int(
            self._trips.min() if going.rows is None else take(self._trips, going.rows).min()
        )
        return True

    def at(self, done: int, rows: Rows | None) -> Any:
        """Return the counter of an iteration.

        It fits its type like the range does, so wrapping arithmetic is exact.
        """
        lower, step = (
            (self._lower, self._step)
            if rows is None
            else (take(self._lower, rows), take(self._step, rows))
        )
        return lower + step * np.array(done, np.int64).astype(lower.dtype)


def _integers(held: Any, unsigned: bool) -> Any:
    """Convert to integers wide enough for the difference of two bounds."""
    if unsigned:
        held = held.view(held.dtype.str.replace("i", "u"))
    return held.astype(np.int64) if held.dtype.itemsize < 8 else held.astype(object)
