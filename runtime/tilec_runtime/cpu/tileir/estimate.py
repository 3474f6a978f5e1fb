"""How much work a launch is, before it starts."""

from __future__ import annotations

import dataclasses
import math

from tilec_runtime.cpu.tileir.frame import Grid
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.errors import LaunchLimitError

# Elements that NumPy computes in a second, and what an operation costs however small its tile: both of a slow core.
_RATE = 300e6
_CALL = 3e-6


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What a launch comes to.

    Attributes:
        blocks: of the grid. batch: how many of them run together.
        elements: that all operations compute, each loop's body counted once.
        memory: bytes of the tiles of one batch, at most.
        seconds: about how long it takes on one core, at least.
        loops: whether there are loops, so that elements and seconds are lower bounds.
    """

    blocks: int
    batch: int
    elements: int
    memory: int
    seconds: float
    loops: bool

    def __str__(self) -> str:
        """In a few words."""
        least = "at least " if self.loops else "about "
        return f"{self.blocks:,} blocks, {least}{self.elements:.3g} elements and {duration(self.seconds)}"


def estimate(program: Program, grid: Grid, batch: int = 0) -> Estimate:
    """Estimate a launch on a grid; `batch` as in `Options`."""
    blocks = math.prod(grid)
    each = program.footprint
    together = min(batch or each.batch, max(blocks, 1))
    elements = blocks * each.elements
    seconds = elements / _RATE + -(-blocks // together) * each.calls * _CALL
    memory = together * each.total
    return Estimate(blocks=blocks, batch=together, elements=elements, memory=memory, seconds=seconds, loops=each.loops)


def refuse_huge(program: Program, grid: Grid, batch: int, most: int, kernel: str) -> None:
    """Refuse a launch that computes more than `most` elements.

    Raises:
        LaunchLimitError: it does; says how much it is.
    """
    found = estimate(program, grid, batch)
    if found.elements > most:
        raise LaunchLimitError(
            f"{kernel}: grid {grid} is too much for the cpu device: {found}; the limit is {most:.3g} elements",
            cause="a grid that is meant for a GPU",
            fix="launch on a smaller problem, or raise the limit of elements",
            kernel=kernel,
        )


def duration(seconds: float) -> str:
    """A time as people say it."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1000:.0f} ms"
