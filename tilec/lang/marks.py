"""Marks in annotations of kernel parameters."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """The parameter is a compile-time constant."""


def annotated(cls: type, found: Any) -> Any:
    """`Annotated[cls, *found]`: what `Mut[T, (BM, BN)]` stands for."""
    special: Any = Annotated
    parts = (cls, *(found if isinstance(found, tuple) else (found,)))
    return special[parts]
