"""A task's way through a cluster: its attempts, and the workers that lost it."""

from __future__ import annotations

import asyncio
import dataclasses
from concurrent.futures import Future

from tilec.compile.pool import Answers, Task
from tilec.compile.worker import Compile


@dataclasses.dataclass(eq=False, slots=True)
class Entry:
    """A task with its future, the workers that lost it, and its attempt at the moment.

    Attributes:
        tree: digest of the files that its requests read.
        attempts: how often it was sent to the cluster.
        tried: addresses of workers that lost it.
        places: how messages call those, as often as they lost it.
        as_bytes: whether the attempt's images come back as bytes.
        allowed: addresses of the workers that may do the attempt.
        begun: addresses of those that have begun it; the latest is the last.
        job: waits for the attempt's end.
        watch: ends the attempt if the worker goes silent.
    """

    number: int
    task: Task
    future: Future[Answers]
    tree: str
    attempts: int = 0
    tried: set[str] = dataclasses.field(default_factory=set)
    places: list[str] = dataclasses.field(default_factory=list)
    as_bytes: bool = False
    allowed: set[str] = dataclasses.field(default_factory=set)
    begun: list[str] = dataclasses.field(default_factory=list)
    job: asyncio.Task[None] | None = None
    watch: asyncio.TimerHandle | None = None

    @property
    def requests(self) -> tuple[Compile, ...]:
        """The task's requests: sources are declared where the build runs."""
        return tuple(one for one in self.task.requests if isinstance(one, Compile))

    def stop(self) -> None:
        """End the attempt."""
        self.rest()
        if self.job:
            self.job.cancel()
        self.job = None

    def rest(self) -> None:
        """Note that no worker is busy with it."""
        if self.watch:
            self.watch.cancel()
        self.watch, self.begun = None, []

    def lost(self, address: str, place: str = "") -> None:
        """Note that a worker lost it."""
        self.tried.add(address)
        self.places.append(place or address)


def where_tried(places: list[str]) -> str:
    """Return the end of a message about a task that was tried at these places."""
    listed = ", ".join(dict.fromkeys(places))
    if not listed:
        return ""
    return f", tried {len(places)} times on {listed}" if len(places) > 1 else f", on {listed}"
