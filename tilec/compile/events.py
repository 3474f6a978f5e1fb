"""What happens while jobs run: the outcome of one job, and the observer that progress displays
implement.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

from tilec.compile.blob import Blob
from tilec_runtime.errors import Diagnostic, TilecError
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.signature import AbiSlot


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A job that has its image.

    Attributes:
        info: the image's row of the bundle index.
        abi: the entry point's arguments.
        warnings: what the compiler said besides.
        blob: where the image's bytes lie; they are not held in memory.
        cached: it came from the cache (or from an identical job of the same build).
        seconds: time of the compile, in the build that ran it.
        row: digest of its row in the cache's index, which covers all of the above but where and
            when.
    """

    info: ImageInfo
    abi: tuple[AbiSlot, ...]
    warnings: tuple[Diagnostic, ...]
    blob: Blob
    cached: bool
    seconds: float
    row: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A job that has no image, and why."""

    error: TilecError


Outcome = Done | Failed


class Observer(Protocol):
    """Hears of progress, always in the main thread of the main process; an exception it raises ends
    the build.
    """

    def started(self, total: int, cached: int) -> None:
        """`total` jobs are to be done, `cached` of them are done already: no other event comes for
        those.
        """

    def job_started(self, job_id: str) -> None:
        """A worker got the job."""

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """The job is done; comes once for each job that `started` did not count as cached (also for
        one whose twin was compiled).
        """

    def note(self, text: str) -> None:
        """Something to tell the user that fails nothing, such as a damaged cache entry that is
        rebuilt; each text comes once.
        """

    def finished(self) -> None:
        """Every job has its outcome (not called when the build is interrupted)."""


class SilentObserver:
    """Ignores everything."""

    def started(self, total: int, cached: int) -> None:
        """Ignored."""

    def job_started(self, job_id: str) -> None:
        """Ignored."""

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """Ignored."""

    def note(self, text: str) -> None:
        """Ignored."""

    def finished(self) -> None:
        """Ignored."""
