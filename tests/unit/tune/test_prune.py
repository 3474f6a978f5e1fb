"""What images alone say: budgets, blocks that fit nowhere, and candidates that come to the same."""

from __future__ import annotations

import dataclasses

import pytest

from tests.runtime_samples import image
from tests.tune_samples import built, points
from tilec.manifest.types import Budget
from tilec.tune.prune import cost_of, identity, refusal
from tilec_runtime.model.image import Resources
from tilec_runtime.model.kernel import KernelInfo

POINT = points()[0]


@pytest.mark.parametrize(
    ("used", "budget", "said"),
    [
        ({"registers": 168}, Budget(registers=128), "168 registers, over the budget of 128"),
        (
            {"spill_stores": 4, "spill_loads": 12},
            Budget(spills=0),
            "12 bytes spilled, over the budget of 0",
        ),
        (
            {"shared": 65536},
            Budget(shared=49152),
            "65536 bytes of shared memory, over the budget of 49152",
        ),
        ({"stack": 32}, Budget(stack=0), "32 bytes of stack, over the budget of 0"),
        ({"registers": 128}, Budget(registers=128), ""),
        ({}, Budget(registers=1, spills=0), ""),
        (
            {"registers": 32, "shared": 300_000},
            Budget(),
            "no block fits a multiprocessor: 300000 bytes of shared memory",
        ),
    ],
)
def test_prunes_candidates_over_budget_or_without_a_device(used, budget: Budget, said: str) -> None:
    assert refusal(built(POINT, **used).images, budget) == said


def test_the_cost_of_a_candidate_is_that_of_its_worst_image() -> None:
    images = (
        image(
            "a",
            "sm_90",
            resources=Resources(registers=64, shared=1024, spill_stores=0),
            required_block=(128, 1, 1),
        ),
        image(
            "b",
            "sm_90",
            resources=Resources(registers=255, shared=0, spill_stores=8),
            required_block=(256, 1, 1),
        ),
        image("c", "compute_90", resources=Resources()),
    )
    cost = cost_of(images)
    assert (cost.registers, cost.shared, cost.spills) == (255, 1024, 8)
    assert cost.occupancy is not None
    assert (cost.occupancy.blocks_per_sm, cost.occupancy.limiter) == (1, "registers")
    assert cost_of(()).occupancy is None


def test_equal_code_is_one_candidate_only_where_the_launch_is_equal_too(info: KernelInfo) -> None:
    first, second = ((("T", "f16"), ("BM", 64), ("BK", bk)) for bk in (32, 64))
    assert identity(info, first, [built(first, symbol="s")]) == identity(
        info, second, [built(second, symbol="s")]
    )
    assert identity(info, first, [built(first, symbol="s")]) != identity(
        info, second, [built(second, symbol="t")]
    )
    other = (("T", "f16"), ("BM", 128), ("BK", 32))  # the grid counts tiles of BM
    assert identity(info, first, [built(first, symbol="s")]) != identity(
        info, other, [built(other, symbol="s")]
    )
    launch = dataclasses.replace(info.launch, shared="BK * 2")
    dynamic = dataclasses.replace(info, launch=launch)
    assert identity(dynamic, first, [built(first, symbol="s")]) != identity(
        dynamic, second, [built(second, symbol="s")]
    )
