"""Operators in torch on a GPU: results, opcheck, captures, streams. The package is that of
tests/samples/operators, built elsewhere.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore"),  # torch's compiler warns of much
]

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "operators"


@pytest.fixture(scope="module")
def package(torch: Any) -> Iterator[Any]:
    """The package, with its module `torch` imported."""
    dist = SAMPLE / "dist"
    if not (dist / "operators" / "torch.py").is_file():
        pytest.skip(f"build it first, with `tilec build --targets gpu` in {SAMPLE}")
    sys.path.insert(0, str(dist))
    try:
        importlib.import_module("operators.torch")
        yield importlib.import_module("operators")
    finally:
        sys.path.remove(str(dist))


@pytest.fixture
def ops(package: Any) -> Any:
    return package.torch


def randn(torch: Any, *shape: int, **more: Any) -> Any:
    return torch.randn(*shape, device="cuda", **more)


def test_results(ops: Any, torch: Any) -> None:
    x, v = randn(torch, 70, 64), randn(torch, 1000)
    for rows in (None, 2, 4):
        torch.testing.assert_close(ops.softmax(x, ROWS=rows), torch.softmax(x, 1))
    torch.testing.assert_close(ops.scale(v, 3.0), v * 3)
    half = v.half()
    torch.testing.assert_close(ops.scale(half), half * 2)
    total, difference = ops.both(v, v + 1)
    torch.testing.assert_close((total, difference), (2 * v + 1, torch.full_like(v, -1)))
    expected = torch.nn.functional.pad(v, (0, 24)).reshape(-1, 64).sum(1)
    torch.testing.assert_close(ops.sums(v), expected, rtol=1e-4, atol=1e-4)


def test_cupy_allocates_its_own(package: Any, torch: Any) -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(100, dtype=cupy.float32)
    y = package.load(0).scale(x, factor=3.0)
    assert type(y) is cupy.ndarray
    assert (y == x * 3).all()


def samples(torch: Any) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    x, v = randn(torch, 5, 40), randn(torch, 100)
    return {
        "softmax": ((x,), {"ROWS": 4}),
        "softmax_backward": ((x, torch.softmax(x, 1)), {}),
        "scale": ((v, 3.0), {}),
        "scale_backward": ((v,), {}),
        "both": ((v, v.clone()), {}),
        "sums": ((v,), {}),
        "accumulate": ((v.clone(), v), {}),
        "weighted": ((v, v + 1), {}),
    }


def test_opcheck(ops: Any, torch: Any) -> None:
    for name, (args, axes) in samples(torch).items():
        torch.library.opcheck(getattr(torch.ops.operators, name).default, args, axes)


def test_captured(ops: Any, torch: Any) -> None:
    x = randn(torch, 32, 64)
    ops.softmax(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ops.softmax(x)
        grad = ops.softmax_backward(torch.ones_like(y), y)
    for _ in range(3):
        x.copy_(randn(torch, 32, 64))
        graph.replay()
        torch.testing.assert_close(y, torch.softmax(x, 1))
        torch.testing.assert_close(grad, torch.zeros_like(grad), rtol=0, atol=1e-6)


def test_launches_are_on_torchs_current_stream(ops: Any, torch: Any) -> None:
    v, stream = torch.zeros(1 << 16, device="cuda"), torch.cuda.Stream()
    ops.scale(v)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(400_000_000)
        v.fill_(21.0)
        found = ops.scale(v)
    assert not stream.query(), "the call waited for the device"
    stream.synchronize()
    assert torch.all(found == 42.0)
