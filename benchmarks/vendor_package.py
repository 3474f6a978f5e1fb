"""One row of the table, of the package as it is shipped: each launcher chooses its variant by
itself; see vendor_kernels.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vendor_tasks import Step, Task, wanted
from vendor_timing import Clock, Plan, Samples, in_turns, ratio, relative_error, spread, vendor_ways

NEAR = 0.02  # rows that are nearer to what is wanted are measured more often, whichever side they are on
# Kernels of the package that are another one's function, as the twins know it.
FUNCTIONS = {"gemm_pairs": "gemm"}
ABSENT = {"num_ctas": 1, "AHEAD": False}  # what an axis of a twin is where the package has none


def compared(task: Task, package: Any, twins: Any, clock: Clock, plan: Plan) -> dict[str, Any]:
    """One size: the package's launches are checked; then they, their twins in cuda.tile and torch's
    ways take turns.

    Raises:
        RuntimeError: the result is wrong.
    """
    steps = task.shipped
    variants = [
        package[step.kernel].explain(*step.arguments(0), **step.asked).variant for step in steps
    ]
    run = launches([(package[step.kernel], step, step.asked) for step in steps], task.sets, clock)
    expected = [each.float() for each in task.expected()]
    task.reset()
    clock.once(run)
    for found, right in zip(task.found(), expected, strict=True):
        error = relative_error(found, right)
        if not error <= task.tolerance:
            raise RuntimeError(
                f"wrong: relative error {error:.3g}, and {task.tolerance} is allowed"
            )
    vendors, refused = vendor_ways(task, clock, plan)
    contenders: dict[str, Callable[[int], Any]] = {**vendors, "package": run}
    pairs = [twin(twins, step, variant) for step, variant in zip(steps, variants, strict=True)]
    if all(pair is not None for pair in pairs):
        contenders["twin"] = launches(
            [(pair[0], step, pair[1]) for pair, step in zip(pairs, steps, strict=True)],
            task.sets,
            clock,
        )
    rivals = [name for name in vendors if not name.startswith("copy")]
    least = wanted(task.row, task.size)

    def near(samples: Samples) -> bool:
        best = min(statistics.median(samples[name]) for name in rivals)
        return (
            bool(abs(best / statistics.median(samples["package"]) / least - 1) < NEAR)
            if least
            else False
        )

    samples = in_turns(task, contenders, clock, plan, near if rivals else None)
    result: dict[str, Any] = {
        "safe": spread(samples["package"], task),
        "variant": " + ".join(each.id for each in variants),
    }
    result |= {
        "others": refused,
        "vendors": {name: spread(samples[name], task) for name in vendors},
    }
    if rivals:
        rival = min(rivals, key=lambda name: statistics.median(samples[name]))
        result["against"] = {"name": rival, **ratio(samples[rival], samples["package"])}
    if "twin" in samples:
        result["against_raw"] = ratio(samples["twin"], samples["package"])
    return result


def launches(
    steps: Sequence[tuple[Any, Step, Mapping[str, Any]]], sets: int, clock: Clock
) -> Callable[[int], Any]:
    """The launches of set i, in order: of each step a launcher, its arguments and its axes."""
    ready = [
        [(launcher, step.arguments(i), axes) for launcher, step, axes in steps] for i in range(sets)
    ]

    def run(i: int) -> Any:
        return [
            launcher(*arguments, **axes, stream=clock.stream())
            for launcher, arguments, axes in ready[i % sets]
        ][-1]

    return run


def twin(twins: Any, step: Step, variant: Any) -> tuple[Any, Mapping[str, Any]] | None:
    """The kernel in cuda.tile with the same tiles, hints and facts, and the axes that name its
    variant; None where it was not built.
    """
    name = FUNCTIONS.get(step.kernel, step.kernel)
    point = {
        **dict(variant.axes),
        **{hint: value for _, hints in variant.hints for hint, value in hints},
    }
    if "whole" in variant.id.split("-"):
        point["CHECK"] = False
    for raw in (f"raw_{name}_persistent", f"raw_{name}_rest", f"raw_{name}"):
        for each in twins.kernels[raw].info.variants if raw in twins.kernels else ():
            axes = dict(each.axes)
            if {**ABSENT, **point} | axes == {
                **ABSENT,
                **point,
            } and point.keys() <= axes.keys() | ABSENT.keys():
                bound = {param.dtype for param in twins.kernels[raw].info.params}
                return twins.kernels[raw], {
                    axis: value for axis, value in axes.items() if axis not in bound
                }
    return None
