"""Operators in torch on a GPU: results, gradients, opcheck, torch.compile, captures, streams. The
package is that of tests/samples/operators, built elsewhere.
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


def test_an_operator_that_mutates_says_so(ops: Any, torch: Any) -> None:
    y, x = torch.ones(100, device="cuda"), randn(torch, 100)
    assert ops.accumulate(y, x) is None
    torch.testing.assert_close(y, x + 1)
    assert y._version == 1


def test_calls_that_allocate_without_the_module_of_torch(package: Any, torch: Any) -> None:
    x = randn(torch, 9, 64)
    kernels = package.load(0)
    y = kernels.softmax(x)
    assert y.device == x.device
    torch.testing.assert_close(y, torch.softmax(x, 1))


def test_cupy_allocates_its_own(package: Any, torch: Any) -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(100, dtype=cupy.float32)
    y = package.load(0).scale(x, factor=3.0)
    assert type(y) is cupy.ndarray
    assert (y == x * 3).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_are_torchs(ops: Any, torch: Any, dtype: str) -> None:
    x = randn(torch, 33, 50, dtype=getattr(torch, dtype), requires_grad=True)
    other = x.detach().clone().requires_grad_()
    weight = randn(torch, 50, 33, dtype=x.dtype).t()  # its gradient is not contiguous
    (ops.softmax(x) * weight).sum().backward()
    (torch.softmax(other, 1) * weight).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)
    if dtype == "float64":
        assert torch.autograd.gradcheck(ops.softmax, (x.detach()[:3].clone().requires_grad_(),))


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


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_compiled_without_a_break(ops: Any, torch: Any, mode: str | None) -> None:
    def plain(x: Any) -> Any:
        doubled = torch.ones_like(x[0])
        ops.accumulate(doubled, x[0].detach().contiguous())
        return ops.softmax(x * 2, ROWS=4) + 1, doubled

    compiled = torch.compile(plain, fullgraph=True, mode=mode)
    for _ in range(3):
        x = randn(torch, 16, 64, requires_grad=True)
        other = x.detach().clone().requires_grad_()
        found, expected = compiled(x), plain(other)
        torch.testing.assert_close(found[0], expected[0])
        torch.testing.assert_close(found[1], expected[1])
        found[0].square().sum().backward()
        expected[0].square().sum().backward()
        torch.testing.assert_close(x.grad, other.grad)


def test_compiled_for_any_shape(ops: Any, torch: Any) -> None:
    compiled = torch.compile(lambda x: ops.sums(x) * 2, fullgraph=True, dynamic=True)
    for count in (100, 101, 6400):
        x = randn(torch, count)
        torch.testing.assert_close(compiled(x), ops.sums(x) * 2)


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
