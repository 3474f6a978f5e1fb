"""Bounds of a run: passes of loops, a request to stop, and what the blocks of one batch have printed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tilec_runtime.cpu.tileir.faults import block_of, location
from tilec_runtime.cpu.tileir.frame import Frame, Launch
from tilec_runtime.cpu.tileir.ir import Op
from tilec_runtime.cpu.tileir.memory import Region
from tilec_runtime.cpu.tileir.values import Array
from tilec_runtime.errors import FaultError, InternalError, TilecError


@dataclasses.dataclass(kw_only=True, slots=True, eq=False)
class Batch:
    """What a batch of blocks has used up.

    Attributes:
        launch: what all blocks share.
        steps: most passes of loops. passes: passes so far.
        cancelled: asked at each pass whether to stop.
        printed: pieces of text with the number of the block that each is from.
        turns: whether loops that wait for other blocks hand on to them.
        allocated: memory of these blocks' own, and the address of each block's by the number of the operation that asked for it.
    """

    launch: Launch
    steps: int
    cancelled: Callable[[], bool] | None = None
    passes: int = 0
    printed: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    turns: bool = False
    allocated: tuple[list[Region], dict[int, dict[int, int]]] = dataclasses.field(default_factory=lambda: ([], {}))

    def count(self, op: Op, frame: Frame) -> None:
        """One more pass of a loop.

        Raises:
            FaultError: there were too many, or somebody asked to stop.
        """
        self.passes += 1
        if self.passes > self.steps:
            raise fault(
                op,
                frame,
                0,
                f"still running after {self.steps:,} passes of its loops",
                cause="a loop whose end never comes, or far more work than the limit allows",
                fix="look at the loop's condition; where the kernel does need more, raise the limit of steps (--steps)",
            )
        if self.cancelled is not None and self.cancelled():
            raise stopped(self.launch.kernel, op)

    def flush(self, blocks: Array) -> None:
        """The blocks are done: free their own memory, and hand over what they printed, by block in the order of the batch's blocks."""
        regions, addresses = self.allocated
        for region in regions:
            self.launch.memory.discard(region)
        regions.clear()
        addresses.clear()
        self.say(blocks)

    def say(self, blocks: Array) -> None:
        """Hand over what these blocks printed, by block in their order."""
        if self.printed:
            order = {block: place for place, block in enumerate(blocks.tolist())}
            texts = [text for _, text in sorted(self.printed, key=lambda piece: order[piece[0]])]
            self.printed.clear()
            self.launch.output("".join(texts))


def fault(op: Op, frame: Frame, row: int, what: str, *, cause: str = "", fix: str = "") -> FaultError:
    """An error of one block of a batch; `what` is put behind the kernel, the operation and the block."""
    block = block_of(frame, row)
    kernel = frame.launch.kernel
    return FaultError(
        f"{kernel}: {op.name} in block {block}: {what}", cause=cause, fix=fix, kernel=kernel, location=location(op), block=block
    )


def unexpected(error: Exception, op: Op | None, frame: Frame) -> TilecError:
    """What an operation's failure is that nobody foresaw."""
    kernel, name = frame.launch.kernel, op.name if op else "an operation"
    where = location(op) if op else None
    if isinstance(error, MemoryError):
        return FaultError(
            f"{kernel}: no memory is left for {name}",
            cause=f"{frame.size} blocks run together, and their tiles do not fit",
            fix="let fewer blocks run together",
            kernel=kernel,
            location=where,
        )
    return InternalError(
        f"{kernel}: {name} failed in the interpreter: {type(error).__name__}: {error}",
        fix="report this with the kernel's Tile IR",
        kernel=kernel,
        location=where,
    )


def stopped(kernel: str, op: Op | None = None) -> FaultError:
    """What ends a launch that somebody asked to stop."""
    return FaultError(f"{kernel}: stopped on request before it was done", kernel=kernel, location=location(op) if op else None)
