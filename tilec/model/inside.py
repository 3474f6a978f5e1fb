"""Paths of a project, resolved by one function that refuses links out of the project."""

from __future__ import annotations

import os
from pathlib import Path

from tilec_runtime.errors import LinkError


def contained(root: str | Path, name: str | Path) -> Path:
    """Return the path of a file or directory in a project, whether or not it exists.

    Only present links are checked; links that an attacker changes later are not.

    Args:
        root: the project's directory, which may itself be reached through links.
        name: the path in it, relative to `root`.

    Raises:
        LinkError: a link in the path leaves the project.
    """
    path = Path(root, name)
    if is_inside(path, root):
        return path
    link = _leaving_link(Path(root), Path(name))
    if link is None:
        raise LinkError(
            f"{str(name)!r} leaves the project: it is {os.path.realpath(path)}",
            fix="name a path in the project",
        )
    message = f"{link.relative_to(root).as_posix()!r} is a link that leaves the project: it leads to {link.readlink()}"
    raise LinkError(
        message,
        fix=f"copy the {'file' if link.is_file() else 'directory'} into the project, or remove the link",
    )


def is_inside(path: str | Path, root: str | Path) -> bool:
    """Return whether a path is in a directory after all links are resolved."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _leaving_link(root: Path, name: Path) -> Path | None:
    """Return the first link below `root` that leaves it, or None."""
    here = root
    for part in name.parts:
        here = here / part
        if here.is_symlink() and not is_inside(here, root):
            return here
    return None
