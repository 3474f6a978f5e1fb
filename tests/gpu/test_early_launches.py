"""Launches that may begin before the one in front of them is done: chains of them give what the same chain in order gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.build import BuildRequest, build
from tilec.compiler.events import SilentObserver
from tilec.runtime import load

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")]

MANIFEST = """edition = 1
[package]
name = "early"
version = "1.0.0"
[targets]
default = ["TARGET"]
[kernel.spread]
source = "early.cu"
launch = { grid = ["cdiv(x.size, 256)"], block = [256], programmatic = EARLY }
args = ["y.ptr", "x.ptr", "i32(x.size)"]
params = { y = { rank = 1, out = true }, x = { rank = 1 } }
"""
# Each element is made of one that another block of the launch in front has written: too early a read gives another number.
SOURCE = """extern "C" __global__ void spread(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (i < n) y[i] = x[n - 1 - i] + 1.0f;
}
"""
STEPS = 200


@pytest.mark.parametrize("early", [False, True])
def test_a_chain_of_launches(torch, tmp_path: Path, early: bool) -> None:
    major, minor = torch.cuda.get_device_capability()
    if major < 9:
        pytest.skip("launches begin early from compute capability 9.0 on")
    pytest.importorskip("cuda.bindings.nvrtc")
    text = MANIFEST.replace("TARGET", f"sm_{major}{minor}").replace("EARLY", str(early).lower())
    (tmp_path / "tilec.toml").write_text(text)
    (tmp_path / "early.cu").write_text(SOURCE)
    build(BuildRequest(manifest_path=tmp_path / "tilec.toml", cache_dir=tmp_path / "cache"), SilentObserver())
    spread = load(tmp_path / "dist" / "early-1.0.0.tilec", 0).spread
    one = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    two, expected = torch.empty_like(one), one + STEPS
    stream = torch.cuda.current_stream()
    for _ in range(STEPS // 2):
        spread(stream, two, one)
        spread(stream, one, two)
    torch.cuda.synchronize()
    assert torch.equal(one, expected)
