"""How far results on the cpu device may be from a GPU's, in units in the last place of the output. What is not listed is bit-equal."""

from __future__ import annotations

from tests.corpus.entries import Entry

# operation: largest distance by dtype of the output ("" for all others). The reason stands behind.
TOLERANCES: dict[str, dict[str, float]] = {}


def tolerance(entry: Entry) -> float:
    """Units in the last place that an entry's outputs may be off; 0 for bit-equal."""
    row = TOLERANCES.get(entry.operation, {})
    out = next(arg.dtype for arg in entry.args if arg.out)
    return row.get(out, row.get("", 0.0))
