"""The launch core and Python's path make the same random calls, one fact of which differs from call
to call: a stale hit would show.

TILEC_CORE_CALLS says how many calls; the gate makes a few thousand.
"""

from __future__ import annotations

import functools
import os
import random

import pytest

from tests.plan_samples import Calls, Driver, compare, launcher_of, working
from tests.runtime_samples import ADD, GEMM, SCALAR, TENSOR, image, kernel, slot
from tests.unit.runtime.core.exchange import Torch
from tests.unit.runtime.core.samples import Counting
from tests.waiting import at_once
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Assumption, Param

CALLS = int(os.environ.get("TILEC_CORE_CALLS", "3000"))

MIXED_ABI = (
    slot("ptr", "z.ptr"),
    slot("i64", "z.shape[0] * z.stride[0]"),
    slot("ptr", "m.ptr"),
    slot("f16", "h"),
    slot("bf16", "b"),
    slot("i32", "n"),
    slot("u8", "u"),
    slot("bool", "flag"),
    slot("f64", "x"),
)
MIXED = kernel(
    "mixed",
    (
        Param(name="z", kind=TENSOR, dtype="f32", rank=2, out=True, stride=(None, 1)),
        Param(name="m", kind=TENSOR, dtype="i32", rank=1, optional=True),
        Param(name="h", kind=SCALAR, dtype="f16"),
        Param(name="b", kind=SCALAR, dtype="bf16"),
        Param(name="n", kind=SCALAR, dtype="i32"),
        Param(name="u", kind=SCALAR, dtype="u8"),
        Param(name="flag", kind=SCALAR, dtype="bool"),
        Param(name="x", kind=SCALAR, dtype="f64"),
    ),
    (
        VariantInfo(
            id="mixed-16",
            assume=(Assumption(param="z", shape=(1, 16), align=16),),
            abi=MIXED_ABI,
            images=(image("mixed_16"),),
        ),
        VariantInfo(id="mixed", abi=MIXED_ABI, images=(image("mixed"),)),
    ),
    launch=LaunchInfo(
        grid=("cdiv(z.shape[0], 4)", "max(n, 1)"),
        block=("min(next_pow2(z.shape[1]), 128)",),
        shared="4 * z.shape[1]",
        requires=("z.shape[1] <= 4096", "n < 1000", "x <= 8"),
    ),
)


class Counted(Counting, Driver):
    """Counts launches, and tells scratch memory by its size."""


@pytest.mark.parametrize("info", [ADD, GEMM, MIXED], ids=lambda info: info.name)
def test_the_core_and_python_agree_on_every_call(info: KernelInfo) -> None:
    launcher, driver = launcher_of(info, Counted)
    calls = Calls(info, random.Random(info.name), Torch)
    launched, _ = compare(calls, CALLS // 5, launcher, driver)
    assert driver.hits > CALLS // 100, "the core launches"
    assert launched < CALLS // 6, "errors are met"


def test_they_agree_on_random_kernels() -> None:
    pick, hits = random.Random(1), 0
    for number in range(CALLS // 150):
        info = working(pick, f"k{number}")
        launcher, driver = launcher_of(info, Counted)
        compare(Calls(info, pick, Torch), 60, launcher, driver)
        hits += driver.hits
    assert hits > CALLS // 20


def test_threads_agree_too() -> None:
    launcher, driver = launcher_of(MIXED, Counted)
    done: list[int] = []

    def work(stream: int) -> None:
        calls = Calls(MIXED, random.Random(stream), Torch)
        done.append(compare(calls, CALLS // 30, launcher, driver, stream)[0])

    at_once(*(functools.partial(work, stream) for stream in (100, 200, 300)))
    assert len(done) == 3
    assert driver.hits
