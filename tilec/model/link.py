"""An entry of `link`: a file of device functions that a kernel is linked with."""

from __future__ import annotations

import dataclasses
import enum
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
