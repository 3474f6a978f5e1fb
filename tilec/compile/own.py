"""tilec's own code: an input of every build, and how to start a Python process of it."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from pathlib import Path

from tilec_runtime import errors

# The directories of tilec and of its runtime, as this process imports them.
PACKAGES = (Path(__file__).parents[1], Path(errors.__file__).parent)
_SUFFIXES = (".py", ".jinja")
_START = (
    "import sys; sys.path[:] = {path!r}; import importlib; "
    "sys.exit(importlib.import_module(sys.argv.pop(1)).main())"
)


def own_command(module: str, *args: str) -> list[str]:
    """Return the command that runs `main` of one of tilec's modules, with this import path.

    `python -m` looks into the current directory first: a project may well have a `tilec.py`, a
    `json.py` or a `cuda` folder.
    """
    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - sys.path holds strings
    # The import path may have changed since this process found its packages.
    homes = (str(package.resolve().parent) for package in PACKAGES)
    start = _START.format(path=list(dict.fromkeys((*path, *homes))))
    return [sys.executable, "-c", start, module, *args]


def files(package: Path = PACKAGES[0], runtime: Path = PACKAGES[1]) -> list[Path]:
    """Return every file of tilec and its runtime that a build's outputs depend on, sorted.

    A version number would not tell apart two states of a checkout that is worked on.
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
    """Return one digest of the bytes of `files`, as this process found them."""
    return hashlib.sha256(
        b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files())
    ).hexdigest()
