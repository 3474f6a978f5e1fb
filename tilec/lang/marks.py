"""Marks in annotations of kernel parameters."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """The parameter is a compile-time constant."""
