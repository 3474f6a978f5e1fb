"""Errors of requests whose worker was lost."""

from __future__ import annotations

import dataclasses

from tilec.compile.worker import Compile, Declare, Request
from tilec_runtime.errors import CompileError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Activity:
    """Words for messages about a lost worker."""

    doing: str
    does: str
    slow: str
    faster: str
    crash: str
    silent: str


_RAISE = "raise `timeout` in [toolchain], in seconds"
_READING = _Activity(
    doing="reading",
    does="reads",
    slow="code at the top level of the source is run when it is read, and it waits or does much",
    faster=_RAISE,
    crash="code of the source ends or crashes its process when it is imported",
    silent="it said nothing: look for os._exit and extension modules in what the source imports",
)
_COMPILING = _Activity(
    doing="compiling",
    does="compiles",
    slow="the compiler hangs, or the variant is very large",
    faster=f"{_RAISE}, or exclude the variant from the matrix",
    crash="a bug in the compiler",
    silent="report it with its source",
)


def lost(request: Request, death: str, limit: float, printed: str) -> CompileError:
    """Return the error of a request whose worker died or was killed at its time limit.

    Args:
        request: the request.
        death: the worker's end, such as `was killed by SIGSEGV`; empty for the time limit.
        limit: time limit in seconds.
        printed: the worker's output.
    """
    match request:
        case Declare():
            subject, activity = request.source.path, _READING
        case Compile():
            subject, activity = request.job.id, _COMPILING
        case _:
            died = death or f"did not end within {limit:g} s"
            return CompileError(f"the process that looks at its tools {died}\n{printed}")
    if not death:
        return CompileError(
            f"{subject}: {activity.doing} it did not end within {limit:g} s",
            cause=activity.slow,
            fix=activity.faster,
            log=printed,
            overtime=True,
        )
    cause = activity.crash
    fix = "its last words are in the log" if printed.strip() else activity.silent
    if "SIGKILL" in death:
        cause = "the machine ran out of memory"
        fix = "run fewer jobs at once (`-j`), or make the tile smaller"
    message = f"{subject}: the process that {activity.does} it {death}"
    return CompileError(message, cause=cause, fix=fix, log=printed)
