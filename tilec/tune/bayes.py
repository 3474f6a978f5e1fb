"""Bayesian search: optuna's tree-structured Parzen estimator over the axes; the only module that
knows optuna.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tilec.tune.search import Ask
from tilec.tune.space import Point
from tilec_runtime.errors import MissingError
from tilec_runtime.model.kernel import AxisValue

# Proposals in a row that are no new candidate before the next of a random order is taken.
_TRIES = 32


def optuna() -> Any:
    """The package.

    Raises:
        MissingError: it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import optuna as package
    except ImportError as error:
        fix = "python -m pip install 'tilec[tune]', or take --search halving, which needs nothing"
        raise MissingError(
            "--search bayes needs the package optuna, which is not installed", fix=fix
        ) from error
    package.logging.set_verbosity(package.logging.ERROR)
    return package


class BayesSearcher:
    """Proposes where optuna expects low times; points that the matrix excludes, and those tried
    before, are passed over.

    Args:
        points: that may be tried, by place.
        order: the same places at random: what is tried where proposals bring nothing new.
        most: candidates to try.
        seed: of the random numbers.
    """

    def __init__(
        self, points: Mapping[int, Point], order: Sequence[int], *, most: int, seed: int
    ) -> None:
        self._api = package = optuna()
        sampler = package.samplers.TPESampler(
            seed=seed, n_startup_trials=max(4, min(10, most // 3))
        )
        self._study = package.create_study(direction="minimize", sampler=sampler)
        self._places = {point: place for place, point in points.items()}
        self._points = points
        self._left = most
        self._order = list(reversed(order))
        self._open: dict[int, Any] = {}
        self._seen: set[int] = set()
        names = [name for name, _ in next(iter(points.values()), ())]
        values = {
            name: list(dict.fromkeys(dict(point)[name] for point in points.values()))
            for name in names
        }
        self._values = {name: _ordered(each) for name, each in values.items()}
        self._space: dict[str, Any] = {
            name: package.distributions.IntDistribution(0, len(each) - 1)
            if _is_number(each[0])
            else package.distributions.CategoricalDistribution(range(len(each)))
            for name, each in self._values.items()
            if len(each) > 1
        }

    def ask(self) -> Ask | None:
        """A point that was not tried yet."""
        if not self._left:
            return None
        self._left -= 1
        place, trial = self._proposed() or self._enqueued()
        self._seen.add(place)
        self._open[place] = trial
        return Ask(place=place)

    def tell(self, ask: Ask, seconds: float | None) -> None:
        """Let optuna know."""
        trial = self._open.pop(ask.place)
        if seconds is None:
            self._study.tell(trial, state=self._api.trial.TrialState.FAIL)
        else:
            self._study.tell(trial, seconds)

    @property
    def done(self) -> bool:
        """As many were tried as may be."""
        return not self._left and not self._open

    @property
    def ahead(self) -> Sequence[int]:
        """Nobody knows: the next proposal depends on the last result."""
        return ()

    def _proposed(self) -> tuple[int, Any] | None:
        for _ in range(_TRIES):
            trial = self._study.ask(self._space)
            point = tuple(
                (name, each[trial.params.get(name, 0)]) for name, each in self._values.items()
            )
            place = self._places.get(point)
            if place is not None and place not in self._seen:
                return place, trial
            self._study.tell(trial, state=self._api.trial.TrialState.FAIL)
        return None

    def _enqueued(self) -> tuple[int, Any]:
        """The next of the random order, as a trial of optuna's, so that it learns of it too."""
        place = next(place for place in reversed(self._order) if place not in self._seen)
        self._study.enqueue_trial(
            {
                name: _place(self._values[name], value)
                for name, value in self._points[place]
                if name in self._space
            }
        )
        return place, self._study.ask(self._space)


def _ordered(values: list[AxisValue]) -> list[AxisValue]:
    """Values of an axis; numbers by size, so that what lies beside a good one is near it."""
    return sorted(values) if _is_number(values[0]) else values


def _is_number(value: AxisValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _place(values: list[AxisValue], value: AxisValue) -> int:
    return next(
        place for place, each in enumerate(values) if each == value and type(each) is type(value)
    )
