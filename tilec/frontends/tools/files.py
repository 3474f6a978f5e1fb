"""Read a project's files, and make errors at a line of one."""

from __future__ import annotations

import posixpath
from pathlib import Path

from tilec.model.inside import contained
from tilec_runtime.errors import CompileError, Diagnostic, LinkError, Location


def fault(
    path: str,
    message: str,
    *,
    line: int = 1,
    cause: str = "",
    fix: str = "",
    log: str = "",
    command: str = "",
    overtime: bool = False,
) -> CompileError:
    """Return an error at a line of a file."""
    place = Diagnostic(message=message, location=Location(file=path, line=line), hint=fix)
    return CompileError(
        f"{path}: {message}",
        diagnostics=(place,),
        cause=cause,
        fix=fix,
        log=log,
        command=command,
        overtime=overtime,
    )


def within(root: str, name: str) -> str:
    """Return `name` normalised.

    Raises:
        CompileError: it leaves the project once all links are followed.
    """
    try:
        contained(root, name)
    except LinkError as error:
        raise fault(
            name,
            "the file lies outside of the project",
            line=0,
            cause=error.what,
            fix="copy the file into the project: a build depends on files of the project only",
        ) from error
    return posixpath.normpath(name)


def read(root: str, name: str) -> bytes:
    """Return the bytes of a file, given by its name relative to the project.

    Raises:
        CompileError: it cannot be read.
    """
    try:
        return Path(root, name).read_bytes()
    except OSError as exc:
        message = f"cannot be read: {exc.strerror or exc}"
        raise fault(name, message, line=0, fix="see that the file is there and readable") from exc
