"""Distinguish files of the Python environment from files of a project; hide variables."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

_lock = threading.RLock()
# Prefix of the names of inputs that are tilec's own code.
OWN = "<tilec>/"
_ENVIRONMENT = tuple(
    {
        os.path.realpath(place)
        for place in (
            sys.prefix,
            sys.exec_prefix,
            sys.base_prefix,
            sys.base_exec_prefix,
            Path(os.__file__).parent,
        )
    }
)


def is_installed(path: str) -> bool:
    """Whether a path belongs to an installed package.

    A virtual environment inside of a project is not part of the project.
    """
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def is_environment(path: str) -> bool:
    """Whether a path is in this Python environment or an installed package."""
    return is_installed(path) or any(
        path == folder or path.startswith(folder.rstrip("/") + "/") for folder in _ENVIRONMENT
    )


@contextlib.contextmanager
def variables_hidden(prefixes: tuple[str, ...], **given: str) -> Iterator[None]:
    """Hide environment variables by prefix, and set the given ones, in a `with`.

    Compilers read such variables, and a build must depend on its declared inputs only. A lock
    admits one thread at a time.
    """
    with _lock:
        kept = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
        for name in kept:
            del os.environ[name]
        os.environ.update(given)
        try:
            yield
        finally:
            for name in given:
                os.environ.pop(name, None)
            os.environ.update(kept)
