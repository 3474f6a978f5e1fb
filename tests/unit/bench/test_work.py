"""Rates and ceilings: which bounds a launch, and how they are measured and cached."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tilec.bench import ceilings
from tilec.bench.ceilings import (
    Ceilings,
    known_ceilings,
    measured_apart,
)
from tilec.bench.work import NO_RATES, Work, rates_of
from tilec.compile.cache import Cache
from tilec.model.codec import encode

DEVICE = Ceilings(copy=4e12, products={"bf16": 800e12})


@pytest.mark.parametrize(
    ("work", "seconds", "device", "share", "bound"),
    [
        (Work(flops=1e9, bytes=12e9, dtype="bf16"), 4e-3, DEVICE, 0.75, "memory"),
        (Work(flops=8e12, bytes=1e9, dtype="bf16"), 20e-3, DEVICE, 0.5, "compute"),
        # A product of a dtype that was not measured may be bound by arithmetic; a copy may not.
        (Work(flops=8e12, bytes=1e9, dtype="f8e4m3"), 20e-3, DEVICE, None, ""),
        (Work(flops=1e9, bytes=12e9, dtype="f8e4m3"), 4e-3, DEVICE, 0.75, "memory"),
        (Work(bytes=12e9), 4e-3, DEVICE, 0.75, "memory"),
        (Work(bytes=12e9), 4e-3, Ceilings(copy=None), None, ""),
        (Work(flops=1e9, bytes=12e9), 4e-3, None, None, ""),
    ],
)
def test_the_ceiling_that_allows_least_bounds_a_launch(
    work: Work, seconds: float, device: Ceilings | None, share: float | None, bound: str
) -> None:
    found = rates_of(work, seconds, device)
    assert (found.share, found.bound) == (share and pytest.approx(share), bound)
    assert found.bytes == pytest.approx((work.bytes or 0) / seconds)
    assert rates_of(Work(), seconds, device) == NO_RATES


def test_a_gpu_rests_after_products_that_were_measured(tmp_path: Path) -> None:
    """Else the first case would be throttled for the power that they took."""
    rested: list[float] = []
    cache = Cache(tmp_path / "cache", note=pytest.fail)
    for _ in range(2):
        found = known_ceilings(cache, {}, lambda: DEVICE, rest=rested.append)
        assert found == DEVICE
    assert rested == [ceilings.REST]
    known_ceilings(cache, {}, lambda: DEVICE, fresh=True, rest=rested.append)
    assert rested == [ceilings.REST] * 2


def saying(text: str, code: int = 0) -> tuple[str, ...]:
    stream = "stderr" if code else "stdout"
    script = f"import sys; print({text!r}, file=sys.{stream}); sys.exit({code})"
    return sys.executable, "-c", script


GOOD = f"a library prints something\n{json.dumps(encode(DEVICE))}"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (saying(GOOD), DEVICE),
        (saying("there is no GPU number 7", 1), "there is no GPU number 7"),
        (saying("[]"), "the process printed no result"),
        (("/no/such/python",), "[Errno 2] No such file or directory: '/no/such/python'"),
    ],
)
def test_a_process_of_its_own_measures(command: tuple[str, ...], found: Ceilings | str) -> None:
    if isinstance(found, str):
        found = Ceilings(missing=f"the ceilings cannot be measured: {found}")
    assert measured_apart("cuda:0", command) == found
