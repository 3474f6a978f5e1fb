"""Annotation values of kernel parameters."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

BACKWARD = -1
"""In place of a `MappedMut`'s strip height: number the tiles from the last one, so that it starts first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """The parameter is a compile-time constant."""


def annotated(cls: type, found: Any) -> Any:
    """Return `Annotated[cls, *found]`, which `Mut[T, (BM, BN)]` abbreviates."""
    special: Any = Annotated
    parts = (cls, *(found if isinstance(found, tuple) else (found,)))
    return special[parts]
