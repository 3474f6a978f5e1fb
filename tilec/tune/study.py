"""The search of one case, shared by threads: what to compile and measure next, and the best."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from tilec.manifest.types import Budget
from tilec.model.tuning import Status
from tilec.tune import wire
from tilec.tune.candidates import CompiledPoint
from tilec.tune.prune import identity, refusal
from tilec.tune.search import Ask, Searcher
from tilec.tune.space import Point, Space, point_text
from tilec.tune.trial import Trial
from tilec_runtime.model.kernel import KernelInfo

# Candidates requested beyond those being measured, to compile meanwhile.
_AHEAD = 1

# Receives every trial, the best so far, and whether the trial is new: not of an earlier tuning.
Listener = Callable[[Trial, Trial | None, bool], None]


class Study:
    """The search of one case. Every method may be called from any thread.

    Args:
        space: the search space.
        info: the kernel.
        searcher: chooses candidates.
        known: trials of an earlier tuning, by point.
        compiled: outcomes of compiling; the study adds those that it is given.
        budget: of resources.
        devices: number of devices that measure.
        listener: receives trials, under the lock.
        expired: returns whether the time is up.
    """

    def __init__(
        self,
        space: Space,
        info: KernelInfo,
        searcher: Searcher,
        *,
        known: Mapping[Point, Sequence[Trial]],
        compiled: dict[Point, CompiledPoint],
        budget: Budget,
        devices: int,
        listener: Listener,
        expired: Callable[[], bool],
    ) -> None:
        self.space = space
        self.over = False
        self._info, self._searcher, self._known, self._budget = info, searcher, known, budget
        self._devices, self._listener, self._expired = devices, listener, expired
        self._change = threading.Condition()
        self._open: list[Ask] = []
        self._busy = 0
        self._compiled = compiled
        self._trials: dict[int, Trial] = {}
        self._codes: dict[object, int] = {}

    def take(self) -> tuple[Ask, CompiledPoint] | None:
        """Wait for a compiled candidate to measure; return None when the search is over."""
        with self._change:
            while not self.over:
                if self._expired():
                    self._finish()
                    break
                self._fill()
                if sum(self._settle(ask) for ask in list(self._open)):
                    continue  # the searcher may ask for others now
                ask = next((ask for ask in self._open if self._point(ask) in self._compiled), None)
                if ask is not None:
                    self._open.remove(ask)
                    self._busy += 1
                    return ask, self._compiled[self._point(ask)]
                if self._searcher.done and not self._open and not self._busy:
                    self._finish()
                else:
                    self._change.wait()
            return None

    def ended(self, ask: Ask, answer: wire.Measured, device: str = "") -> None:
        """Take the answer for a candidate."""
        with self._change:
            self._busy -= 1
            trial = Trial(
                case=self.space.case.name,
                point=self._point(ask),
                status=answer.status,
                reason=answer.reason,
                effort=ask.effort,
                measurement=answer.measurements[0] if answer.measurements else None,
                variant=answer.variant,
                cache=answer.cache,
                device=device,
            )
            self._tell(ask, trial)

    def wanted(self, most: int) -> list[Point]:
        """Return points to compile next: requested ones first, then those ahead."""
        with self._change:
            if self.over:
                return []
            self._fill()
            for ask in list(self._open):
                self._settle(ask)
            points = [self._point(ask) for ask in self._open]
            ahead = (self.space.points[index] for index in self._searcher.ahead)
            points += [point for point in ahead if self._remembered(point, 0.0) is None]
            return [point for point in dict.fromkeys(points) if point not in self._compiled][:most]

    def add_compiled(self, points: Mapping[Point, CompiledPoint]) -> None:
        """Take outcomes of compiling."""
        with self._change:
            self._compiled.update(points)
            self._change.notify_all()

    def stop(self) -> None:
        """End the search."""
        with self._change:
            self._finish()

    def wait(self, seconds: float) -> None:
        """Wait until something changes."""
        with self._change:
            if not self.over:
                self._change.wait(seconds)

    def ranked(self) -> list[Trial]:
        """Return measured candidates, fastest first; only those with the greatest effort."""
        with self._change:
            return self._ranked()

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The last trial of each candidate, in the order of the space."""
        with self._change:
            return tuple(self._trials[index] for index in sorted(self._trials))

    def _fill(self) -> None:
        while len(self._open) + self._busy < self._devices + _AHEAD:
            ask = self._searcher.ask()
            if ask is None:
                return
            self._open.append(ask)

    def _settle(self, ask: Ask) -> bool:
        """Give a candidate its result if it needs no measuring; return whether it did not."""
        point = self._point(ask)
        known = self._remembered(point, ask.effort)
        if known is not None:
            self._open.remove(ask)
            self._tell(ask, known, fresh=False)
            return True
        compiled = self._compiled.get(point)
        if compiled is None:
            return False
        failed = None
        if compiled.failure:
            failed = self._failed(ask, Status.FAILED, compiled.failure)
        elif reason := refusal(
            [image for variant in compiled.variants for image in variant.images], self._budget
        ):
            failed = self._failed(ask, Status.PRUNED, reason)
        else:
            first = self._codes.setdefault(
                identity(self._info, point, compiled.variants), ask.index
            )
            if first != ask.index:
                text = point_text(self.space.points[first], self.space.free)
                failed = self._failed(ask, Status.PRUNED, f"the same code and launch as {text}")
        if failed is not None:
            self._open.remove(ask)
            self._tell(ask, failed)
        return failed is not None

    def _remembered(self, point: Point, effort: float) -> Trial | None:
        """Return an earlier trial with at least this effort."""
        return next(
            (t for t in self._known.get(point, ()) if not t.measurement or t.effort >= effort), None
        )

    def _tell(self, ask: Ask, trial: Trial, *, fresh: bool = True) -> None:
        self._trials[ask.index] = trial
        self._searcher.tell(ask, trial.seconds if trial.measurement else None)
        best = self._ranked()
        self._listener(trial, best[0] if best else None, fresh)
        self._change.notify_all()

    def _ranked(self) -> list[Trial]:
        measured = [trial for trial in self._trials.values() if trial.measurement]
        effort = max((trial.effort for trial in measured), default=1.0)
        return sorted(
            (trial for trial in measured if trial.effort == effort), key=lambda trial: trial.seconds
        )

    def _failed(self, ask: Ask, status: Status, reason: str) -> Trial:
        return Trial(
            case=self.space.case.name,
            point=self._point(ask),
            status=status,
            reason=reason,
            effort=ask.effort,
        )

    def _point(self, ask: Ask) -> Point:
        return self.space.points[ask.index]

    def _finish(self) -> None:
        self.over = True
        self._change.notify_all()
