"""The short way for a build with nothing to do: what the last one read and wrote, by file status, as git's index has it.

A stamp only ever says "nothing was touched"; anything else leads to the whole build, which decides by content.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tilec import __version__
from tilec.compiler import own

_VERSION = 1
_MOST_FOLDERS = 400  # beyond that, looking at every folder costs more than it saves
_PASSED_OVER = {"__pycache__", "node_modules"}
_NEVER_READ = {".git", ".hg", ".svn", ".tilec"}
_FOREIGN = ("pyvenv.cfg", "CACHEDIR.TAG")  # in folders that tools keep for themselves


def question(
    manifest: str, *, targets: Sequence[str], select: Sequence[str], profile: str, emit: Sequence[str], places: Sequence[str]
) -> str:
    """Digest of what was asked, and of the machine's values that decide which tools are found.

    Args:
        manifest: the manifest's file name.
        targets: as in a build's request.
        select: likewise.
        profile: likewise.
        emit: likewise.
        places: CUDA_HOME and PATH.
    """
    # Tools and the modules that kernels import come from sys.path, which PYTHONPATH changes.
    asked = [_VERSION, __version__, sys.version, sys.prefix, sys.path, manifest, [*targets], [*select], profile, [*emit], [*places]]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def fresh(root: Path, asked: str) -> int | None:
    """The number of jobs, if the last build in `root` was asked the same and nothing that it read or wrote was touched since."""
    try:
        stamp = json.loads((root / ".tilec" / "stamp.json").read_bytes())
        if stamp["asked"] != asked:
            return None
        for name, status in stamp["files"].items():
            if _status(root / name) != status:
                return None
        for name, status in stamp["folders"].items():
            if _status(root / name)[1:] != status:
                return None
        return int(stamp["jobs"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def files_read(root: Path) -> tuple[Path, ...]:
    """Files that the last build read or wrote, those of the project from its directory; none where nothing is remembered of it."""
    try:
        return tuple(map(Path, json.loads((root / ".tilec" / "stamp.json").read_bytes())["files"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()


def take(
    root: Path,
    asked: str,
    *,
    jobs: int,
    since: int,
    read: Iterable[Path],
    searched: Iterable[Path] = (),
    written: Iterable[Path],
    output: Path,
) -> bool:
    """Remember a finished build; whether that could be done.

    Nothing is remembered where a file may have been touched while the build ran, since its status then says too little.

    Args:
        root: the project's directory.
        asked: the question.
        jobs: number of jobs.
        since: when the build began, in nanoseconds of the clock that file times are of.
        read: every file that the build read.
        searched: directories in which it looked for files, which count wherever they are and whatever they are called.
        written: every file that it wrote.
        output: directory of its outputs, whose other contents do not matter.
    """
    path = root / ".tilec" / "stamp.json"
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    try:
        inputs = {*read, *own.files()}
        # A folder of an odd name counts where one of that name was read from, and below a directory that is searched.
        odd = {part for file in inputs for part in file.parts if _is_odd(part)}
        looked = {*_folders(root, lambda name: name in odd or not _is_odd(name), output)}
        looked |= {folder for top in searched for folder in _folders(top, lambda _: True, output)}
        folders = {*looked, *(file.parent for file in inputs), *(Path(place) for place in sys.path if place)}
        files = {_name(root, file): _status(file) for file in inputs}
        places = {_name(root, folder): _status(folder)[1:] for folder in folders if folder.is_dir()}
        # The change time too: a file that is copied with its times over another looks old.
        if len(looked) > _MOST_FOLDERS or any(max(status[1:3]) >= since for status in files.values()):
            return False
        if any(max(status[:2]) >= since for status in places.values()):
            return False
        files.update({_name(root, file): _status(file) for file in written})
        path.write_text(json.dumps({"asked": asked, "jobs": jobs, "files": files, "folders": places}), encoding="utf-8")
    except OSError:
        return False
    return True


def _status(path: Path) -> list[int]:
    found = os.stat(path)  # noqa: PTH116  (called for hundreds of paths where milliseconds count)
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _folders(top: Path, counts: Callable[[str], bool], output: Path) -> Iterator[Path]:
    """A folder and those below it in which a new file could come before one that was read: one more than `_MOST_FOLDERS` at most."""
    for count, (place, names, _) in enumerate(os.walk(top)):
        names[:] = [name for name in names if counts(name) and name not in _NEVER_READ and not _is_foreign(Path(place, name), output)]
        yield Path(place)
        if count >= _MOST_FOLDERS:
            return


def _is_odd(name: str) -> bool:
    return name[0] == "." or name in _PASSED_OVER


def _is_foreign(folder: Path, output: Path) -> bool:
    return folder == output or any((folder / name).exists() for name in _FOREIGN)


def _name(root: Path, path: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
