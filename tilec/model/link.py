"""An entry of `link`: a file of device functions that a kernel is linked with."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from pathlib import PurePosixPath


class LinkKind(enum.Enum):
    """Kind of a linked file; messages use the value."""

    CUDA = "CUDA C++"
    LIBRARY = "a device library"


_SUFFIXES = {
    ".cu": LinkKind.CUDA,
    **dict.fromkeys((".a", ".o", ".ltoir", ".fatbin"), LinkKind.LIBRARY),
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LinkEntry:
    """A linked file.

    Attributes:
        path: relative to the project.
        kind: by its suffix.
    """

    path: str
    kind: LinkKind

    @classmethod
    def parse(cls, text: str) -> LinkEntry:
        """Return the entry that `act.cu` or `libact.a` names.

        Raises:
            ValueError: device code of another kind, or no file of device code.
        """
        kind = _SUFFIXES.get(PurePosixPath(text).suffix)
        if kind is None:
            raise ValueError(
                f"{text!r} cannot be linked: files of device functions end in {', '.join(_SUFFIXES)}"
            )
        return cls(path=text, kind=kind)


def entries(texts: Iterable[str]) -> tuple[LinkEntry, ...]:
    """Return the entries in order.

    Raises:
        ValueError: one is invalid, or is given twice.
    """
    by_text: dict[str, LinkEntry] = {}
    for text in texts:
        if text in by_text:
            raise ValueError(f"{text!r} is given twice")
        by_text[text] = LinkEntry.parse(text)
    return tuple(by_text.values())
