"""How many copies of the arguments there are, and when the cache is written over."""

from __future__ import annotations

import pytest

from tilec.bench.coldness import Cache, CachePlan, plan_cache

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("size", "facts", "plan"),
    [
        (200 * MIB, {"l2": 50 * MIB}, CachePlan(cache=Cache.AS_IT_IS)),
        (4 * MIB, {"l2": 0}, CachePlan(cache=Cache.AS_IT_IS)),
        (0, {"l2": 50 * MIB}, CachePlan(cache=Cache.AS_IT_IS)),
        (10 * MIB, {"l2": 50 * MIB}, CachePlan(cache=Cache.ROTATED, copies=11)),
        (4096, {"l2": 50 * MIB}, CachePlan(cache=Cache.FLUSHED, copies=512, flush=100 * MIB)),
        (1 * MIB, {"l2": 50 * MIB}, CachePlan(cache=Cache.FLUSHED, copies=101, flush=100 * MIB)),
        (
            10 * MIB,
            {"l2": 50 * MIB, "free": 430 * MIB},
            CachePlan(cache=Cache.FLUSHED, copies=1, flush=100 * MIB),
        ),
        (
            10 * MIB,
            {"l2": 50 * MIB, "free": 10 * MIB},
            CachePlan(cache=Cache.FLUSHED, copies=1, flush=100 * MIB),
        ),
        (10 * MIB, {"l2": 50 * MIB, "cold": False}, CachePlan(cache=Cache.HOT)),
        (10 * MIB, {"l2": 0, "cold": False}, CachePlan(cache=Cache.AS_IT_IS)),
    ],
)
def test_what_is_done_about_the_cache(size: int, facts: dict[str, int], plan: CachePlan) -> None:
    assert plan_cache(size, **{"free": 100 * GIB, "launches": 512, **facts}) == plan  # type: ignore[arg-type]
