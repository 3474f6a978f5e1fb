"""Which candidate is tried next: searchers over places of a list, told of every result; none knows
what a candidate is.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Sequence
from typing import Protocol

from tilec.tune.space import Point

ETA = 3  # halving keeps one of so many, and measures so many times as long
_FINALISTS = 3


class Search(enum.Enum):
    """How candidates are chosen."""

    GRID = "grid"
    RANDOM = "random"
    BAYES = "bayes"
    HALVING = "halving"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """A candidate to try, by its place, and what part of a full measurement to make of it."""

    place: int
    effort: float = 1.0


class Searcher(Protocol):
    """Chooses candidates. It may be asked several times before it is told anything: several devices
    measure at once.
    """

    def ask(self) -> Ask | None:
        """What to try next; None where nothing is to be tried now."""

    def tell(self, ask: Ask, seconds: float | None) -> None:
        """What came of it: its time, or None where it has none. Every ask is told once."""

    @property
    def done(self) -> bool:
        """Whether everything that was asked was told, and nothing more will be asked."""

    @property
    def ahead(self) -> Sequence[int]:
        """Places that will be asked for next, whatever is told; none where that is not known."""


def require_search(search: Search) -> None:
    """Look for what a search needs, before anything is compiled or written.

    Raises:
        MissingError: Bayesian search needs a package that is not installed.
    """
    if search is Search.BAYES:
        from tilec.tune.bayes import optuna

        optuna()


def make_searcher(
    search: Search, points: Sequence[Point], places: Sequence[int], *, most: int, seed: int
) -> Searcher:
    """A searcher.

    Args:
        search: which.
        points: of all candidates.
        places: of those that may be tried.
        most: candidates it may try; 0 for all.
        seed: of its random numbers.

    Raises:
        MissingError: Bayesian search needs a package that is not installed.
    """
    most = min(most or len(places), len(places))
    shuffled = list(places)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - no secret
    match search:
        case Search.GRID:
            return ListSearcher(places[:most])
        case Search.RANDOM:
            return ListSearcher(shuffled[:most])
        case Search.HALVING:
            return HalvingSearcher(shuffled[:most])
        case Search.BAYES:
            from tilec.tune.bayes import BayesSearcher

            return BayesSearcher(
                {place: points[place] for place in places}, shuffled, most=most, seed=seed
            )


class ListSearcher:
    """Tries a list in its order, each with full effort."""

    def __init__(self, places: Sequence[int]) -> None:
        self._left = list(reversed(places))
        self._open = 0

    def ask(self) -> Ask | None:
        """The next of the list."""
        if not self._left:
            return None
        self._open += 1
        return Ask(place=self._left.pop())

    def tell(self, ask: Ask, seconds: float | None) -> None:  # noqa: ARG002 - the list does not depend on times
        """One less is open."""
        self._open -= 1

    @property
    def done(self) -> bool:
        """The list is at its end."""
        return not self._left and not self._open

    @property
    def ahead(self) -> Sequence[int]:
        """The rest of the list."""
        return self._left[::-1]


class HalvingSearcher:
    """Successive halving: all get a short measurement, the best third three times as long, until
    few are left, which get the full one.
    """

    def __init__(self, places: Sequence[int]) -> None:
        rounds = 0
        while len(places) > _FINALISTS * ETA**rounds:
            rounds += 1
        self._effort = 1.0 / ETA**rounds
        self._left = list(reversed(places))
        self._open = 0
        self._times: dict[int, float] = {}

    def ask(self) -> Ask | None:
        """The next of this round; the next round begins when all of this one were told."""
        if not self._left and not self._open and self._effort < 1.0:
            best = sorted(self._times, key=lambda place: (self._times[place], place))
            self._left = list(reversed(best[: max(_FINALISTS, -(-len(best) // ETA))]))
            self._times.clear()
            self._effort = min(1.0, self._effort * ETA)
        if not self._left:
            return None
        self._open += 1
        return Ask(place=self._left.pop(), effort=self._effort)

    def tell(self, ask: Ask, seconds: float | None) -> None:
        """Take note of a time; what has none is in no further round."""
        self._open -= 1
        if seconds is not None:
            self._times[ask.place] = seconds

    @property
    def done(self) -> bool:
        """The last round is over, or nobody is left for another one."""
        return not self._left and not self._open and (self._effort >= 1.0 or not self._times)

    @property
    def ahead(self) -> Sequence[int]:
        """The rest of this round."""
        return self._left[::-1]
