"""Linked kernels and tile kernels in C++ on a GPU: every case of examples/linking and
examples/tile_cpp, and what is resident of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gpu.built import bundle_of, failing, on_gpu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KERNELS = (("linking", "bias_act"), ("tile_cpp", "axpy"), ("tile_cpp", "softmax"))


@pytest.mark.parametrize(("example", "name"), KERNELS)
def test_every_case_agrees_with_its_reference(example: str, name: str) -> None:
    manifest, path = bundle_of(EXAMPLES / example)
    assert failing(name, manifest, on_gpu(path)) == []


def test_what_is_resident_is_within_the_devices_limits(torch: Any) -> None:
    module = on_gpu(bundle_of(EXAMPLES / "linking")[1])
    x, bias = torch.zeros((64, 300), device="cuda"), torch.zeros(300, device="cuda")
    held = module.bias_act.residency(torch.empty_like(x), x, bias)
    properties = torch.cuda.get_device_properties(0)
    assert held.threads == 256
    assert 1 <= held.max_active_blocks <= properties.max_threads_per_multi_processor // 256
    assert held.max_cooperative_grid == held.max_active_blocks * properties.multi_processor_count
    assert held.suggest_block_size % 32 == 0
