"""Names of the arrays of a list."""

from __future__ import annotations


def item_name(name: str, index: int) -> str:
    """Return the name of one array of a list: `a_0`."""
    return f"{name}_{index}"
