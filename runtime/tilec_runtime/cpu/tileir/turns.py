"""A scheduler for blocks that may wait for each other.

Each block runs alone, and yields before each iteration of a loop that waits.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import random
from collections.abc import Callable, Generator, Iterator

from tilec_runtime.cpu.tileir.control import Moment, Pause, Run
from tilec_runtime.cpu.tileir.frame import Frame
from tilec_runtime.cpu.tileir.ir import Op
from tilec_runtime.errors import FaultError

# Rounds without progress after which a deadlock is suspected.
_PATIENCE = 32
# Further rounds that prove it, if the state of no block in flight changes in them.
_PROOF = 8
# Average number of times that a block may run in one round.
_MOVES = 64


@dataclasses.dataclass(kw_only=True, slots=True, eq=False)
class _BlockRun:
    """A block in flight, with the loop in which it waits."""

    frame: Frame
    run: Run
    loop: Op | None = None
    waits: bool = False
    done: bool = False


def take_turns(
    numbers: Iterator[int],
    start: Callable[[int], tuple[Frame, Run]],
    *,
    most: int,
    order: str | int = "forward",
) -> Iterator[Pause]:
    """Run blocks to their end; yield every pause except for those of waiting loops.

    Args:
        numbers: numbers of the blocks, in the order of their start.
        start: creates the frame and the run of a block.
        most: limit of blocks in flight.
        order: order of the blocks within a round, as for `batches`.

    Raises:
        FaultError: all blocks in flight wait, and none can end the wait of another; the message
            names the loop.
    """
    chance = random.Random(order) if isinstance(order, int) else None  # noqa: S311 - an order, no secret
    flight: list[_BlockRun] = []
    idle, same = 0, 0
    states: list[int] = []
    while True:
        for number in itertools.islice(numbers, most - len(flight)):
            frame, run = start(number)
            flight.append(_BlockRun(frame=frame, run=run))
        if not flight:
            return
        turns = flight[::-1] if order == "reverse" else list(flight)
        if chance is not None:
            chance.shuffle(turns)
        if (yield from _round(flight, turns)):
            flight = [turn for turn in flight if not turn.done]
            idle = same = 0
            continue
        idle += 1
        if idle > _PATIENCE:
            before, states = states, [_state(turn.frame) for turn in flight]
            same = same + 1 if states == before else 0
        if same >= _PROOF:
            raise _stuck(flight, most)


def _round(flight: list[_BlockRun], turns: list[_BlockRun]) -> Generator[Pause, None, bool]:
    """Run every block until it waits; return whether any made progress."""
    neighbours = {
        id(turn): flight[max(0, index - 1) : index + 2] for index, turn in enumerate(flight)
    }
    pending = collections.deque(turns)
    moved = False
    for _ in range(_MOVES * len(flight)):
        if not pending:
            break
        turn = pending.popleft()
        if turn.done:
            continue
        turn.waits = not (yield from _resume(turn))
        if not turn.waits:
            moved = True
            # In a chain of waiting blocks, a neighbour waits for this progress.
            pending.extendleft(other for other in neighbours[id(turn)] if other.waits)
    return moved


def _resume(turn: _BlockRun) -> Generator[Pause, None, bool]:
    """Run a block until it waits or ends; return whether it left its waiting loop."""
    for pause in turn.run:
        if pause.moment is not Moment.WAIT:
            yield pause
            continue
        moved = turn.loop is not pause.op
        turn.loop = pause.op
        return moved
    turn.done = True
    turn.frame.flush()
    return True


def _state(frame: Frame) -> int:
    """Return a digest of a block's values."""
    return hash(
        tuple(
            (index, held.tobytes())
            for index, held in frame.values.items()
            if hasattr(held, "tobytes")
        )
    )


def _stuck(flight: list[_BlockRun], most: int) -> FaultError:
    first = flight[0]
    kernel = first.frame.launch.options.kernel
    others = f" and {len(flight) - 1} more" if len(flight) > 1 else ""
    assert first.loop is not None
    return FaultError(
        f"{kernel}: block {first.frame.place(0)}{others} wait in a {first.loop.name} for what no block in flight does",
        cause=f"a lock that is never released, or a wait for a block that has not started: {most} blocks at most are in flight, "
        "in the order of their numbers",
        fix="let blocks wait only for blocks with smaller numbers, or launch no more blocks than run at once",
        kernel=kernel,
        location=first.loop.location,
        block=first.frame.place(0),
    )
