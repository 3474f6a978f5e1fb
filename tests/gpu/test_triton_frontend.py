"""Triton kernels on a GPU: every case of examples/triton, and the same results and machine code as
Triton's own JIT gives.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.built import bundle_of, failing, on_gpu
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.sass import _section
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
    return open_project(EXAMPLE / "tilec.toml", ToolSearch()).manifest


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


def test_matmul_is_bit_for_bit_what_the_jit_gives_and_the_same_code(
    jit: Any, torch: Any, module: Module, bundle: Bundle
) -> None:
    kernel = source("matmul").matmul_kernel
    tiles = {"BM": 128, "BN": 128, "BK": 64, "GROUP": 8}
    size = 2048
    a, b = (torch.randn((size, size), device="cuda", dtype=torch.float16) for _ in range(2))
    ours, theirs = torch.empty_like(a), torch.empty_like(a)
    module.matmul(ours, a, b)
    programs = (jit.cdiv(size, 128) ** 2,)
    made = kernel[programs](a, b, theirs, *(size,) * 6, **tiles, num_warps=8, num_stages=3)
    torch.cuda.synchronize()
    assert torch.equal(ours, theirs)
    explained = module.matmul.explain(ours, a, b)
    image = explained.image
    assert image is not None
    assert (explained.variant.id, image.dynamic_shared) == (
        "matmul-f16-BM128-BN128-BK64-GROUP8-div16",
        made.metadata.shared,
    )
    assert image.block == (32 * made.metadata.num_warps, 1, 1)
    own, used = ptxas_versions(torch, bundle)
    if own != used:
        pytest.skip(
            f"the results are equal; the code is not compared: Triton has ptxas {own}, the bundle was built with {used}"
        )
    code = _section(bundle.image(image.digest), f".text.{image.symbol}")
    assert code == _section(made.asm["cubin"], f".text.{image.symbol}")


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


def test_descriptors_that_the_copy_engine_cannot_read_are_refused(
    torch: Any, module: Module
) -> None:
    b, c = (torch.zeros(64, 64, device="cuda", dtype=torch.float16) for _ in range(2))
    wide, flat = (
        torch.zeros(64, 67, device="cuda", dtype=torch.float16),
        torch.zeros(65 * 64, device="cuda", dtype=torch.float16),
    )
    with pytest.raises(
        errors.LayoutError, match="argument 'a' has strides that are not multiples of 16 bytes"
    ):
        module.matmul_descriptors(c, wide[:, :64], b)
    with pytest.raises(errors.LayoutError, match="argument 'a'"):
        module.matmul_descriptors(c, flat[1:4097].view(64, 64), b)


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


def test_tensors_that_may_be_none_in_turn(jit: Any, torch: Any, module: Module) -> None:
    """Known launches tell both kinds of calls apart, and each gives what the JIT gives for it."""
    stream, kernel = torch.cuda.current_stream(), source("layer_norm").layer_norm_kernel
    x = torch.randn(300, 1024, device="cuda")
    weight, bias = torch.randn(1024, device="cuda"), torch.randn(1024, device="cuda")
    for given in ((None, None), (weight, bias), (weight, None), (None, bias)) * 4:
        ours, theirs = torch.full_like(x, float("nan")), torch.full_like(x, float("nan"))
        module.layer_norm(ours, x, *given, stream=stream)
        kernel[(300,)](theirs, x, *given, 1024, 1e-5, COLS=1024)
        wanted = torch.nn.functional.layer_norm(x, (1024,), *given)
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    with pytest.raises(errors.RequirementError, match=r"requires bias\.size == x\.shape\[1\]"):
        module.layer_norm(ours, x, None, bias[:512], stream=stream)


ROUNDS, LAUNCHES = 15, 10
# Two runs of equal code differ by as much.
NOISE = 1.03


def seconds_of(torch: Any, call: Any) -> float:
    """The device's time of one launch, of several one after another."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(LAUNCHES):
        call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / LAUNCHES / 1e3


@pytest.mark.parametrize("name", ["add", "softmax", "matmul", "layer_norm"])
def test_kernels_are_as_fast_as_the_jits(jit: Any, torch: Any, module: Module, name: str) -> None:
    """Paired, and long enough that no launch waits for the host."""
    stream = torch.cuda.current_stream()
    kernel = getattr(source(name), f"{name}_kernel")
    rows = torch.randn((1 << 17, 1024), device="cuda")
    into = torch.empty_like(rows)
    if name == "add":
        x, y, z = rows.view(-1)[: 1 << 26], rows.view(-1)[1 << 26 :], into.view(-1)[: 1 << 26]
        pair = (
            lambda: module.add(z, x, y, stream=stream),
            lambda: kernel[(jit.cdiv(z.numel(), 1024),)](x, y, z, z.numel(), BLOCK=1024),
        )
    elif name == "softmax":
        facts = {"COLS": 1024, "num_warps": 8, "num_stages": 2}
        pair = (
            lambda: module.softmax(into, rows, stream=stream),
            lambda: kernel[(1056,)](into, rows, *rows.shape, 1024, 1024, **facts),
        )
    elif name == "matmul":
        a, b = (torch.randn((4096, 4096), device="cuda", dtype=torch.float16) for _ in range(2))
        c, facts = (
            torch.empty_like(a),
            {"BM": 128, "BN": 128, "BK": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3},
        )
        pair = (
            lambda: module.matmul(c, a, b, stream=stream),
            lambda: kernel[(1024,)](a, b, c, *(4096,) * 6, **facts),
        )
    else:
        shift = torch.randn(1024, device="cuda")
        theirs = (into, rows, None, shift, 1024, 1e-5)
        pair = (
            lambda: module.layer_norm(into, rows, bias=shift, stream=stream),
            lambda: kernel[(rows.shape[0],)](*theirs, COLS=1024),
        )
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 2):
        for place, call in enumerate(pair):
            times[place].append(seconds_of(torch, call))
    own, jits = (statistics.median(found[2:]) for found in times)
    print(f"{name}: tilec {own * 1e6:.1f} us, the JIT {jits * 1e6:.1f} us, ratio {own / jits:.3f}")  # noqa: T201 - with -s, for the record
    assert own <= NOISE * jits


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
