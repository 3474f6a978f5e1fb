"""Stamps: the status of all files that the last build read and wrote.

Git's index is similar.

A stamp lets an up-to-date build end at once. It can only prove that nothing was touched; otherwise
the whole build runs, and decides by content. It is in the user's cache, since a project may come
from anywhere, and nothing that comes with it is believed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilec import __version__
from tilec.compile import own
from tilec_runtime.bundle import store
from tilec_runtime.bundle.place import exposure
from tilec_runtime.model.digest import sha256

if TYPE_CHECKING:
    from tilec.compile.cache import Cache

_VERSION = 2
_MOST_FOLDERS = 400  # with more folders, checking them costs more than it saves
_PASSED_OVER = {"__pycache__", "node_modules"}
_NEVER_READ = {".git", ".hg", ".svn", ".tilec"}
_FOREIGN = ("pyvenv.cfg", "CACHEDIR.TAG")  # files in private folders of tools


def question(
    manifest: str,
    *,
    targets: Sequence[str],
    select: Sequence[str],
    profile: str,
    emit: Sequence[str],
    places: Sequence[str],
) -> str:
    """Return the digest of a build's request and of the values that select tools.

    Args:
        manifest: file name of the manifest.
        targets: targets of the request.
        select: selected jobs of the request.
        profile: profile of the request.
        emit: additional outputs of the request.
        places: values of CUDA_HOME and PATH.
    """
    # Tools and kernels' imports come from sys.path, which depends on PYTHONPATH.
    parts = [
        _VERSION,
        __version__,
        sys.version,
        sys.prefix,
        sys.path,
        manifest,
        [*targets],
        [*select],
        profile,
        [*emit],
        [*places],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Untouched:
    """An up-to-date build: its number of jobs, and kind and path of each output."""

    jobs: int
    outputs: tuple[tuple[str, Path], ...]


def fresh(cache: Path | None, root: Path, asked: str) -> Untouched | None:
    """Return the last build in `root` if the request is equal and files unchanged.

    Args:
        cache: the user's cache, or None if it is off.
        root: the project's directory.
        asked: digest of the request (`question`).
    """
    try:
        stamp = _load(cache, root)
        if stamp["asked"] != asked:
            return None
        for name, status in stamp["files"].items():
            if status_of(root / name) != status:
                return None
        for name, status in stamp["folders"].items():
            if status_of(root / name)[1:] != status:
                return None
        return Untouched(
            jobs=int(stamp["jobs"]),
            outputs=tuple((kind, root / name) for kind, name in stamp["outputs"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def files_read(cache: Path | None, root: Path) -> tuple[Path, ...]:
    """Return the files of the last build, relative to `root` if inside.

    They are the files that it read or wrote.
    """
    try:
        return tuple(map(Path, _load(cache, root)["files"]))
    except (KeyError, TypeError):
        return ()


def _load(cache: Path | None, root: Path) -> Any:
    """Return the stamp of a project, or None.

    It reads the store directly, since importing the cache takes longer.
    """
    key = record_key("stamp", root)
    try:
        entry = (
            None
            if cache is None or exposure(cache)
            else store.read(store.path_of(cache, "records", sha256(key.encode())), now=time.time())
        )
    except (OSError, ValueError, RecursionError, store.DamagedError):
        return None
    return entry.meta["value"] if entry is not None and entry.meta["key"] == key else None


def record_key(kind: str, root: Path) -> str:
    """Return the key of a record about a project's last build.

    The key hides the project's path, since a cache may be shared.
    """
    return f"{kind} {sha256(os.path.realpath(root).encode('utf-8', 'surrogateescape'))}"


def take(
    cache: Cache,
    root: Path,
    asked: str,
    *,
    jobs: int,
    since: int,
    read: Iterable[Path],
    searched: Iterable[Path] = (),
    written: Iterable[tuple[str, Path]],
    kept: Iterable[Path] = (),
    output: Path,
    root_before: Sequence[int] = (),
) -> bool:
    """Record a finished build; return whether this was possible.

    Nothing is recorded if a file may have been touched during the build.

    Args:
        cache: the user's cache.
        root: the project's directory.
        asked: digest of the request (`question`).
        jobs: number of jobs.
        since: start of the build in nanoseconds, comparable to file times.
        read: all files that the build read.
        searched: directories in which it searched files with any name.
        written: all files that it wrote, with their kind.
        kept: files of the project that it wrote beside its outputs.
        output: directory of its outputs, whose other contents do not matter.
        root_before: status of `root` before the build wrote a file into it; empty if it wrote none.
    """
    cache.put_record(record_key("stamp", root), None)
    try:
        inputs = {*read, *own.files()}
        looked = _looked_in(root, inputs, searched, output)
        if len(looked) > _MOST_FOLDERS:
            return False
        folders = looked.union((file.parent for file in inputs), map(Path, filter(None, sys.path)))
        files = {_name(root, file): status_of(file) for file in inputs}
        folder_times = {
            _name(root, folder): status_of(folder)[1:] for folder in folders if folder.is_dir()
        }
        seen = {
            **folder_times,
            **({_name(root, root): list(root_before[1:])} if root_before else {}),
        }
        # Check the change time too: a file copied over another with its times looks old.
        times = [status[1:3] for status in files.values()]
        times += [status[:2] for status in seen.values()]
        if max(map(max, times)) >= since:
            return False
        outputs = [(kind, _name(root, file)) for kind, file in written]
        names = [*(name for _, name in outputs), *(_name(root, file) for file in kept)]
        files |= {name: status_of(root / name) for name in names}
        cache.put_record(
            record_key("stamp", root),
            {
                "asked": asked,
                "jobs": jobs,
                "files": files,
                "folders": folder_times,
                "outputs": outputs,
            },
        )
    except OSError:
        return False
    return True


def _looked_in(
    root: Path, inputs: Iterable[Path], searched: Iterable[Path], output: Path
) -> set[Path]:
    """Return the folders in which another file could change a build."""
    # A folder with an odd name counts if the build read from a folder of that name, or if it is
    # below a searched directory.
    odd = {part for file in inputs for part in file.parts if _is_odd(part)}
    looked = {*_folders(root, lambda name: name in odd or not _is_odd(name), output)}
    return looked.union(*(_folders(top, lambda _: True, output) for top in searched))


def status_of(path: Path) -> list[int]:
    """Return size, times and inode of a file or directory."""
    status = os.stat(path)  # noqa: PTH116  (called for hundreds of paths where milliseconds count)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _folders(top: Path, counts: Callable[[str], bool], output: Path) -> Iterator[Path]:
    """Yield a folder and its subfolders in which a new file could shadow a read one.

    It yields at most one folder more than `_MOST_FOLDERS`.
    """
    for count, (folder, names, _) in enumerate(os.walk(top)):
        names[:] = [
            name
            for name in names
            if counts(name)
            and name not in _NEVER_READ
            and not _is_foreign(Path(folder, name), output)
        ]
        yield Path(folder)
        if count >= _MOST_FOLDERS:
            return


def _is_odd(name: str) -> bool:
    return name[0] == "." or name in _PASSED_OVER


def _is_foreign(folder: Path, output: Path) -> bool:
    return folder == output or any((folder / name).exists() for name in _FOREIGN)


def _name(root: Path, path: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
