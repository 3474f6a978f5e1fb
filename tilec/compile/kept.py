"""Keeps the input, the command line and the log of a job that failed, for the user to look at."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tilec.model.job import Job
from tilec_runtime.errors import CompileError
from tilec_runtime.model.digest import sha256

_UNSAFE = re.compile(r"[^A-Za-z0-9._+=,-]")


def folder(kept: Path, job: Job) -> Path:
    """Where the files of a job go: its id, with whatever no file name should have replaced."""
    name = _UNSAFE.sub("_", job.id)
    if name != job.id or len(name) > 200 or name.startswith("."):
        name = f"{name[:180].lstrip('.')}-{sha256(job.id.encode('utf-8', 'surrogatepass'))[:12]}"
    return kept / name


def keep(kept: Path, job: Job, error: CompileError, printed: str) -> None:
    """Write log.txt, command.txt and a copy of the source, and set `error.kept` to their directory;
    `printed` is what the worker printed.

    Raises:
        OSError: they cannot be written.
    """
    place = folder(kept, job)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    log = (
        error.log
        if printed.strip() in error.log
        else f"{error.log}\n--- printed meanwhile ---\n{printed}".lstrip("\n")
    )
    (place / "log.txt").write_text(f"{error}\n\n{log}\n", encoding="utf-8", errors="replace")
    if error.command:
        (place / "command.txt").write_text(f"{error.command}\n", encoding="utf-8", errors="replace")
    source = Path(job.spec.source.root, job.spec.source.path)
    if source.is_file():
        shutil.copyfile(source, place / source.name)
    error.kept = str(place)


def forget(kept: Path, job: Job) -> None:
    """Remove what an earlier failure of the job left."""
    place = folder(kept, job)
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
