"""A project's working directory `.tilec`: the lock, and folders for builds.

Nothing in it is believed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tilec.model.atomic import output_error
from tilec.model.inside import contained
from tilec_runtime.errors import OutputError

NAME = ".tilec"
ENDED = "ended"


class WorkDir:
    """`.tilec` in a project's directory, made on the first write and ignored by git.

    Args:
        root: the project's directory.

    Raises:
        LinkError: `.tilec`, or what tilec writes in it, is a link that leaves the project.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.path = contained(root, NAME)
        self.spool = self.file(
            f"spool-{os.getpid()}"
        )  # of this process alone: two commands may run at once
        self.kept = self.file("failed")

    def file(self, *parts: str) -> Path:
        """Return the path of a file or folder in `.tilec`.

        Raises:
            LinkError: a link on the way leaves the project.
        """
        return contained(self._root, Path(NAME, *parts))

    @contextlib.contextmanager
    def lock(self, note: Callable[[str], None]) -> Iterator[None]:
        """Hold the project's build lock; other builds wait. It ends with the process.

        Raises:
            LinkError: the lock is a link that leaves the project.
            OutputError: the project's directory cannot be written.
        """
        self.ignore()
        path = self.file("lock")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            raise self._unusable(exc) from exc
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                note("another build of this project is running: waiting for it")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError:
                note(
                    f"{self.path} is on a file system without locks: do not run two builds of this project at once"
                )
            self._sweep()
            yield
        finally:
            os.close(descriptor)

    def ignore(self) -> None:
        """Make the directory with a .gitignore.

        Raises:
            LinkError: its .gitignore is a link that leaves the project.
            OutputError: the project's directory cannot be written.
        """
        ignore = self.file(".gitignore")
        try:
            self.path.mkdir(exist_ok=True)
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
        except OSError as exc:
            raise self._unusable(exc) from exc

    def note_end(self) -> None:
        """Set the time of a file that tells an interrupted build that its outputs are in place."""
        with contextlib.suppress(OSError):
            self.file(ENDED).touch()

    def _unusable(self, exc: OSError) -> OutputError:
        if self.path.exists() and not self.path.is_dir():
            return OutputError(
                f"{self.path} is a file, where tilec keeps what it knows of the last build",
                fix="remove it, or rename it",
            )
        error = output_error(self.path, exc)
        fix = (
            error.fix
            if exc.errno in (errno.ENOSPC, errno.EDQUOT)
            else "make the project's directory writable, or build a copy of it"
        )
        return OutputError(error.what, cause=error.cause, fix=fix)

    def _sweep(self) -> None:
        """Remove what killed processes left."""
        for left in self.path.glob("spool-*"):
            pid = left.name.partition("-")[2]
            if pid.isdigit() and not Path("/proc", pid).exists():
                shutil.rmtree(left, ignore_errors=True)
