"""Outcomes of compile jobs, and the observer interface of progress displays."""

from __future__ import annotations

import dataclasses
import os

from tilec_runtime.errors import CacheError, Diagnostic, TilecError
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import Image, ImageInfo
from tilec_runtime.model.signature import AbiSlot


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """A reference to an image's bytes: file, offset, size, and their SHA-256.

    Builds pass blobs instead of bytes, so that the main process has one image in memory at a time.
    """

    path: str
    offset: int
    size: int
    digest: str

    def read(self) -> bytes:
        """Return the bytes.

        Raises:
            CacheError: the file is damaged, or missing because another process cleared the cache.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with os.fdopen(fd, "rb") as file:
                file.seek(self.offset)
                data = file.read(self.size)
        except OSError as exc:
            raise CacheError(
                f"a compiled image cannot be read back: {exc.strerror}: {self.path}",
                cause="the cache was emptied while the build was running",
                fix="run the build again",
            ) from exc
        if len(data) != self.size or sha256(data) != self.digest:
            raise CacheError(
                f"a compiled image is damaged: {self.path}",
                cause="the disk or another program changed the file",
                fix="run the build again; `tilec cache clear` empties the cache",
            )
        return data


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A job with its image.

    Attributes:
        info: index entry of the image.
        abi: arguments of the entry point.
        warnings: warnings of the compiler.
        blob: reference to the image's bytes.
        cached: whether the image came from the cache.
        seconds: compile time in this build; 0 if the cache had the image.
        row: SHA-256 of the image's index row, which covers `info`, `abi` and `warnings`.
    """

    info: ImageInfo
    abi: tuple[AbiSlot, ...]
    warnings: tuple[Diagnostic, ...]
    blob: Blob
    cached: bool
    seconds: float
    row: str = ""

    def image(self, data: bytes) -> Image:
        """Return the image, with its bytes."""
        return Image(info=self.info, data=data, abi=self.abi, warnings=self.warnings)


Outcome = Done | TilecError


class Observer:
    """Receives the progress of a build in its main thread; this one ignores it.

    An exception ends the build.
    """

    def started(self, total: int, cached: int) -> None:
        """Called first; `cached` of the `total` jobs are done and cause no other event."""

    def job_started(self, job_id: str) -> None:
        """Called when a worker gets the job."""

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """Called once with the outcome of each job that was not cached in `started`."""

    def note(self, text: str) -> None:
        """Show the user a text about a problem that is no error; each text comes once."""

    def finished(self) -> None:
        """Called after all outcomes, unless the build is interrupted."""
