"""The directory of the cache, and the check that only this user can write to it.

Builds and compilation at load share it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from tilec_runtime.errors import CallError

#: The store's directory in a cache directory; it changes with the layout or the fields of files.
FORMAT = "v4"
KINDS = ("images", "records", "jit")

_warned: set[str] = set()


def cache_root(env: Mapping[str, str], cwd: Path | None = None) -> Path | None:
    """Return the cache's directory, or None if it is off or this user has no home.

    `TILEC_CACHE_DIR=off` turns it off.

    Args:
        env: the environment.
        cwd: base of a relative path; the working directory by default.

    Raises:
        CallError: the path begins with the home of an unknown user.
    """
    chosen = env.get("TILEC_CACHE_DIR", "")
    if chosen == "off":
        return None
    if chosen:
        return _path_in("TILEC_CACHE_DIR", chosen, cwd, "give a path without ~, or off")
    base = env.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):  # the XDG specification ignores relative paths
        return Path(base) / "tilec"
    home = env.get("HOME", "")
    return Path(home) / ".cache" / "tilec" if home else None


def shared_root(env: Mapping[str, str], cwd: Path | None = None) -> Path | None:
    """Return the directory that builds use as remote cache, `TILEC_SHARED_CACHE`, or None.

    Raises:
        CallError: the path begins with the home of an unknown user.
    """
    chosen = env.get("TILEC_SHARED_CACHE", "")
    return _path_in("TILEC_SHARED_CACHE", chosen, cwd, "give a path without ~") if chosen else None


def private_root(root: Path | None, tell: Callable[[str], object]) -> Path | None:
    """Return the cache directory, or None if other users can change it.

    `tell` gets the reason once per process and directory.
    """
    why = exposure(root) if root is not None else ""
    if not why:
        return root
    _tell_once(
        f"the cache {root} is neither read nor written, since others may change it: {why}; {_mend(root, why)}",
        tell,
    )
    return None


def exposed_folders(root: Path | None, why: str, tell: Callable[[str], object]) -> str:
    """Return the warning about folders deep in the cache that other users can change.

    `tell` gets it once per process and cache. `why` describes the problem of one folder. The text
    does not name the folder: there may be hundreds, and one command repairs all of them.
    """
    text = f"some folders of the cache {root} are neither read nor written, since others may change them; {_mend(root, why)}"
    _tell_once(text, tell)
    return text


def exposure(root: Path) -> str:
    """Return why other users can change the cache, or an empty string.

    The reason is a clause.

    The directory `root` and tilec's directories in it must belong to this user, and no other user
    may write to them. A missing directory is no problem.
    """
    base = os.path.realpath(root)
    for name in ("", FORMAT, *(f"{FORMAT}/{kind}" for kind in KINDS)):
        path = os.path.join(base, name) if name else base  # noqa: PTH118  (a launch that compiles imports this)
        try:
            problem = foreign(os.lstat(path))
        except OSError:  # a missing or unreachable directory is not read either
            continue
        if problem:
            return f"{path} {problem}"
    return ""


def foreign(status: os.stat_result) -> str:
    """Return a function for why a file is not private, or an empty string if it is."""
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, and this is user {os.geteuid()}"
    if status.st_mode & 0o022:
        group = "everyone" if status.st_mode & 0o002 else "its group"
        return f"may be written by {group} (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def _tell_once(text: str, tell: Callable[[str], object]) -> None:
    if text not in _warned:
        _warned.add(text)
        tell(text)


def _mend(root: Path | None, why: str) -> str:
    own = (
        f"sudo chown -R {os.geteuid()} {root} && " if "belongs to" in why else ""
    )  # the cache belongs to root after a build with sudo, for example
    mend = f"{own}chmod -R go-w {root} && tilec cache clear"
    if why.endswith("link"):
        mend = f"rm {why.partition(' is a ')[0]}"
    return (
        f"make it yours and empty it (`{mend}`), name another directory in TILEC_CACHE_DIR, or share this one with "
        f"TILEC_SHARED_CACHE={root}, which uses only what tilec.lock pins"
    )


def _path_in(variable: str, chosen: str, cwd: Path | None, fix: str) -> Path:
    try:
        path = Path(chosen).expanduser()
    except RuntimeError as exc:
        raise CallError(f"{variable}={chosen}: {exc}", fix=fix) from exc
    return path if cwd is None else cwd / path
