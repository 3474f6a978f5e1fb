"""The files of failed jobs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tilec.model.job import Job
from tilec_runtime.errors import CompileError
from tilec_runtime.model.digest import sha256


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
