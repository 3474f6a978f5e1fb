"""An entry of `link`: a file of device functions that a kernel is linked with."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from tilec_runtime.errors import Location


class LinkKind(enum.Enum):
    """What a linked file is; the value is how messages call it."""

    CUDA = "CUDA C++"
    PYTHON = "Python device functions"
    LIBRARY = "a device library"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prototype:
    """What a function of another language is to CUDA C++: name, result and parameters as C writes them, and where it is defined."""

    name: str
    result: str
    params: tuple[str, ...]
    location: Location

    def __str__(self) -> str:
        """The declaration."""
        return f'extern "C" __device__ {self.result} {self.name}({", ".join(self.params)});'


_SUFFIXES = {
    ".cu": LinkKind.CUDA,
    ".py": LinkKind.PYTHON,
    **dict.fromkeys((".a", ".o", ".ltoir", ".fatbin", ".cubin", ".ptx"), LinkKind.LIBRARY),
}
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LinkEntry:
    """A linked file.

    Attributes:
        path: relative to the project.
        kind: what it is, by its suffix.
        names: the functions that are taken of it; of Python only, where each is compiled for itself.
    """

    path: str
    kind: LinkKind
    names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LinkEntry:
        """The entry that `act.cu`, `act.py:relu` or `libact.a` is.

        Raises:
            ValueError: it is none.
        """
        path, colon, name = text.partition(":")
        kind = _SUFFIXES.get(PurePosixPath(path).suffix)
        if kind is None:
            raise ValueError(f"{text!r} cannot be linked: files of device functions end in {', '.join(_SUFFIXES)}")
        if kind is LinkKind.PYTHON and not _NAME.fullmatch(name):
            raise ValueError(f"{text!r} does not name a function: write {path}:relu, one entry a function")
        if kind is not LinkKind.PYTHON and colon:
            raise ValueError(f"{text!r} names a function: {kind.value} is linked as a whole, so write {path!r}")
        return cls(path=path, kind=kind, names=(name,) if name else ())


def entries(texts: Iterable[str]) -> tuple[LinkEntry, ...]:
    """The entries in their order, functions of one Python file together.

    Raises:
        ValueError: one is none, or is given twice.
    """
    found: dict[str, LinkEntry] = {}
    for text in texts:
        entry = LinkEntry.parse(text)
        known = found.get(entry.path)
        if known is not None and (not entry.names or entry.names[0] in known.names):
            raise ValueError(f"{text!r} is given twice")
        found[entry.path] = dataclasses.replace(entry, names=(*known.names, *entry.names)) if known else entry
    return tuple(found.values())
