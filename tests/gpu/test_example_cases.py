"""The examples on a GPU: every case through tilec's own buffers, and calls with wrong arguments
that must not reach the device.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.built import bundle_of, failing, on_gpu
from tilec.manifest.types import Manifest
from tilec_runtime import Module

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

ROOT = Path(__file__).resolve().parents[2]
KERNELS = (
    "vector_add",
    "saxpy",
    "softmax",
    "softmax_backward",
    "rms_norm",
    "layer_norm",
    "gemm",
    "safe_add",
    "safe_softmax",
    "safe_gemm",
    "reduce_sum",
    "block_scan",
    "elementwise",
    "stencil",
    "square_add",
)


@pytest.fixture(scope="module")
def opened() -> tuple[Manifest, Module]:
    manifest, path = bundle_of(ROOT)
    return manifest, on_gpu(path)


@pytest.fixture
def manifest(opened: tuple[Manifest, Module]) -> Manifest:
    return opened[0]


@pytest.fixture
def module(opened: tuple[Manifest, Module]) -> Module:
    return opened[1]


@pytest.mark.parametrize("name", KERNELS)
def test_every_case_passes(name: str, manifest: Manifest, module: Module) -> None:
    assert failing(name, manifest, module) == []


def test_every_kernel_is_run(manifest: Manifest) -> None:
    assert tuple(kernel.name for kernel in manifest.kernels) == KERNELS


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_views_that_start_anywhere(module: Module, offset: int) -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.current_stream()
    x = torch.randn(5000, device="cuda")[offset : offset + 4096]
    z = torch.full((5000,), torch.nan, device="cuda")
    module.vector_add(z[offset : offset + 4096], x, x.clone(), stream=stream)
    torch.testing.assert_close(z[offset : offset + 4096], 2 * x)
    assert torch.isnan(z[:offset]).all()
    assert torch.isnan(z[offset + 4096 :]).all()
    for width in (1, 4, 8):
        y = torch.empty_like(x)
        module.elementwise(y, x, 3.0, -1.0, VEC=width, stream=stream)
        torch.testing.assert_close(y, 3.0 * x - 1.0)
    total = torch.zeros(1, device="cuda")
    module.reduce_sum(total, x, stream=stream)
    torch.testing.assert_close(total[0], x.sum(), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 1023, 1024, 1025, 4099])
def test_every_tail_of_a_vector(module: Module, size: int) -> None:
    torch = pytest.importorskip("torch")
    stream = torch.cuda.current_stream()
    x, y = torch.randn(size, device="cuda"), torch.randn(size, device="cuda")
    guarded = torch.full((size + 64,), torch.nan, device="cuda")
    module.vector_add(guarded[:size], x, y, stream=stream)
    torch.testing.assert_close(guarded[:size], x + y)
    assert torch.isnan(guarded[size:]).all()
