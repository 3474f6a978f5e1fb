"""tilec's own code and templates as inputs of a build: they write the package, and a version does not tell a checkout that is worked on."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

_SUFFIXES = (".py", ".jinja")


def files(package: Path | None = None) -> list[Path]:
    """Everything of tilec that a build's outputs depend on, sorted.

    Args:
        package: tilec's directory; by default the one that this module lies in.
    """
    package = package or Path(__file__).resolve().parents[1]
    # The templates lie in the installed package, or beside it in a checkout.
    beside = package.parent / "templates" / "package"
    folders = (package,) if (package / "_templates").is_dir() else (package, beside)
    return sorted(path for folder in folders for suffix in _SUFFIXES for path in folder.rglob(f"*{suffix}"))


@functools.cache
def digest() -> str:
    """One digest of their bytes, as this process found them."""
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files())).hexdigest()
