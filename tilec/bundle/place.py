"""Where the cache lies, by the environment: one place for what builds keep and for what is compiled at load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilec.errors import UsageError


def cache_root(env: Mapping[str, str], cwd: Path | None = None) -> Path | None:
    """The cache's directory; None where it is off (`TILEC_CACHE_DIR=off`) or there is no home.

    Args:
        env: the environment.
        cwd: what a relative path starts from; the working directory by default.

    Raises:
        UsageError: it begins with the home of somebody unknown.
    """
    chosen = env.get("TILEC_CACHE_DIR", "")
    if chosen == "off":
        return None
    if chosen:
        try:
            path = Path(chosen).expanduser()
        except RuntimeError as exc:
            raise UsageError(f"TILEC_CACHE_DIR={chosen}: {exc}", fix="give a path without ~, or off") from exc
        return path if cwd is None else cwd / path
    base = env.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):  # the XDG rules say to ignore relative ones
        return Path(base) / "tilec"
    home = env.get("HOME", "")
    return Path(home) / ".cache" / "tilec" if home else None
