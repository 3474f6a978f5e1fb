"""The examples in the safe tile language on a GPU: random extents, the same numbers as their twins
in cuda.tile, and what is refused.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilec_runtime import Tensor, use_device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

MANY = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def randn(torch, *shape, dtype=None):
    return torch.randn(*shape, device="cuda", dtype=dtype or torch.float32)


@MANY
@given(st.integers(1, 5000))
def test_add(kernels, torch, size):
    x, y = randn(torch, size), randn(torch, size)
    z, twin = torch.full_like(x, torch.nan), torch.full_like(x, torch.nan)
    stream = torch.cuda.current_stream()
    kernels.safe_add(z, x, y, stream=stream)
    kernels.vector_add(twin, x, y, stream=stream)
    assert torch.equal(z, twin)
    assert torch.equal(z, x + y)


@MANY
@given(st.integers(1, 300), st.integers(1, 1024))
def test_softmax(kernels, torch, rows, columns):
    x = randn(torch, rows, columns)
    y = torch.full_like(x, torch.nan)
    kernels.safe_softmax(y, x)
    torch.testing.assert_close(y, torch.softmax(x, 1), rtol=1e-4, atol=1e-6)


@MANY
@given(st.integers(1, 700), st.integers(1, 700), st.integers(1, 300))
def test_gemm(kernels, torch, m, n, k):
    a, b = randn(torch, m, k, dtype=torch.float16), randn(torch, k, n, dtype=torch.float16)
    c = torch.full((m, n), torch.nan, device="cuda", dtype=torch.float16)
    kernels.safe_gemm(c, a, b)
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize("blocks", [1, 3, 16])
def test_any_number_of_blocks_shares_an_output(kernels, torch, blocks):
    a, b = randn(torch, 300, 100, dtype=torch.float16), randn(torch, 100, 500, dtype=torch.float16)
    with use_device(0):
        c = Tensor.from_foreign(
            torch.full((300, 500), torch.nan, device="cuda", dtype=torch.float16)
        )
        out, *_ = kernels.ops.safe_gemm(c, a, b).grid(blocks).sync()
        torch.testing.assert_close(
            torch.from_dlpack(out).float(), a.float() @ b.float(), rtol=1e-2, atol=5e-2
        )
