"""Output files that a command line names: checked before any work, then written."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tilec.cli.app import App
from tilec.cli.tables import bytes_text
from tilec.model.atomic import atomic_write, output_error
from tilec_runtime.errors import UsageError

HTML = (".html", ".htm")


def require_writable(path: Path) -> Path:
    """Return the path of a file that can be written.

    Raises:
        UsageError: the path exists and is not a regular file; writing would replace it.
        OutputError: its directory cannot be written.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a directory", fix="name a file")
    special = path.parent == Path("/dev")  # /dev/stdout may be a link to a regular file
    if special or (path.exists() and not path.is_file()):
        raise UsageError(f"{path} is no regular file", fix="name a file")
    folder = path.parent
    while not (folder.exists() or folder.is_symlink()) and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise output_error(path, error) from error
    return path


def require_suffix(path: Path, option: str, *suffixes: str) -> Path:
    """Return the path of a file of a kind that can be written.

    The suffix is required so that a forgotten word on the command line does not replace a bundle.

    Raises:
        UsageError: the suffix is another one, or the path is not a regular file.
        OutputError: its directory cannot be written.
    """
    if path.suffix.lower() not in suffixes and not path.is_dir():
        fix = f"end it in {suffixes[0]}"
        raise UsageError(f"{option} {path}: not the name of a {suffixes[0]} file", fix=fix)
    return require_writable(path)


def write_file(app: App, path: Path, data: bytes, contents: str) -> None:
    """Write a file and print its contents and size.

    Raises:
        OutputError: the file cannot be written; an existing file is unchanged.
    """
    with atomic_write(path) as file:
        file.write(data)
    app.say(f"wrote {app.show(path)}: {contents}, {bytes_text(len(data))}")
