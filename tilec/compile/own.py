"""tilec's own code, as an input of builds, and the command to run its modules."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from pathlib import Path

from tilec_runtime import errors

# The directories from which this process imports tilec and its runtime.
PACKAGES = (Path(__file__).parents[1], Path(errors.__file__).parent)
_SUFFIXES = (".py", ".jinja")
_START = (
    "import sys; sys.path[:] = {path!r}; import importlib; "
    "sys.exit(importlib.import_module(sys.argv.pop(1)).main())"
)


def own_command(module: str, *args: str) -> list[str]:
    """Return the command that runs `main` of a module with this import path.

    `python -m` would import from the current directory first, but a project may have a `tilec.py`,
    a `json.py` or a `cuda` folder.
    """
    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - sys.path holds strings
    # The import path may have changed since this process found its packages.
    homes = (str(package.resolve().parent) for package in PACKAGES)
    start = _START.format(path=list(dict.fromkeys((*path, *homes))))
    return [sys.executable, "-c", start, module, *args]


def files() -> list[Path]:
    """Return all files of tilec and its runtime that affect a build, sorted.

    A version number would not distinguish states of a checkout in development.
    """
    package, runtime = (folder.resolve() for folder in PACKAGES)
    # Templates are in the installed package, or beside the package in a checkout.
    beside = package.parent / "templates" / "package"
    folders = (
        (package, runtime) if (package / "_templates").is_dir() else (package, beside, runtime)
    )
    return sorted(
        path for folder in folders for suffix in _SUFFIXES for path in folder.rglob(f"*{suffix}")
    )


@functools.cache
def digest() -> str:
    """Return one digest of the bytes of `files`, computed once per process."""
    return hashlib.sha256(
        b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files())
    ).hexdigest()
