"""Lists of arrays on a GPU: the length of a call's lists takes its variant, in launches, ops and
graphs.

The bundle is built elsewhere: `tilec build --targets sm_90 --select 'grouped_gemm*'` in
tests/samples/needs_project.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gpu.built import bundle_of, on_gpu
from tilec_runtime import DeviceBuffer, Module, Stream
from tilec_runtime.errors import ArgumentError

pytestmark = pytest.mark.gpu

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "needs_project"
ROWS = (40, 16, 9)


@pytest.fixture(scope="module")
def module() -> Module:
    _, path = bundle_of(SAMPLE)
    return on_gpu(path)


def hosts(count: int, seed: int) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    return (
        [rng.normal(size=(rows, 16)).astype(np.float32) for rows in ROWS[:count]],
        [rng.normal(size=(16, 16)).astype(np.float32) for _ in range(count)],
    )


def agree(c: Any, a: Any, b: Any) -> None:
    for made, left, right in zip(c, a, b, strict=True):
        np.testing.assert_allclose(made.to_host(), left @ right, rtol=1e-2, atol=5e-2)


def test_launches(module: Module) -> None:
    stream = Stream(0)
    for seed, count in enumerate((2, 3, 2, 3, 3)):  # later ones have cached plans
        a, b = hosts(count, seed)
        left, right = ([DeviceBuffer.from_host(one, 0) for one in side] for side in (a, b))
        c = [DeviceBuffer.from_host(np.zeros_like(one), 0) for one in a]
        module.grouped_gemm(c, left, tuple(right), stream=stream)
        stream.sync()
        agree(c, a, b)
    with pytest.raises(ArgumentError, match="argument 'b' has 2 arrays, and 'c' has 3"):
        module.grouped_gemm(c, left, right[:2], stream=stream)
