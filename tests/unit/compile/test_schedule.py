"""Which jobs start first and on which worker: by measured times, guesses, and what workers hold."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Sequence

import pytest

from tilec.compile.timings import expected_seconds
from tilec.model.job import Job, Variant
from tilec_runtime.model.arch import Target
from tilec_runtime.model.signature import Assumption

ASSUME = (Assumption(param="a", shape=(16, 16), align=16),)


GEMM, SMALL_GEMM = (
    (("T", "f16"), ("BM", 128), ("BN", 128), ("BK", 64)),
    (("T", "f16"), ("BM", 64), ("BN", 64), ("BK", 64)),
)


NORM, VECTOR = (("T", "bf16"), ("ROWS", 4), ("COLS", 1024)), (("T", "f32"), ("TILE", 1024))


# Seconds on one core of a machine: axes, with assumptions, (sm_80, sm_89, sm_90, sm_100, sm_120).
MEASURED = (
    (GEMM, False, (1.82, 2.72, 6.71, 1.52, 0.84)),
    (GEMM, True, (1.26, 0.79, 0.72, 0.42, 0.67)),
    (SMALL_GEMM, False, (0.77, 0.73, 1.30, 0.81, 0.78)),
    (SMALL_GEMM, True, (1.48, 0.60, 0.28, 0.21, 0.53)),
    (NORM, False, (0.42, 0.44, 0.58, 0.43, 0.46)),
    (NORM, True, (0.22, 0.25, 0.28, 0.30, 0.24)),
    (VECTOR, False, (0.12, 0.11, 0.11, 0.12, 0.13)),
    (VECTOR, True, (0.09, 0.08, 0.09, 0.09, 0.09)),
)


TARGETS = ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.fixture
def measured(project) -> dict[Job, float]:
    found = {}
    spec = dataclasses.replace(project.job().spec, language="tile")
    for axes, assumes, row in MEASURED:
        variant = Variant(
            kernel="k", id=f"k-{axes}-{assumes}", axes=axes, assume=ASSUME if assumes else ()
        )
        found.update(
            {
                Job(spec=spec, variant=variant, target=Target.parse(t)): s
                for t, s in zip(TARGETS, row, strict=True)
            }
        )
    return found


def takes(order: Sequence[float], workers: int) -> float:
    """Seconds until the last job of a queue is done."""
    free = [0.0] * workers
    for seconds in order:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
@pytest.mark.parametrize(
    "targets",
    [("sm_90",), ("sm_80", "sm_100"), ("sm_90", "sm_120"), ("sm_89", "sm_90", "sm_120"), TARGETS],
)
def test_a_cold_build_is_nearly_as_quick_as_one_that_knows_its_times(
    measured, targets: tuple[str, ...], workers: int
) -> None:
    jobs = [job for job in measured if str(job.target) in targets]

    def build(key: Callable[[Job], float]) -> float:
        return takes([measured[job] for job in sorted(jobs, key=key, reverse=True)], workers)

    assert build(expected_seconds) <= 1.15 * build(measured.__getitem__)
