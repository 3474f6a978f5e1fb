"""Suggestions for unknown words: the nearest known word."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word nearest to `word`, or an empty string if none is near."""
    options = sorted(set(known))
    folded = {_fold(option): option for option in reversed(options)}
    if _fold(word) in folded:
        return folded[_fold(word)]
    # Imported here: only errors need it.
    from difflib import get_close_matches

    matches = get_close_matches(word, options, n=1, cutoff=0.6) or [
        folded[close] for close in get_close_matches(_fold(word), list(folded), n=1, cutoff=0.6)
    ]
    return matches[0] if matches else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'X'`, or an empty string if no known word is near."""
    near = nearest(word, known)
    return f"did you mean {near!r}" if near else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'X'`, the end of a message, or an empty string."""
    text = suggestion(word, known)
    return text and f"; {text}"


def _fold(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
