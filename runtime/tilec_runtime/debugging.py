"""What `TILEC_DEBUG` in the environment asks for: words, with commas between them."""

from __future__ import annotations

import functools
import os
import warnings

_WORDS = ("1", "launches", "leases")


@functools.cache
def debugging() -> frozenset[str]:
    """The words that are asked for; looked at once. Those that there are not are told once, and
    left out.
    """
    words = {word.strip() for word in os.environ.get("TILEC_DEBUG", "").split(",")} - {""}
    unknown = sorted(words.difference(_WORDS))
    if unknown:
        known = ", ".join(_WORDS)
        told = f"TILEC_DEBUG has {', '.join(map(repr, unknown))}, which means nothing: there are {known}, with commas between them"
        warnings.warn(told, RuntimeWarning, stacklevel=2)
    return frozenset(words.intersection(_WORDS))
