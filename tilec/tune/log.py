"""The log of a tuning: a header and one JSON line for each trial, appended as it ends."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from pathlib import Path
from typing import Any

from tilec.model.codec import encode
from tilec.tune.trial import Trial, from_line
from tilec_runtime.errors import OutputError, UsageError

VERSION = 4


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


_NAMES = {
    "kernel": "the kernel",
    "kernel_digest": "the kernel's source or options",
    "space_digest": "what is searched (matrix, assumptions or hints)",
    "cases_digest": "the kernel's cases",
    "target": "the target",
    "device": "the device",
    "toolchain": "versions of the compilers",
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
            lines = self.path.read_bytes().split(b"\n")
        except OSError as error:
            message = f"there is nothing to go on with: {self.path}: {error.strerror or error}"
            raise UsageError(message, fix="leave --resume out: tuning then begins anew") from error
        whole, torn = lines[:-1], lines[-1]
        rows = [self._row(number, line) for number, line in enumerate(whole, 1)]
        if not rows:
            raise UsageError(
                f"{self.path} is empty{': its first line was torn off' if torn else ''}", fix=_ANEW
            )
        self._require(rows[0], header)
        trials = []
        for number, row in enumerate(rows[1:], 2):
            try:
                trials.append(from_line(row))
            except ValueError as error:
                raise self._damaged(number, f"it is no trial ({error})") from error
        return tuple(trials)

    def open(self, header: Header, *, keep: bool) -> None:
        """Open the log for writing: append, or start anew and rename an old log to `.old`.

        Raises:
            OutputError: it cannot be written.
            UsageError: another tuning is writing it.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._take()
            if keep:
                data = self.path.read_bytes()
                os.truncate(self.path, data.rfind(b"\n") + 1)  # drop an incomplete line
            elif self.path.exists():
                self.path.replace(self.path.with_suffix(".old"))
            self._file = self.path.open("ab")
            if not keep:
                self._append({"log": VERSION, **encode(header)})
        except OSError as error:
            raise self._unwritable(error) from error

    def add(self, trial: Trial) -> None:
        """Append a trial.

        Raises:
            OutputError: it cannot be written.
        """
        try:
            self._append(encode(trial))
        except OSError as error:
            raise self._unwritable(error) from error

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
                message, fix="wait for it, or end it and go on with --resume"
            ) from error

    def _append(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        self._file.flush()

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except ValueError as error:
            raise self._damaged(number, "it is not JSON") from error
        if not isinstance(row, dict):
            raise self._damaged(number, "it is no object")
        return row

    def _require(self, row: dict[str, Any], header: Header) -> None:
        if row.get("log") != VERSION:
            raise UsageError(
                f"{self.path}:1: version {row.get('log')!r} of the log: this tilec reads version {VERSION}",
                fix=_ANEW,
            )
        changed = [text for name, text in _NAMES.items() if row.get(name) != getattr(header, name)]
        if changed:
            message = f"{self.path} is of another tuning: {', '.join(changed)} changed since"
            raise UsageError(message, fix=_ANEW)

    def _damaged(self, number: int, reason: str) -> UsageError:
        cause = "only a last line can be torn off by a kill: something else wrote to the file"
        return UsageError(
            f"{self.path}:{number}: the log is damaged: {reason}", cause=cause, fix=_ANEW
        )

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(
            f"cannot write the log {self.path}: {error.strerror or error}",
            fix="make room, or make the directory writable",
        )


_ANEW = "leave --resume out: tuning then begins anew, and this log is kept aside as .old"
