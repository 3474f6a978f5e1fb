"""The examples in the safe tile language on a GPU: random extents, the same numbers as their twins
in cuda.tile, and what is refused.
"""

from __future__ import annotations

import pytest

from tilec_runtime import Tensor, use_device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


def randn(torch, *shape, dtype=None):
    return torch.randn(*shape, device="cuda", dtype=dtype or torch.float32)


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
