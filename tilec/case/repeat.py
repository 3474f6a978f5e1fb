"""Runs a case several times with the same inputs: whether every run gives the same bits, and the
same results within the tolerance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tilec.case.cases import BoundCase
from tilec.case.inputs import Array
from tilec.case.reference import References
from tilec.case.run import CaseResult, Device, Repeats, Save, compared, run_case


def repeat_case(
    case: BoundCase,
    device: Device,
    references: References,
    *,
    times: int,
    clock: Callable[[], float],
    save: Save | None = None,
) -> CaseResult:
    """Run one case several times.

    The first run is held against the reference. The others get the same inputs and new outputs, and
    are held against the first: their bits may differ (a sum in another order), but not by more than
    the tolerance.

    Args:
        case: what to run.
        device: where.
        references: loads and calls references.
        times: how often, at least 1.
        clock: seconds, for the time of the launches.
        save: takes every output of the first run.

    Returns:
        The first run's result; or that of the first one that went wrong, with its number in
        `repeats`.
    """
    first: dict[str, Array] = {}
    result = run_case(case, device, references, clock=clock, save=_both(first, save))
    if result.status not in ("passed", "ran"):
        return dataclasses.replace(result, repeats=Repeats(runs=1, wanted=times))
    varied = dict.fromkeys(case.outs, 0)
    alone = dataclasses.replace(case, reference="")
    for number in range(2, times + 1):
        outputs: dict[str, Array] = {}
        again = run_case(alone, device, references, clock=clock, save=_both(outputs, None))
        if again.status != "ran":
            return dataclasses.replace(again, case=case, repeats=_repeats(number, times, varied))
        wrong = []
        for name in case.outs:
            if outputs[name].tobytes() != first[name].tobytes():
                varied[name] += 1
                held = compared(case, name, outputs[name], first[name])
                wrong += [] if held.comparison.ok else [held]
        if wrong:
            return dataclasses.replace(
                again,
                case=case,
                status="failed",
                outputs=tuple(wrong),
                repeats=_repeats(number, times, varied),
            )
    return dataclasses.replace(result, repeats=_repeats(times, times, varied))


def _both(kept: dict[str, Array], save: Save | None) -> Save:
    def keep(case: BoundCase, name: str, array: Array) -> None:
        kept[name] = array
        if save is not None:
            save(case, name, array)

    return keep


def _repeats(runs: int, wanted: int, varied: dict[str, int]) -> Repeats:
    return Repeats(
        runs=runs,
        wanted=wanted,
        varied=tuple((name, count) for name, count in varied.items() if count),
    )
