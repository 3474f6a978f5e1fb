"""Searches, and the study that gives their points to devices."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from tests.tune_samples import built
from tilec.bench.measure import Measurement
from tilec.manifest.types import Budget
from tilec.model.tuning import Status
from tilec.tune import wire
from tilec.tune.candidates import CompiledPoint
from tilec.tune.cases import spaces_of
from tilec.tune.search import Ask, Search, Searcher, make_searcher
from tilec.tune.study import Study
from tilec_runtime.errors import MissingError
from tilec_runtime.model.kernel import KernelInfo

POINTS = [
    (("BM", bm), ("BN", bn), ("MODE", mode))
    for bm, bn, mode in itertools.product((16, 32, 64, 128), (16, 32, 64, 128), ("a", "b"))
]


ALL = range(len(POINTS))


def cost(place: int) -> float:
    """The best is BM=64 BN=32 MODE=b."""
    point = dict(POINTS[place])
    return 1 + abs(point["BM"] - 64) / 16 + abs(point["BN"] - 32) / 16 + (point["MODE"] == "a")


BEST = min(ALL, key=cost)


def drive(
    searcher: Searcher, *, workers: int = 1, fails: frozenset[int] = frozenset()
) -> list[Ask]:
    """Ask as `workers` devices do that end in the order in which they began, until it is done."""
    asked: list[Ask] = []
    running: list[Ask] = []
    while not searcher.done:
        while len(running) < workers and (ask := searcher.ask()) is not None:
            running.append(ask)
            asked.append(ask)
        assert running, "nothing runs, and it is not done"
        ended = running.pop(0)
        searcher.tell(ended, None if ended.index in fails else cost(ended.index))
    return asked


@pytest.mark.parametrize("search", list(Search))
@pytest.mark.parametrize("workers", [1, 3])
def test_every_search_ends_where_all_fail_or_few_are_there(search: Search, workers: int) -> None:
    drive(make_searcher(search, POINTS, ALL, most=0, seed=0), workers=workers, fails=frozenset(ALL))
    assert drive(make_searcher(search, POINTS, [5], most=0, seed=0), workers=workers)[0].index == 5
    assert make_searcher(search, POINTS, [], most=0, seed=0).ask() is None


def test_halving_gives_most_time_to_the_few_that_are_good() -> None:
    asked = drive(make_searcher(Search.HALVING, POINTS, ALL, most=0, seed=0), workers=2)
    rounds = Counter(round(ask.effort, 4) for ask in asked)
    assert rounds == {0.037: 32, 0.1111: 11, 0.3333: 4, 1.0: 3}
    finalists = [ask.index for ask in asked if ask.effort == 1.0]
    assert sorted(finalists) == sorted(sorted(ALL, key=cost)[:3])
    assert finalists[0] == BEST


def test_bayes_asks_for_no_point_that_the_matrix_excludes() -> None:
    left = [place for place in ALL if dict(POINTS[place])["BM"] >= dict(POINTS[place])["BN"]]
    asked = drive(
        make_searcher(Search.BAYES, POINTS, left, most=0, seed=1),
        workers=2,
        fails=frozenset(left[::5]),
    )
    assert sorted(ask.index for ask in asked) == left


def test_bayes_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingError) as caught:
        make_searcher(Search.BAYES, POINTS, ALL, most=0, seed=0)
    assert caught.value.what == "--search bayes needs the package optuna, which is not installed"
    assert "tilec[tune]" in caught.value.fix


MEASURED = wire.Measured(
    status=Status.MEASURED,
    measurements=(Measurement(samples=(1e-3,) * 9, launches=1, steady=True),),
    variant="v",
)


def test_equal_code_is_measured_once(info: KernelInfo, kernel) -> None:
    """The grid of the kernel counts tiles of BM, so that they differ although their code does not."""
    space = spaces_of(kernel, info, ())[0]
    study = Study(
        space,
        info,
        make_searcher(Search.GRID, space.points, range(len(space.points)), most=0, seed=0),
        known={},
        compiled={
            point: CompiledPoint(variants=(built(point, symbol="s"),), bundle="b")
            for point in space.points
        },
        budget=Budget(),
        devices=1,
        listener=lambda *_: None,
        expired=lambda: False,
    )
    taken = []
    while (got := study.take()) is not None:
        taken.append(got[0].index)
        study.ended(got[0], MEASURED)
    assert taken == [0, 1, 2]
    assert [trial.status for trial in study.trials] == [Status.MEASURED] * 3
