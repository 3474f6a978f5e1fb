"""Errors of lost workers, and the files of failed jobs."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.model.job import Job
from tilec_runtime.errors import CompileError
from tilec_runtime.model.digest import sha256

if TYPE_CHECKING:
    from tilec.compile.pool import Answer


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """Words for messages about a lost worker."""

    doing: str
    does: str
    slow: str
    faster: str
    crash: str
    silent: str


_RAISE = "raise `timeout` in [toolchain], in seconds"
READING = Activity(
    doing="reading",
    does="reads",
    slow="code at the top level of the source is run when it is read, and it waits or does much",
    faster=_RAISE,
    crash="code of the source ends or crashes its process when it is imported",
    silent="it said nothing: look for os._exit and extension modules in what the source imports",
)
COMPILING = Activity(
    doing="compiling",
    does="compiles",
    slow="the compiler hangs, or the variant is very large",
    faster=f"{_RAISE}, or exclude the variant from the matrix",
    crash="a bug in the compiler",
    silent="report it with its source",
)


def lost(answer: Answer, subject: str, limit: float, activity: Activity) -> CompileError:
    """Return the error of a request whose worker died or was killed at its time limit."""
    from tilec.compile.pool import Lost

    assert isinstance(answer.reply, Lost)
    death, where, printed = answer.reply.death, answer.reply.where, answer.printed
    if not death:
        return CompileError(
            f"{subject}: {activity.doing} it did not end within {limit:g} s{where}",
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
    message = f"{subject}: the process that {activity.does} it {death}{where}"
    return CompileError(message, cause=cause, fix=fix, log=printed)


def failure_folder(kept: Path, job: Job) -> Path:
    """Return the directory for files of a failed job, named by its id in a safe form."""
    name = re.sub(r"[^A-Za-z0-9._+=,-]", "_", job.id)
    if name != job.id or len(name) > 200 or name.startswith("."):
        name = f"{name[:180].lstrip('.')}-{sha256(job.id.encode('utf-8', 'surrogatepass'))[:12]}"
    return kept / name


def keep_failure(kept: Path, job: Job, error: CompileError, printed: str) -> None:
    """Write log, command and source of a failed job; set `error.kept` to the folder.

    Raises:
        OSError: the files cannot be written.
    """
    folder = failure_folder(kept, job)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = error.log
    if printed.strip() not in log:
        log = f"{log}\n--- printed meanwhile ---\n{printed}".lstrip("\n")
    (folder / "log.txt").write_text(f"{error}\n\n{log}\n", encoding="utf-8", errors="replace")
    if error.command:
        (folder / "command.txt").write_text(
            f"{error.command}\n", encoding="utf-8", errors="replace"
        )
    source = Path(job.spec.source.root, job.spec.source.path)
    if source.is_file():
        shutil.copyfile(source, folder / source.name)
    error.kept = str(folder)
