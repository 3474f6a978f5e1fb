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
from tilec_runtime import DeviceBuffer, Module, Stream, api, use_device
from tilec_runtime.errors import ArgumentError
from tilec_runtime.tensors.tensor import Tensor

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


@pytest.mark.parametrize("count", [2, 3])
def test_ops_and_graphs(module: Module, count: int) -> None:
    a, b = hosts(count, count)
    with use_device(0), Stream(0) as stream:

        def tensors(side: list[Any]) -> list[Tensor]:
            return [api.from_host(one).sync() for one in side]

        def zeros() -> list[Tensor]:
            return tensors([np.zeros_like(one) for one in a])

        c, left, right = module.ops.grouped_gemm(zeros(), tensors(a), tensors(b)).sync()
        agree(c, a, b)
        graph = module.ops.grouped_gemm(zeros(), left, right).graph_on(stream)
        c, left, right = graph.take_output()
        graph.launch().sync_on(stream)
        agree(c, a, b)
        agree(left, a, [np.eye(16, dtype=np.float32)] * count)
