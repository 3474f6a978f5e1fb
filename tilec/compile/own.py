"""tilec's own code and templates as inputs of a build: they write the package, and a version does
not tell a checkout that is worked on.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from tilec_runtime import errors

# The directories of tilec and of its runtime, as this process imports them.
PACKAGES = (Path(__file__).parents[1], Path(errors.__file__).parent)
_SUFFIXES = (".py", ".jinja")


def files(package: Path = PACKAGES[0], runtime: Path = PACKAGES[1]) -> list[Path]:
    """Everything of tilec that a build's outputs depend on, sorted.

    Args:
        package: tilec's directory.
        runtime: that of its runtime, which writes bundles.
    """
    package, runtime = package.resolve(), runtime.resolve()
    # The templates lie in the installed package, or beside it in a checkout.
    beside = package.parent / "templates" / "package"
    folders = (
        (package, runtime) if (package / "_templates").is_dir() else (package, beside, runtime)
    )
    return sorted(
        path for folder in folders for suffix in _SUFFIXES for path in folder.rglob(f"*{suffix}")
    )


@functools.cache
def digest() -> str:
    """One digest of their bytes, as this process found them."""
    return hashlib.sha256(
        b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files())
    ).hexdigest()
