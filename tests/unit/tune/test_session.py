"""A whole tuning without processes: workers are functions here, candidates are made at once, and
the clock is a list.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.tune_samples import built
from tilec.bench.measure import Measurement
from tilec.manifest.types import Budget
from tilec.model.tuning import Status
from tilec.tune import wire
from tilec.tune.candidates import CompiledPoint, KernelFacts
from tilec.tune.cases import Prepared, spaces_of
from tilec.tune.log import Header, TrialLog
from tilec.tune.search import Search
from tilec.tune.session import Session, SessionOptions, Work
from tilec.tune.space import Point, Space
from tilec.tune.trial import Trial
from tilec.tune.workplace import WorkerStoppedError
from tilec_runtime.errors import NoDeviceError
from tilec_runtime.model.kernel import KernelInfo

HEADER = Header(
    kernel="gemm",
    kernel_digest="a",
    space_digest="b",
    cases_digest="c",
    target="sm_90",
    device="GPU",
    toolchain="",
)
TIMES = {32: 3e-3, 64: 1e-3, 128: 2e-3}
Answer = Callable[[wire.Request], wire.Measured]


def tile(subject: wire.Subject) -> int:
    return int(dict(subject.case.axes)["BM"])


def samples(bm: int) -> tuple[float, ...]:
    return tuple(TIMES[bm] * (1 + (i % 3) * 1e-3) for i in range(30))


def measured(request: wire.Request) -> wire.Measured:
    measurements = tuple(
        Measurement(samples=samples(tile(one)), launches=1, steady=True) for one in request.subjects
    )
    return wire.Measured(
        status=Status.MEASURED, measurements=measurements, variant="v", cache="as it is"
    )


@dataclasses.dataclass
class Place:
    """A workplace whose worker is a function."""

    name: str = "cuda:0"
    answer: Answer = measured
    asked: list[wire.Request] = dataclasses.field(default_factory=list)
    stopped: threading.Event = dataclasses.field(default_factory=threading.Event)

    def ask(self, request: wire.Request, limit: float) -> wire.Measured:
        self.asked.append(request)
        if self.stopped.is_set():
            raise WorkerStoppedError
        return measured(request) if len(request.subjects) > 1 else self.answer(request)

    def stop(self) -> None:
        self.stopped.set()

    @property
    def tiles(self) -> list[int]:
        return [tile(one.subjects[0]) for one in self.asked if len(one.subjects) == 1]

    @property
    def pairs(self) -> list[tuple[int, ...]]:
        return [tuple(map(tile, one.subjects)) for one in self.asked if len(one.subjects) > 1]


@dataclasses.dataclass
class Maker:
    """Compiles at once; `broken` tiles do not compile, `heavy` ones take too many registers."""

    broken: frozenset[int] = frozenset()
    heavy: frozenset[int] = frozenset()

    def make(self, points: Sequence[Point]) -> Mapping[Point, CompiledPoint]:
        return {point: self._made(point) for point in points}

    def _made(self, point: Point) -> CompiledPoint:
        bm = dict(point)["BM"]
        if bm in self.broken:
            return CompiledPoint(failure="it does not compile: no")
        return CompiledPoint(
            variants=(built(point, registers=250 if bm in self.heavy else 64),), bundle="b"
        )


class Heard:
    """Progress, kept."""

    def __init__(self) -> None:
        self.trials: list[tuple[Trial, Trial | None]] = []

    def nothing(self, what: object) -> None: ...

    case_begun = case_ended = note = nothing

    def trial_ended(self, space: Space, trial: Trial, best: Trial | None) -> None:
        self.trials.append((trial, best))


@pytest.fixture
def tune(info: KernelInfo, kernel, tmp_path: Path):
    """Runs a session; what it heard and its log are attributes."""

    def run(
        *places: Place,
        maker: Maker | None = None,
        known: Sequence[Trial] = (),
        clock=lambda: 0.0,
        log=None,
        **options,
    ):
        spaces = spaces_of(kernel, info, ())[:1]
        log = log or TrialLog(tmp_path / "log.jsonl")
        log.open(HEADER, keep=False)
        run.heard, run.log = Heard(), log
        facts = KernelFacts(
            info=info,
            kernel_digest="a",
            space_digest="b",
            toolchain=(),
            target="sm_90",
            sizes=(),
        )
        work = Work(
            facts=facts,
            kernel=dataclasses.replace(kernel, budget=Budget(registers=200)),
            prepared=tuple(Prepared(space=space, at=(), expected="") for space in spaces),
            make=(maker or Maker()).make,
        )
        settings = SessionOptions(**{"search": Search.GRID, **options})
        session = Session(
            work,
            places or (Place(),),
            log,
            known=known,
            options=settings,
            progress=run.heard,
            clock=clock,
        )
        try:
            (result,) = session.run()
        finally:
            log.close()
        return result

    return run


def test_the_fastest_wins_and_the_best_two_are_held_side_by_side(tune) -> None:
    place = Place()
    result = tune(place)
    assert dict(result.best.point)["BM"] == 64
    assert dict(result.second.point)["BM"] == 128
    assert result.runoff.ratio == pytest.approx(0.5)
    assert result.pairs == 30
    assert place.tiles == [32, 64, 128]
    assert place.pairs == [(64, 128)]
    bests = [dict(best.point)["BM"] for _, best in tune.heard.trials]
    assert bests == [32, 64, 64]


def test_held_back_clocks_widen_the_run_off(tune) -> None:
    """Measured one after the other, 128 was slow because the clock was; side by side it wins."""
    alone, beside = {32: 1.02, 64: 1.0, 128: 1.05}, {32: 1.02, 64: 1.0, 128: 0.9}

    class Throttled(Place):
        held = ("power",)

        def ask(self, request: wire.Request, limit: float) -> wire.Measured:
            super().ask(request, limit)
            times = alone if len(request.subjects) == 1 else beside
            measurements = tuple(
                Measurement(
                    samples=(1e-3 * times[tile(one)],) * 30,
                    launches=1,
                    steady=True,
                    held_back=Throttled.held,
                )
                for one in request.subjects
            )
            return wire.Measured(status=Status.MEASURED, measurements=measurements, variant="v")

    place = Throttled()
    result = tune(place)
    assert [dict(trial.point)["BM"] for trial in (result.best, result.second)] == [128, 64]
    assert result.runoff.ratio == pytest.approx(0.9)
    assert place.pairs == [(64, 32), (64, 128)]
    Throttled.held = ()
    place = Throttled()
    assert dict(tune(place).best.point)["BM"] == 64
    assert len(place.pairs) == 1


@pytest.mark.parametrize("search", list(Search))
def test_every_search_finds_it_on_one_device_and_on_three(tune, search: Search) -> None:
    for count in (1, 3):
        places = [Place(f"cuda:{i}") for i in range(count)]
        result = tune(*places, search=search)
        assert dict(result.best.point)["BM"] == 64
        assert sum(len(place.tiles) for place in places) == 3


def test_records_failed_candidates_with_their_reason(tune) -> None:
    place = Place(
        answer=lambda request: wire.Measured(status=Status.WRONG, reason="c[0] is 1, expected 2")
    )
    result = tune(place, maker=Maker(broken=frozenset({32}), heavy=frozenset({128})))
    assert result.best is None
    assert place.tiles == [64]
    found = {dict(trial.point)["BM"]: (trial.status, trial.reason) for trial in result.trials}
    assert found == {
        32: (Status.FAILED, "it does not compile: no"),
        64: (Status.WRONG, "c[0] is 1, expected 2"),
        128: (Status.PRUNED, "registers 250, over the budget of 200"),
    }
    assert len(tune.log.read(HEADER)) == 3


def test_resuming_measures_no_trial_again(tune) -> None:
    tune(Place())
    known = tune.log.read(HEADER)
    place = Place()
    result = tune(place, known=known[:2])
    assert place.tiles == [128]
    assert dict(result.best.point)["BM"] == 64
    assert len(tune.log.read(HEADER)) == 1, "what is known is not written twice"


def test_when_time_is_up_the_best_so_far_wins(tune) -> None:
    now = [0.0]

    def answer(request: wire.Request) -> wire.Measured:
        now[0] += 10.0
        return measured(request)

    result = tune(Place(answer=answer), clock=lambda: now[0], budget=5.0, batch=1)
    assert 0 < len(result.trials) < 3
    assert result.untried == 3 - len(result.trials)
    assert result.why_untried == "the time limit was reached"
    assert result.best is not None


def gone(request: wire.Request) -> wire.Measured:
    raise NoDeviceError("cuda:0 fell off the bus", fix="restart")


def test_when_a_device_goes_the_log_has_what_was_measured(tune) -> None:
    def last(request):
        return gone(request) if tile(request.subjects[0]) == 128 else measured(request)

    with pytest.raises(NoDeviceError, match="fell off the bus"):
        tune(Place(answer=last))
    assert [dict(trial.point)["BM"] for trial in tune.log.read(HEADER)] == [32, 64]


def test_the_other_devices_stop_when_one_goes(tune) -> None:
    fell = threading.Event()

    def fall(request: wire.Request) -> wire.Measured:
        fell.set()
        return gone(request)

    def patient(request: wire.Request) -> wire.Measured:
        assert fell.wait(timeout=30)
        return measured(request)

    with pytest.raises(NoDeviceError, match="fell off the bus"):
        tune(Place("cuda:0", answer=fall), Place("cuda:1", answer=patient))
    assert len(tune.log.read(HEADER)) <= 2


def test_an_interrupt_ends_workers_and_threads(tune) -> None:
    place = Place()

    class Interrupted(Maker):
        def make(self, points: Sequence[Point]) -> Mapping[Point, CompiledPoint]:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        tune(place, maker=Interrupted())
    assert place.stopped.is_set()
    assert threading.active_count() == before
