"""Triton kernels on a GPU: every case of examples/triton, and the same results and machine code as
Triton's own JIT gives.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.built import bundle_of, failing, on_gpu
from tilec.manifest.types import Manifest
from tilec_runtime import Module, errors
from tilec_runtime.bundle.read import Bundle

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "triton"
KERNELS = ("add", "softmax", "matmul", "matmul_descriptors", "double", "layer_norm")


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return bundle_of(EXAMPLE, "TILEC_TRITON_DIST")[0]


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """The bundle of examples/triton, built elsewhere: in TILEC_TRITON_DIST, or in its dist/."""
    return Bundle.open(bundle_of(EXAMPLE, "TILEC_TRITON_DIST")[1])


@pytest.fixture(scope="module")
def module(bundle: Bundle) -> Module:
    return on_gpu(bundle_of(EXAMPLE, "TILEC_TRITON_DIST")[1])


@pytest.mark.parametrize("name", KERNELS)
def test_every_case_agrees_with_its_reference(
    name: str, manifest: Manifest, module: Module
) -> None:
    assert failing(name, manifest, module) == []


def source(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"triton_example_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def jit(torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Triton's own JIT, with a cache of its own and no line information, as tilec builds."""
    triton = pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    return triton


def ptxas_versions(torch: Any, bundle: Bundle) -> tuple[str, str]:
    """That of Triton on this machine, and that which made the bundle."""
    from triton.backends.nvidia.compiler import get_ptxas

    used = {tool.name: tool.version for tool in bundle.info.toolchain}["ptxas"]
    return get_ptxas(torch.cuda.get_device_capability()[0] * 10).version, ".".join(
        used.split(".")[:2]
    )


def test_softmax_is_what_the_jit_gives_bit_for_bit_where_ptxas_is_the_same(
    jit: Any, torch: Any, module: Module, bundle: Bundle
) -> None:
    own, used = ptxas_versions(torch, bundle)
    kernel = source("softmax").softmax_kernel
    for shape in ((4096, 1024), (123, 777)):
        x = torch.randn(shape, device="cuda")
        ours, theirs = torch.empty_like(x), torch.empty_like(x)
        module.softmax(ours, x)
        rows = (min(shape[0], 1056),)
        kernel[rows](
            theirs, x, *shape, x.stride(0), theirs.stride(0), COLS=1024, num_warps=8, num_stages=2
        )
        torch.cuda.synchronize()
        # Releases of ptxas expand divisions and exponentials into other steps: the last bits may
        # differ then, and no more.
        assert (
            torch.equal(ours, theirs)
            if own == used
            else torch.allclose(ours, theirs, rtol=1e-6, atol=0)
        )


def test_descriptors_follow_addresses_and_rows_of_a_larger_matrix(
    torch: Any, module: Module
) -> None:
    """The map of a tensor is made anew where it lies elsewhere, and holds the strides of a view."""
    stream = torch.cuda.current_stream()
    whole = torch.randn(300, 512, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(128, 200, device="cuda", dtype=torch.bfloat16)
    for start in (0, 8, 128, 0):
        a = whole[:, start : start + 128]
        c = torch.full((300, 200), float("nan"), device="cuda", dtype=torch.bfloat16)
        module.matmul_descriptors(c, a, b, stream=stream)
        torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-2, atol=0.2)


def test_scratch_memory_comes_with_each_launch_and_is_refused_in_a_capture(
    torch: Any, module: Module
) -> None:
    stream = torch.cuda.Stream()
    x = torch.randn(500, 324, device="cuda")
    y = torch.zeros_like(x)
    torch.cuda.synchronize()
    for _ in range(20):
        module.double(y, x, stream=stream)
    stream.synchronize()
    assert torch.equal(y, 2 * x)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(errors.LaunchError, match="needs scratch memory"), torch.cuda.graph(graph):
        module.double(y, x)
    torch.cuda.synchronize()


def test_a_triton_kernel_and_a_tile_kernel_are_one_chain(module: Module) -> None:
    folder = Path(os.environ.get("TILEC_TRITON_DIST", str(EXAMPLE / "dist"))).resolve()
    assert module.device is not None
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tilec",
            "run",
            "add_scale",
            "--bundle",
            str(folder / "tilec-triton-examples-0.1.0.tilec"),
        ],
        cwd=EXAMPLE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                (str(EXAMPLE.parents[1]), os.environ.get("PYTHONPATH", ""))
            ),
        },
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS: add (triton) -> scale (tile): one stream, the same arrays" in done.stdout
