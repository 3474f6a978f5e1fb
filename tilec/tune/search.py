"""Search strategies: each chooses the next candidate by its number alone."""

from __future__ import annotations

import dataclasses
import enum
import random
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tilec.tune.space import Point
from tilec_runtime.errors import MissingError
from tilec_runtime.model.kernel import AxisValue

ETA = 3  # halving keeps one candidate in 3, and measures it 3 times as long
_FINALISTS = 3
# Proposals of optuna in a row without a new candidate, before the next of a random order is taken.
_TRIES = 32


class Search(enum.Enum):
    """Search strategy."""

    GRID = "grid"
    RANDOM = "random"
    BAYES = "bayes"
    HALVING = "halving"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """A candidate to try, by its number, and the part of a full measurement to make."""

    index: int
    effort: float = 1.0


class Searcher(Protocol):
    """Chooses candidates. Devices measure in parallel, so that asks may precede earlier results."""

    def ask(self) -> Ask | None:
        """Return what to try next; None if nothing is to be tried now."""

    def tell(self, ask: Ask, seconds: float | None) -> None:
        """Record the time of a candidate, or None if it failed; once per ask."""

    @property
    def done(self) -> bool:
        """Whether all asks were told, and no more will come."""

    @property
    def ahead(self) -> Sequence[int]:
        """The candidates that will be proposed next, or none if it cannot tell."""


def require_search(search: Search) -> None:
    """Check for what a search needs, before anything is compiled or written.

    Raises:
        MissingError: Bayesian search needs a package that is not installed.
    """
    if search is Search.BAYES:
        _optuna()


def make_searcher(
    search: Search, points: Sequence[Point], indices: Sequence[int], *, most: int, seed: int
) -> Searcher:
    """Return a searcher.

    Args:
        search: which one.
        points: of all candidates.
        indices: numbers of the candidates that may be tried.
        most: candidates it may try; 0 for all.
        seed: of its random numbers.

    Raises:
        MissingError: Bayesian search needs a package that is not installed.
    """
    most = min(most or len(indices), len(indices))
    shuffled = list(indices)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - no secret
    match search:
        case Search.GRID:
            return RoundsSearcher(indices[:most])
        case Search.RANDOM:
            return RoundsSearcher(shuffled[:most])
        case Search.HALVING:
            rounds = 0
            while most > _FINALISTS * ETA**rounds:
                rounds += 1
            return RoundsSearcher(shuffled[:most], rounds=rounds)
        case Search.BAYES:
            allowed = {index: points[index] for index in indices}
            return BayesSearcher(allowed, shuffled, most=most, seed=seed)


class RoundsSearcher:
    """Tries candidates in order; each round but the last leaves the best third for the next one.

    Args:
        indices: of the candidates.
        rounds: number of shorter measurements before the full one, each 3 times as long as the
            one before.
    """

    def __init__(self, indices: Sequence[int], *, rounds: int = 0) -> None:
        self._effort = 1.0 / ETA**rounds
        self._left = list(reversed(indices))
        self._open = 0
        self._times: dict[int, float] = {}

    def ask(self) -> Ask | None:
        """Return the next candidate of this round; a round ends when all its results are in."""
        if not self._left and not self._open and self._effort < 1.0:
            best = sorted(self._times, key=lambda index: (self._times[index], index))
            self._left = list(reversed(best[: max(_FINALISTS, -(-len(best) // ETA))]))
            self._times.clear()
            self._effort = min(1.0, self._effort * ETA)
        if not self._left:
            return None
        self._open += 1
        return Ask(index=self._left.pop(), effort=self._effort)

    def tell(self, ask: Ask, seconds: float | None) -> None:
        """Take a time; a candidate without one is in no further round."""
        self._open -= 1
        if seconds is not None:
            self._times[ask.index] = seconds

    @property
    def done(self) -> bool:
        """Whether the last round is over, or no candidate is left for another one."""
        return not self._left and not self._open and (self._effort >= 1.0 or not self._times)

    @property
    def ahead(self) -> Sequence[int]:
        """The rest of this round."""
        return self._left[::-1]


class BayesSearcher:
    """Proposes what optuna's tree-structured Parzen estimator expects to be fast.

    Points that the matrix excludes, and those tried before, are skipped.

    Args:
        points: that may be tried, by number.
        order: the same numbers in random order, for when proposals bring nothing new.
        most: candidates to try.
        seed: of the random numbers.
    """

    def __init__(
        self, points: Mapping[int, Point], order: Sequence[int], *, most: int, seed: int
    ) -> None:
        self._api = package = _optuna()
        sampler = package.samplers.TPESampler(
            seed=seed, n_startup_trials=max(4, min(10, most // 3))
        )
        self._study = package.create_study(direction="minimize", sampler=sampler)
        self._points, self._order, self._left = points, order, most
        self._indices = {point: index for index, point in points.items()}
        self._open: dict[int, Any] = {}
        self._seen: set[int] = set()
        self._values: dict[str, list[AxisValue]] = {}
        for name, value in dict.fromkeys(pair for point in points.values() for pair in point):
            self._values.setdefault(name, []).append(value)
        self._space: dict[str, Any] = {}
        for name, values in self._values.items():
            if isinstance(values[0], str | bool):
                kind = package.distributions.CategoricalDistribution(range(len(values)))
            else:
                values.sort()  # neighbours of a good number are near it
                kind = package.distributions.IntDistribution(0, len(values) - 1)
            if len(values) > 1:
                self._space[name] = kind

    def ask(self) -> Ask | None:
        """Return a point that was not tried yet."""
        if not self._left:
            return None
        self._left -= 1
        index, trial = self._proposed() or self._enqueued()
        self._seen.add(index)
        self._open[index] = trial
        return Ask(index=index)

    def tell(self, ask: Ask, seconds: float | None) -> None:
        """Pass the time to optuna."""
        trial = self._open.pop(ask.index)
        if seconds is None:
            self._study.tell(trial, state=self._api.trial.TrialState.FAIL)
        else:
            self._study.tell(trial, seconds)

    @property
    def done(self) -> bool:
        """Whether as many were tried as allowed."""
        return not self._left and not self._open

    @property
    def ahead(self) -> Sequence[int]:
        """None: the next proposal depends on the last result."""
        return ()

    def _proposed(self) -> tuple[int, Any] | None:
        for _ in range(_TRIES):
            trial = self._study.ask(self._space)
            chosen = {name: trial.params.get(name, 0) for name in self._values}
            point = tuple((name, self._values[name][at]) for name, at in chosen.items())
            index = self._indices.get(point)
            if index is not None and index not in self._seen:
                return index, trial
            self._study.tell(trial, state=self._api.trial.TrialState.FAIL)
        return None

    def _enqueued(self) -> tuple[int, Any]:
        """Return the next of the random order, as a trial that optuna learns from."""
        index = next(index for index in self._order if index not in self._seen)
        point = self._points[index]
        self._study.enqueue_trial(
            {name: self._values[name].index(v) for name, v in point if name in self._space}
        )
        return index, self._study.ask(self._space)


def _optuna() -> Any:
    """Import optuna.

    Raises:
        MissingError: it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import optuna
    except ImportError as error:
        fix = "python -m pip install 'tilec[tune]', or use --search halving"
        raise MissingError(
            "--search bayes needs the package optuna, which is not installed", fix=fix
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna
