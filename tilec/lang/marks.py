"""Marks in annotations of kernel parameters."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

BACKWARD = -1
"""In place of the strips of a `MappedMut`: its tiles are numbered from the last one, so that those start first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """The parameter is a compile-time constant."""


def annotated(cls: type, found: Any) -> Any:
    """`Annotated[cls, *found]`: what `Mut[T, (BM, BN)]` stands for."""
    special: Any = Annotated
    parts = (cls, *(found if isinstance(found, tuple) else (found,)))
    return special[parts]
