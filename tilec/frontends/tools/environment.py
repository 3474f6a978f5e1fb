"""Tell files of the Python environment from files of a project."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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
        path == place or path.startswith(place.rstrip("/") + "/") for place in _ENVIRONMENT
    )
