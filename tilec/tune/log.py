"""The log of a tuning: a header and one JSON line for each trial, appended as it ends."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from pathlib import Path
from typing import Any

from tilec.model.codec import decode, encode
from tilec.tune.trial import Trial
from tilec_runtime.errors import UsageError

VERSION = 5


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """Subject of a log; trials under another header are not reused."""

    kernel: str
    kernel_digest: str
    space_digest: str
    cases_digest: str
    target: str
    device: str
    toolchain: str
    log: int = VERSION


_NAMES = {
    "kernel": "the kernel",
    "kernel_digest": "the kernel's source or options",
    "space_digest": "the search space (matrix, assumptions or hints)",
    "cases_digest": "the kernel's cases",
    "target": "the target",
    "device": "the device",
    "toolchain": "versions of the compilers",
    "log": "the version of logs",
}


class TrialLog:
    """A log on disk.

    Args:
        path: the file; `open` makes it and its directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = None
        self._lock: Any = None

    def read(self, header: Header) -> tuple[Trial, ...]:
        """Return the trials of an interrupted tuning, without an incomplete last line.

        Raises:
            UsageError: there is no log, it has another header, or it is damaged.
        """
        try:
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except OSError as error:
            message = f"there is no log to continue: {self.path}: {error.strerror or error}"
            raise UsageError(message, fix="leave --resume out: tuning then starts again") from error
        if not lines:
            raise UsageError(f"the log {self.path} is empty", fix=_ANEW)
        try:
            first, *rows = map(json.loads, lines)
            changed = [
                text for name, text in _NAMES.items() if first.get(name) != getattr(header, name)
            ]
            trials = () if changed else tuple(decode(Trial, row) for row in rows)
        except (ValueError, AttributeError) as error:
            raise UsageError(f"the log {self.path} is damaged: {error}", fix=_ANEW) from error
        if changed:
            message = f"{self.path} is of another tuning: {', '.join(changed)} changed since"
            raise UsageError(message, fix=_ANEW)
        return trials

    def open(self, header: Header, *, keep: bool) -> None:
        """Open the log for writing: append, or start anew and rename an old log to `.old`.

        Raises:
            OSError: it cannot be written.
            UsageError: another tuning is writing it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._take()
        if keep:
            data = self.path.read_bytes()
            os.truncate(self.path, data.rfind(b"\n") + 1)  # drop an incomplete line
        elif self.path.exists():
            self.path.replace(self.path.with_suffix(".old"))
        self._file = self.path.open("ab")
        if not keep:
            self._append(encode(header))

    def add(self, trial: Trial) -> None:
        """Append a trial.

        Raises:
            OSError: it cannot be written.
        """
        self._append(encode(trial))

    def close(self) -> None:
        """Close the file. May be called more than once."""
        for file in (self._file, self._lock):
            if file is not None:
                file.close()
        self._file = self._lock = None

    def _take(self) -> None:
        """Lock the log against other tunings; the lock ends with the process."""
        self._lock = self.path.with_suffix(".lock").open("wb")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"another tuning of this kernel is running: it writes {self.path}"
            raise UsageError(
                message, fix="wait for it, or end it and continue with --resume"
            ) from error

    def _append(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        self._file.flush()


_ANEW = "leave --resume out: tuning then starts again, and this log is renamed to .old"
