"""Tunes one kernel: compiles candidates while workers measure others, case after case."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tilec.bench.measure import MeasureOptions
from tilec.bench.statistics import Ratio, ratio_of
from tilec.manifest.types import Kernel
from tilec.tune import wire
from tilec.tune.candidates import CompiledPoint, KernelFacts, Make
from tilec.tune.cases import Prepared
from tilec.tune.log import TrialLog
from tilec.tune.search import Ask, Search, make_searcher
from tilec.tune.space import Point, Space, at_point
from tilec.tune.study import Study
from tilec.tune.trial import Trial
from tilec.tune.workplace import WorkerStoppedError, Workplace
from tilec_runtime.model.kernel import VariantInfo

# Poll interval in seconds while there is nothing to compile.
_LOOK = 0.2
# The part of samples and warm-up that a measurement of the least effort gets.
_PART = 0.4
# If clocks were throttled, candidates within this factor of the best are measured in turn with it:
# times taken one after another are not comparable.
_NEAR, _RIVALS = 1.1, 4
_MEASURE = MeasureOptions()  # of a full measurement
_RUN_OFF = MeasureOptions(least=30, seconds=0.5, precise=0.0)  # of the best in turn


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SessionOptions:
    """Options of a tuning session.

    Attributes:
        search: how candidates are chosen.
        budget: seconds for all cases together; 0 for no limit.
        most: candidates per case; 0 for all.
        seed: of the search.
        limit: seconds for checking and measuring one candidate.
        batch: candidates that are compiled together.
    """

    search: Search = Search.HALVING
    budget: float = 0.0
    most: int = 0
    seed: int = 0
    limit: float = 60.0
    batch: int = 4


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """The result of a case.

    Attributes:
        space: the search space.
        at: values of the kernel's size expressions.
        best: the winner; None if no candidate is correct.
        built: its variants.
        second, runoff: the runner-up, and the ratio of winner over runner-up measured in turn;
            None for a single candidate.
        pairs: number of samples of the run-off.
        trials: the last of each candidate, in the order of the space.
        untried: number of candidates that were not tried; `why_untried` has the reason.
    """

    space: Space
    at: tuple[int, ...]
    best: Trial | None
    built: tuple[VariantInfo, ...] = ()
    second: Trial | None = None
    runoff: Ratio | None = None
    pairs: int = 0
    trials: tuple[Trial, ...] = ()
    untried: int = 0
    why_untried: str = ""


class Progress(Protocol):
    """Receives the progress of a tuning, from any thread but one call at a time."""

    def case_begun(self, space: Space) -> None:
        """A case begins."""

    def trial_ended(self, space: Space, trial: Trial, best: Trial | None) -> None:
        """A candidate has its result; `best` is the best so far."""

    def case_ended(self, result: CaseResult) -> None:
        """A case has its winner."""

    def note(self, text: str) -> None:
        """A remark."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """The input of a tuning.

    Attributes:
        facts: of the kernel.
        kernel: its table of the manifest.
        prepared: its cases.
        make: compiles candidates; called in the thread of `run` only.
    """

    facts: KernelFacts
    kernel: Kernel
    prepared: tuple[Prepared, ...]
    make: Make


class Session:
    """One tuning.

    Args:
        work: the kernel, its cases and candidates.
        workplaces: the devices; closed by the caller.
        log: open; it receives every trial.
        known: trials of an interrupted tuning.
        options: how to tune.
        progress: receives the progress.
        clock: seconds, for the time budget.
    """

    def __init__(
        self,
        work: Work,
        workplaces: Sequence[Workplace],
        log: TrialLog,
        *,
        known: Sequence[Trial] = (),
        options: SessionOptions = SessionOptions(),
        progress: Progress,
        clock: Callable[[], float],
    ) -> None:
        self._work, self._workplaces, self._log = work, workplaces, log
        self._options, self._progress, self._clock = options, progress, clock
        self._known: dict[str, dict[Point, list[Trial]]] = {}
        for trial in known:
            self._known.setdefault(trial.case, {}).setdefault(trial.point, []).append(trial)
        self._compiled: dict[Point, CompiledPoint] = {}
        self._error: BaseException | None = None

    def run(self) -> tuple[CaseResult, ...]:
        """Tune every case; the log has all trials even if an error ends the session.

        Raises:
            MissingError: a device is lost.
            OSError: the log cannot be written.
        """
        end = self._clock() + self._options.budget
        results: list[CaseResult] = []
        for number, prepared in enumerate(self._work.prepared):
            # Each case gets an equal part of the time that is left.
            left = (end - self._clock()) / (len(self._work.prepared) - number)
            deadline = self._clock() + left if self._options.budget else float("inf")
            results.append(self._tune(prepared, deadline))
            self._progress.case_ended(results[-1])
        return tuple(results)

    def _tune(self, prepared: Prepared, deadline: float) -> CaseResult:
        space = prepared.space
        self._progress.case_begun(space)
        options, indices = self._options, range(len(space.points))
        study = Study(
            space,
            self._work.facts.info,
            make_searcher(
                options.search, space.points, indices, most=options.most, seed=options.seed
            ),
            known=self._known.get(space.case.name, {}),
            compiled=self._compiled,
            budget=self._work.kernel.budget,
            devices=len(self._workplaces),
            listener=functools.partial(self._note_trial, space),
            expired=lambda: self._clock() >= deadline,
        )
        threads = [
            threading.Thread(
                target=self._serve, args=(workplace, study, prepared), name=workplace.name
            )
            for workplace in self._workplaces
        ]
        for thread in threads:
            thread.start()
        try:
            self._supply(study, deadline)
        except BaseException:
            study.stop()
            for workplace in self._workplaces:
                workplace.stop()
            raise
        finally:
            for thread in threads:
                thread.join()
        if self._error is not None:
            raise self._error
        timed_out = self._clock() >= deadline
        return self._decide(study, prepared, timed_out)

    def _supply(self, study: Study, deadline: float) -> None:
        """Compile wanted candidates until the search is over or its time is up."""
        while not study.over:
            wanted = study.wanted(self._options.batch)
            if wanted:
                study.add_compiled(self._work.make(wanted))
            else:
                study.wait(_LOOK)
            if self._clock() >= deadline:
                study.stop()

    def _serve(self, workplace: Workplace, study: Study, prepared: Prepared) -> None:
        """Measure candidates on one device until the search ends."""
        try:
            while (taken := study.take()) is not None:
                ask, compiled = taken
                request = self._measure(prepared, ask, compiled)
                answer = workplace.ask(request, self._options.limit)
                study.ended(ask, answer, workplace.name)
        except WorkerStoppedError:
            study.stop()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of `run`
            self._error = self._error or error
            study.stop()

    def _measure(self, prepared: Prepared, ask: Ask, compiled: CompiledPoint) -> wire.Request:
        part = max(ask.effort, _PART)
        options = dataclasses.replace(
            _MEASURE,
            seconds=_MEASURE.seconds * ask.effort,
            least=max(3, round(_MEASURE.least * part)),
            warm_up=_MEASURE.warm_up * part,
        )
        point = prepared.space.points[ask.index]
        subject = self._subject(prepared, point, compiled)
        return wire.Request(subjects=(subject,), options=options)

    def _subject(self, prepared: Prepared, point: Point, compiled: CompiledPoint) -> wire.Subject:
        case = at_point(prepared.space.case, self._work.facts.info, point)
        return wire.Subject(bundle=compiled.bundle, case=case, expected=prepared.expected)

    def _note_trial(self, space: Space, trial: Trial, best: Trial | None, fresh: bool) -> None:
        if fresh:
            self._log.add(trial)
        self._progress.trial_ended(space, trial, best)

    def _decide(self, study: Study, prepared: Prepared, timed_out: bool) -> CaseResult:
        """Return the result of a case: measured in turn, the faster of the best wins."""
        space, ranked, trials = study.space, study.ranked(), study.trials
        untried = len(space.points) - len(trials)
        why = ""
        if untried:
            limit = f"--max-candidates is {self._options.most}"
            why = "the time limit was reached" if timed_out else limit
        rivals = _rivals(ranked, trials)
        # Trials of the log were not compiled in this tuning.
        self._have(trial.point for trial in (*ranked[:1], *rivals))
        best, met = self._side_by_side(prepared, ranked[0], rivals) if ranked else (None, [])
        second, runoff, pairs = max(met, key=lambda one: one[1].ratio, default=(None, None, 0))
        return CaseResult(
            space=space,
            at=prepared.at,
            best=best,
            built=self._compiled[best.point].variants if best else (),
            second=second,
            runoff=runoff,
            pairs=pairs,
            trials=trials,
            untried=untried,
            why_untried=why,
        )

    def _side_by_side(
        self, prepared: Prepared, best: Trial, rivals: Sequence[Trial]
    ) -> tuple[Trial, list[tuple[Trial, Ratio, int]]]:
        """Measure the best in turn with each rival; return the winner and its run-offs.

        A run-off has the rival, the ratio of the times, and the number of pairs.
        """
        met: list[tuple[Trial, Ratio, int]] = []
        for rival in rivals:
            samples = self._run_off(prepared, best, rival)
            if samples is None:
                break
            ratio = ratio_of(*samples)
            if ratio.certain and ratio.ratio > 1:
                best, rival, ratio, met = rival, best, ratio_of(*reversed(samples)), []
            met.append((rival, ratio, len(samples[0])))
        return best, met

    def _have(self, points: Iterable[Point]) -> None:
        """Compile missing points: the record has the winner's code and hints."""
        missing = [point for point in points if point not in self._compiled]
        if missing:
            self._compiled.update(self._work.make(missing))

    def _run_off(
        self, prepared: Prepared, first: Trial, second: Trial
    ) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Return samples of both, taken in turn on the first device; None on failure."""
        subjects = tuple(
            self._subject(prepared, trial.point, self._compiled[trial.point])
            for trial in (first, second)
        )
        request = wire.Request(subjects=subjects, options=_RUN_OFF)
        answer = self._workplaces[0].ask(request, 2 * self._options.limit)
        if not answer.measurements:
            self._progress.note(
                f"{prepared.space.case.name}: the two best could not be measured side by side: {answer.reason}"
            )
            return None
        one, other = answer.measurements
        return one.samples, other.samples


def _rivals(ranked: Sequence[Trial], trials: Sequence[Trial]) -> list[Trial]:
    """Return the candidates to measure in turn with the best: the second; after throttled clocks
    all that may be faster, even if they were given up early.
    """
    second = list(ranked[1:2])
    if not ranked or not any(one.measurement and one.measurement.held_back for one in trials):
        return second
    near = [
        trial
        for trial in trials
        if trial not in ranked[:2] and trial.seconds < _NEAR * ranked[0].seconds
    ]
    return [*second, *sorted(near, key=lambda trial: trial.seconds)][:_RIVALS]
