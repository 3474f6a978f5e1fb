"""Tell files of the Python environment from files of a project."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

_lock = threading.RLock()
# What begins the names of inputs that are tilec's own code.
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
    """Whether a path belongs to an installed package: a virtual environment inside of a project is
    not part of it.
    """
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def is_environment(path: str) -> bool:
    """Whether a path belongs to this Python: an installed package, the standard library, or
    whatever else comes with the environment.
    """
    return is_installed(path) or any(
        path == folder or path.startswith(folder.rstrip("/") + "/") for folder in _ENVIRONMENT
    )


@contextlib.contextmanager
def variables_hidden(prefixes: tuple[str, ...], **given: str) -> Iterator[None]:
    """Hide the environment variables that begin like this, and set the given ones meanwhile.

    A compiler that reads them would make other code than the inputs of a build say. One thread at a
    time.
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
