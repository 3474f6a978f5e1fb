"""Where the cache lies, by the environment, and whether this user alone can change it: for builds
and for what is compiled at load.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from tilec_runtime.errors import CallError

#: The store's directory in a cache directory, raised when its layout or its files' fields change, and the kinds of files in it.
FORMAT = "v4"
KINDS = ("images", "records", "jit")

_told: set[str] = set()


def cache_root(env: Mapping[str, str], cwd: Path | None = None) -> Path | None:
    """The cache's directory; None where it is off (`TILEC_CACHE_DIR=off`) or there is no home.

    Args:
        env: the environment.
        cwd: what a relative path starts from; the working directory by default.

    Raises:
        CallError: it begins with the home of an unknown user.
    """
    chosen = env.get("TILEC_CACHE_DIR", "")
    if chosen == "off":
        return None
    if chosen:
        return _path_in("TILEC_CACHE_DIR", chosen, cwd, "give a path without ~, or off")
    base = env.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):  # the XDG rules say to ignore relative ones
        return Path(base) / "tilec"
    home = env.get("HOME", "")
    return Path(home) / ".cache" / "tilec" if home else None


def shared_root(env: Mapping[str, str], cwd: Path | None = None) -> Path | None:
    """The directory of the cache that the user shares with others (`TILEC_SHARED_CACHE`); None for
    none.

    Raises:
        CallError: it begins with the home of an unknown user.
    """
    chosen = env.get("TILEC_SHARED_CACHE", "")
    return _path_in("TILEC_SHARED_CACHE", chosen, cwd, "give a path without ~") if chosen else None


def private_root(root: Path | None, tell: Callable[[str], object]) -> Path | None:
    """Return the cache directory, or None where others can change it; `tell` gets the reason, once
    for each process and directory.
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
    """Return what to say of folders deep in the cache that others can change; `tell` gets it once
    for each process and cache.

    `why` is what is wrong with one of them. The text does not name it: there may be hundreds, which
    one command mends.
    """
    text = f"some folders of the cache {root} are neither read nor written, since others may change them; {_mend(root, why)}"
    _tell_once(text, tell)
    return text


def exposure(root: Path) -> str:
    """Return why others can change what is in a cache directory, as a clause; empty where they
    cannot, or it is not there.

    The directory that `root` leads to and tilec's own in it have to belong to this user, and to be
    writable by this user alone.
    """
    base = os.path.realpath(root)
    for name in ("", FORMAT, *(f"{FORMAT}/{kind}" for kind in KINDS)):
        path = os.path.join(base, name) if name else base  # noqa: PTH118  (a launch that compiles imports this)
        try:
            problem = foreign(os.lstat(path))
        except OSError:  # what is not there or cannot be reached is not read either
            continue
        if problem:
            return f"{path} {problem}"
    return ""


def foreign(status: os.stat_result) -> str:
    """Return why a file or directory is not this user's alone, as a predicate; empty where it is."""
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, and this is user {os.geteuid()}"
    if status.st_mode & 0o022:
        who = "everyone" if status.st_mode & 0o002 else "its group"
        return f"may be written by {who} (mode {stat.S_IMODE(status.st_mode):04o})"
    return ""


def _tell_once(text: str, tell: Callable[[str], object]) -> None:
    if text not in _told:
        _told.add(text)
        tell(text)


def _mend(root: Path | None, why: str) -> str:
    own = (
        f"sudo chown -R {os.geteuid()} {root} && " if "belongs to" in why else ""
    )  # after a build with sudo, say
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
