"""Environment, working directory and number of cores, read once."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tilec_runtime.bundle.place import cache_root, shared_root
from tilec_runtime.errors import UsageError

if TYPE_CHECKING:
    from tilec.compile.remote.access import RemoteChoice
    from tilec.frontends.base import ToolSearch

CACHE_MAX = "8 GiB"
TRUST = ("pinned", "own")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The settings of the machine and of the environment.

    Attributes:
        cwd: working directory.
        cache_dir: the cache of compiled images; None if it is off (`TILEC_CACHE_DIR=off`) or
            without a home directory.
        environ: the environment, from which `remote` reads.
        cache_max: size limit of the cache, as written in `TILEC_CACHE_MAX`.
        cuda_home: `CUDA_HOME` (or `CUDA_PATH`), empty for none.
        path: `PATH`.
        targets: names in `TILEC_TARGETS`, for builds without `--targets`.
        scheduler: `TILEC_SCHEDULER`, for builds without `--scheduler`.
        color: `auto`, `always` (`FORCE_COLOR`) or `never` (`NO_COLOR`, a dumb terminal).
        dumb: whether the terminal cannot redraw a line (`TERM=dumb`).
        ci: whether this is a CI job, which gets lines instead of a progress bar.
        cores: number of cores that this process may use.
    """

    cwd: Path
    cache_dir: Path | None = None
    environ: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    cache_max: str = CACHE_MAX
    cuda_home: str = ""
    path: str = ""
    targets: tuple[str, ...] = ()
    scheduler: str = ""
    color: str = "auto"
    dumb: bool = False
    ci: bool = False
    cores: int = 1

    @property
    def cache_bytes(self) -> int:
        """`cache_max` in bytes.

        Raises:
            UsageError: the text is not a size.
        """
        return parse_size(self.cache_max, "TILEC_CACHE_MAX")

    def remote(
        self, *, url: str = "", mode: str = "", trust: str = "", wait: float | None = None
    ) -> RemoteChoice:
        """Return the settings of the remote cache, from options or the environment.

        Builds write to a shared directory too, and trust only pinned images of it.

        Raises:
            UsageError: the trust or the path of the shared directory is invalid.
        """
        from tilec.compile.remote.access import RemoteChoice
        from tilec.compile.remote.environment import netrc_file, proxies, proxy_for

        env = self.environ
        trust = trust or env.get("TILEC_REMOTE_TRUST", "")
        if trust not in ("", *TRUST):
            raise UsageError(
                f"TILEC_REMOTE_TRUST: {trust!r} is not valid", fix=f"use {' or '.join(TRUST)}"
            )
        named = env.get("TILEC_REMOTE_CACHE", "")
        shared = None if url or named else shared_root(env, self.cwd)
        choice = RemoteChoice(
            url=shared.resolve().as_uri() if shared else url or named,
            mode=mode or env.get("TILEC_REMOTE_MODE", "") or ("write" if shared else ""),
            own=trust == "own" and not shared,
            token=env.get("TILEC_REMOTE_TOKEN", ""),
            token_for=named,
            netrc=netrc_file(env, self.cwd),
            proxy=functools.partial(proxy_for, proxies(env)),
        )
        return choice if wait is None else dataclasses.replace(choice, wait=wait)

    @property
    def search(self) -> ToolSearch:
        """The places for tools; the manifest adds its preferences."""
        from tilec.frontends.base import ToolSearch  # --help does not need it

        return ToolSearch(
            cuda_home=self.cuda_home, path=self.path, state_dir=str(self.cache_dir or "")
        )


def read_settings(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
    """Read the environment and the working directory.

    Raises:
        UsageError: the working directory does not exist, or a cache's path begins with the home of
            an unknown user.
    """
    env = os.environ if environ is None else environ
    if cwd is None:
        try:
            cwd = Path.cwd()
        except OSError as exc:
            raise UsageError(
                "the working directory no longer exists", fix="cd to an existing directory"
            ) from exc
    return Settings(
        cwd=cwd,
        cache_dir=cache_root(env, cwd),
        environ=env,
        cache_max=env.get("TILEC_CACHE_MAX", "") or CACHE_MAX,
        cuda_home=env.get("CUDA_HOME", "") or env.get("CUDA_PATH", ""),
        path=env.get("PATH", ""),
        targets=tuple(filter(None, re.split(r"[\s,]+", env.get("TILEC_TARGETS", "")))),
        scheduler=env.get("TILEC_SCHEDULER", ""),
        color=_color(env),
        dumb=env.get("TERM") == "dumb",
        ci=env.get("CI", "").lower() not in ("", "0", "false"),
        cores=len(os.sched_getaffinity(0)),
    )


def parse_size(text: str, name: str) -> int:
    """Return the bytes of `90 MiB`, as manifests write sizes, or of a number alone.

    Args:
        text: the size.
        name: name of the option or variable, for messages.

    Raises:
        UsageError: the text is not a size.
    """
    from tilec.manifest import values  # --help does not need it

    try:
        return int(text) if text.isdecimal() else values.size(text)
    except ValueError as exc:
        raise UsageError(f"{name}: {exc}") from exc


def _color(env: Mapping[str, str]) -> str:
    if env.get("NO_COLOR"):
        return "never"
    if env.get("FORCE_COLOR", "0") not in ("", "0"):
        return "always"
    return "never" if env.get("TERM") == "dumb" else "auto"
