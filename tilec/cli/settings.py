"""Environment, working directory and cores, read once and passed down as values."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tilec_runtime.bundle.place import cache_root, shared_root
from tilec_runtime.errors import UsageError

if TYPE_CHECKING:
    from tilec.frontends.base import ToolSearch

CACHE_MAX = "8 GiB"
_UNITS = {
    "": 1,
    "b": 1,
    "k": 1000,
    "m": 1000**2,
    "g": 1000**3,
    "t": 1000**4,
    "ki": 1024,
    "mi": 1024**2,
    "gi": 1024**3,
    "ti": 1024**4,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the command line takes from the machine.

    Attributes:
        cwd: working directory.
        cache_dir: the cache of compiled images; None if it is off (`TILEC_CACHE_DIR=off`) or there
            is no home.
        shared_cache: the cache that users share (`TILEC_SHARED_CACHE`), or None.
        cache_max: the largest size of the cache, as written in `TILEC_CACHE_MAX`.
        cuda_home: `CUDA_HOME` (or `CUDA_PATH`), empty for none.
        path: `PATH`.
        targets: names in `TILEC_TARGETS`, for builds without `--targets`.
        color: `auto`, `always` (`FORCE_COLOR`) or `never` (`NO_COLOR`, a dumb terminal).
        dumb: whether the terminal cannot redraw a line (`TERM=dumb`).
        ci: whether this is a CI job, which gets lines rather than a moving bar.
        cores: cores that this process may use.
    """

    cwd: Path
    cache_dir: Path | None = None
    shared_cache: Path | None = None
    cache_max: str = CACHE_MAX
    cuda_home: str = ""
    path: str = ""
    targets: tuple[str, ...] = ()
    color: str = "auto"
    dumb: bool = False
    ci: bool = False
    cores: int = 1

    @property
    def cache_bytes(self) -> int:
        """`cache_max` in bytes.

        Raises:
            UsageError: it is no size.
        """
        try:
            return parse_size(self.cache_max)
        except ValueError as exc:
            raise UsageError(
                f"TILEC_CACHE_MAX: {exc}",
                fix="give a number with a unit, such as TILEC_CACHE_MAX='20 GiB'",
            ) from exc

    @property
    def search(self) -> ToolSearch:
        """Where tools are looked for; the manifest adds its preferences."""
        from tilec.frontends.base import ToolSearch  # help needs none of it

        return ToolSearch(
            cuda_home=self.cuda_home, path=self.path, state_dir=str(self.cache_dir or "")
        )


def read_settings(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
    """Read the environment and the working directory.

    Raises:
        UsageError: the working directory is gone, or a cache's directory begins with the home of
            an unknown user.
    """
    env = os.environ if environ is None else environ
    if cwd is None:
        try:
            cwd = Path.cwd()
        except OSError as exc:
            raise UsageError(
                "the working directory no longer exists", fix="cd to a directory that does"
            ) from exc
    return Settings(
        cwd=cwd,
        cache_dir=cache_root(env, cwd),
        shared_cache=shared_root(env, cwd),
        cache_max=env.get("TILEC_CACHE_MAX", "") or CACHE_MAX,
        cuda_home=env.get("CUDA_HOME", "") or env.get("CUDA_PATH", ""),
        path=env.get("PATH", ""),
        targets=tuple(filter(None, re.split(r"[\s,]+", env.get("TILEC_TARGETS", "")))),
        color=_color(env),
        dumb=env.get("TERM") == "dumb",
        ci=env.get("CI", "").lower() not in ("", "0", "false"),
        cores=_cores(),
    )


def parse_size(text: str) -> int:
    """Return the bytes of `90 MiB`, `1.5G`, `4096`.

    Raises:
        ValueError: it is no size; the message quotes it.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    try:
        return int(float(match.group(1)) * _UNITS[match.group(2).lower()])
    except OverflowError as exc:
        raise ValueError(f"{text[:40]}… is too large") from exc


def _color(env: Mapping[str, str]) -> str:
    if env.get("NO_COLOR"):
        return "never"
    if env.get("FORCE_COLOR", "0") not in ("", "0"):
        return "always"
    return "never" if env.get("TERM") == "dumb" else "auto"


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
