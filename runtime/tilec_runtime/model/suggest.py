"""Did you mean: the nearest known word to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` was most likely meant to be, or an empty text where none is near."""
    options = sorted(set(known))
    folded = {_fold(option): option for option in reversed(options)}
    if _fold(word) in folded:
        return folded[_fold(word)]
    # Imported here: only errors need it.
    from difflib import get_close_matches

    found = get_close_matches(word, options, n=1, cutoff=0.6) or [
        folded[close] for close in get_close_matches(_fold(word), list(folded), n=1, cutoff=0.6)
    ]
    return found[0] if found else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'X'` to hang on a message, or an empty text where nothing is near."""
    found = nearest(word, known)
    return f"; did you mean {found!r}" if found else ""


def _fold(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
