"""Things that are one and stay one: an op that runs once, a stream that is given back once."""

from __future__ import annotations

from typing import NoReturn


class Uncopied:
    """What can be neither pickled nor copied: there would be two of it."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """What pickle, copy.copy and copy.deepcopy ask.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"a {type(self).__name__} can be neither pickled nor copied: pass it on, or make another one"
        )
