"""The state of a task on a cluster: its attempts, and the workers that lost it."""

from __future__ import annotations

import asyncio
import dataclasses
from concurrent.futures import Future

from tilec.compile.pool import Replies, Task
from tilec.compile.worker import Compile


@dataclasses.dataclass(eq=False, slots=True)
class Entry:
    """A task with its future, its current attempt, and the workers that lost it.

    Attributes:
        tree: digest of the files that its requests read.
        attempts: number of attempts so far.
        tried: addresses of workers that lost it.
        places: names of these workers in messages, one item per loss.
        allowed: addresses of the workers that may run the attempt.
        begun: addresses of the workers that have begun it, the latest at the end.
        job: asyncio task that waits for the attempt's end.
    """

    number: int
    task: Task
    future: Future[Replies]
    tree: str
    attempts: int = 0
    tried: set[str] = dataclasses.field(default_factory=set)
    places: list[str] = dataclasses.field(default_factory=list)
    allowed: set[str] = dataclasses.field(default_factory=set)
    begun: list[str] = dataclasses.field(default_factory=list)
    job: asyncio.Task[None] | None = None

    @property
    def requests(self) -> tuple[Compile, ...]:
        """The task's compile requests; sources are declared on the build's machine."""
        return tuple(one for one in self.task.requests if isinstance(one, Compile))

    def stop(self) -> None:
        """End the attempt."""
        self.rest()
        if self.job:
            self.job.cancel()
        self.job = None

    def rest(self) -> None:
        """Record that no worker is busy with the task."""
        self.begun = []

    def lost(self, address: str, name: str = "") -> None:
        """Record that a worker lost the task."""
        self.tried.add(address)
        self.places.append(name or address)


def where_tried(workers: list[str]) -> str:
    """Return the end of a message about a task that was tried on these workers."""
    listed = ", ".join(dict.fromkeys(workers))
    if not listed:
        return ""
    return f", tried {len(workers)} times on {listed}" if len(workers) > 1 else f", on {listed}"
