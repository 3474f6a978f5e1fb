"""A project's working directory `.tilec`: the build lock, and folders for builds.

Its contents are not trusted.
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


class WorkDir:
    """The directory `.tilec` of a project.

    It is created on the first write, and git ignores it.

    Args:
        root: the project's directory.

    Raises:
        LinkError: `.tilec`, or a path that tilec writes in it, is a link that leaves the project.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.path = contained(root, NAME)
        self.spool = self.file(
            f"spool-{os.getpid()}"
        )  # one per process, since two commands may run at once
        self.kept = self.file("failed")

    def file(self, *parts: str) -> Path:
        """Return the path of a file or folder in `.tilec`.

        Raises:
            LinkError: a link in the path leaves the project.
        """
        return contained(self._root, Path(NAME, *parts))

    @contextlib.contextmanager
    def lock(self, note: Callable[[str], None]) -> Iterator[None]:
        """Hold the project's build lock.

        Other builds wait for it. It ends with the process.

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
        """Create the directory with a .gitignore.

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
        """Remove spool directories of killed processes."""
        for left in self.path.glob("spool-*"):
            pid = left.name.partition("-")[2]
            if pid.isdigit() and not Path("/proc", pid).exists():
                shutil.rmtree(left, ignore_errors=True)
