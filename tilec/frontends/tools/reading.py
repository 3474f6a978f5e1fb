"""Notes which files a module opens, and which directories it lists, while it is executed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from tilec.frontends.tools.reads import is_environment, is_installed
from tilec_runtime import errors

_OWN = tuple(f"{os.path.realpath(place)}/" for place in (Path(__file__).parents[2], Path(errors.__file__).parent))
_MACHINE = ("/proc/", "/sys/", "/dev/")
_ACCESS = os.O_WRONLY | os.O_RDWR
_WRITES = _ACCESS | os.O_CREAT | os.O_TRUNC
_hooked: list[bool] = []
_watching: list[_Watch] = []


@contextlib.contextmanager
def watched(root: str, texts: Mapping[str, str]) -> Iterator[set[str]]:
    """While it lasts, names that the code of the project (and of modules outside of the environment) reads are added to the set.

    Args:
        root: the project's directory; names are relative to it, those of directories end in a slash.
        texts: the project's files that were executed, by the name that their code has.
    """
    if not _hooked:
        sys.addaudithook(_hook)  # it cannot be taken away again, and costs nothing to speak of while nobody watches
        _hooked.append(True)
    watch = _Watch(root, texts)
    _watching.append(watch)
    try:
        yield watch.names
    finally:
        _watching.remove(watch)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _watching or event not in ("open", "os.listdir", "os.scandir"):
        return
    with contextlib.suppress(OSError, ValueError):  # what is no path is told to whoever opens it
        watch, opener = _watching[-1], sys._getframe(1)  # noqa: SLF001 - who asks is not told in another way
        if event != "open":
            watch.listed(args[0], opener)
        elif isinstance(args[2], int) and args[2] & _WRITES:
            watch.wrote(args[0])
        else:
            watch.opened(args[0], opener)


class _Watch:
    def __init__(self, root: str, texts: Mapping[str, str]) -> None:
        self.names: set[str] = set()
        self._root = os.path.realpath(root)
        self._texts = texts
        self._written: set[str] = set()

    def opened(self, path: object, opener: FrameType) -> None:
        """A file is about to be opened for reading."""
        name = self._name(path)
        if name and name not in self._written and self._is_asked(opener):
            self.names.add(name)

    def listed(self, path: object, opener: FrameType) -> None:
        """A directory is about to be listed."""
        name = self._name("." if path is None else path)
        if name and self._is_asked(opener):
            self.names.add(name if name.endswith("/") else f"{name}/")

    def wrote(self, path: object) -> None:
        """A file is about to be written: what the module makes itself is no input, and its later reads are not."""
        self._written.add(self._name(path))
        self.names.discard(self._name(path))

    def _is_asked(self, frame: FrameType | None) -> bool:
        """Whether code that counts wants the file, directly or through a library; not the import of a library, which does as it likes."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file in self._texts:
                return True
            if file.startswith(("<frozen importlib._bootstrap", *_OWN)):
                return False
            if not file.startswith("<") and not is_environment(os.path.realpath(file)):
                return True
            frame = frame.f_back
        return False

    def _name(self, path: object) -> str:
        """The name that the file has among the inputs, empty for one that is none: of the environment, of the machine, or hidden."""
        if not isinstance(path, str | bytes | os.PathLike):
            return ""  # a descriptor, which was opened before
        full = os.path.realpath(os.fsdecode(path))
        inside = full == self._root or full.startswith(f"{self._root}/")
        if is_installed(full) or full.startswith(_MACHINE) or (not inside and is_environment(full)):
            return ""
        name = Path(os.path.relpath(full, self._root)).as_posix()
        if any(part.startswith(".") and part not in (".", "..") for part in name.split("/")):
            return ""
        return f"{name}/" if Path(full).is_dir() else name
