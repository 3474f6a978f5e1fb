"""The search of one case as threads share it, in one thread: who gets what, and what becomes of
what is given back.
"""

from __future__ import annotations

from tests.tune_samples import built
from tilec.bench.measure import Measurement
from tilec.manifest.types import Budget
from tilec.model.tuning import Status
from tilec.tune import wire
from tilec.tune.candidates import Made
from tilec.tune.cases import spaces_of
from tilec.tune.search import Search, make_searcher
from tilec.tune.study import Study
from tilec.tune.trial import Trial
from tilec_runtime.model.kernel import KernelInfo

MEASURED = wire.Measured(
    status=Status.MEASURED,
    measurement=Measurement(samples=(1e-3,) * 9, launches=1, steady=True),
    variant="v",
)


def study_of(
    info: KernelInfo, kernel, heard: list[tuple[Trial, bool]], *, devices: int, same: bool = False
) -> Study:
    space = spaces_of(kernel, info, ())[0]
    found = Study(
        space,
        info,
        make_searcher(Search.GRID, space.points, range(len(space.points)), most=0, seed=0),
        known={},
        budget=Budget(),
        devices=devices,
        listener=lambda trial, best, *, fresh: heard.append((trial, fresh)),
        expired=lambda: False,
    )
    found.compiled(
        {
            point: Made(variants=(built(point, symbol="s" if same else ""),), bundle="b")
            for point in space.points
        }
    )
    return found


def test_a_candidate_moves_from_a_lost_device_once(info: KernelInfo, kernel) -> None:
    heard: list[tuple[Trial, bool]] = []
    study = study_of(info, kernel, heard, devices=3)
    first, _ = study.take()
    study.given_back(first)
    again, _ = study.take()
    assert again == first
    assert not heard
    study.given_back(again)
    (trial, fresh), *_ = heard
    assert (trial.status, trial.reason, fresh) == (
        Status.FAILED,
        "2 devices went away while they ran it",
        True,
    )
    other, _ = study.take()
    assert other.place != first.place


def test_it_is_over_with_the_last_device(info: KernelInfo, kernel) -> None:
    study = study_of(info, kernel, [], devices=1)
    ask, _ = study.take()
    study.given_back(ask)
    assert study.over
    assert study.take() is None
    assert study.wanted(8) == []


def test_equal_code_is_measured_once(info: KernelInfo, kernel) -> None:
    """The grid of the kernel counts tiles of BM, so that they differ although their code does not."""
    study = study_of(info, kernel, [], devices=1, same=True)
    taken = []
    while (got := study.take()) is not None:
        taken.append(got[0].place)
        study.ended(got[0], MEASURED)
    assert taken == [0, 1, 2]
    assert [trial.status for trial in study.trials] == [Status.MEASURED] * 3
