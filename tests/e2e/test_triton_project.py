"""A project with Triton kernels and a tile kernel, from `tilec build` to launches as a driver sees
them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import Cli, edit
from tests.runtime_samples import Array
from tilec.testing.fake_driver import H200, FakeDriver, FakeKernel
from tilec_runtime import load
from tilec_runtime.bundle.read import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain, pytest.mark.long]
pytest.importorskip("triton")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "triton"
BUNDLE = "dist/tilec-triton-examples-0.1.0.tilec"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    root = tmp_path_factory.mktemp("triton") / "project"
    shutil.copytree(
        EXAMPLE, root, ignore=shutil.ignore_patterns("dist", ".tilec", "__pycache__", "tilec.lock")
    )
    cli.good(root, "build", "--targets", "sm_80,sm_90,tileir")
    return root


def test_every_kernel_is_in_one_bundle(project: Path, cli: Cli) -> None:
    report = cli.good(project, "inspect", BUNDLE, "--json").json()
    languages = {kernel["name"]: kernel["language"] for kernel in report["kernels"]}
    triton = ("add", "softmax", "matmul", "matmul_descriptors", "double", "layer_norm")
    assert languages == {**dict.fromkeys(triton, "triton"), "scale": "tile"}
    described = next(
        kernel for kernel in report["kernels"] if kernel["name"] == "matmul_descriptors"
    )
    assert {
        image["target"] for variant in described["variants"] for image in variant["images"]
    } == {"sm_90"}
    assert {slot["type"] for slot in described["variants"][0]["abi"]} == {
        "tensormap:6:3:128x64",
        "tensormap:6:3:64x64",
        "i32",
        "i64",
        "u64",
    }
    images = [
        i
        for k in report["kernels"]
        if k["name"] == "matmul"
        for v in k["variants"]
        for i in v["images"]
    ]
    assert {tuple(image["block"]) for image in images} == {(256, 1, 1)}
    assert all(
        image["dynamic_shared"] > 48 * 1024
        for image in images
        if image["target"] == "sm_90" and "div16" in image["id"]
    )
    assert {"triton", "ptxas", "tileiras", "cuda-tile"} <= {
        tool["name"] for tool in report["toolchain"]
    }


def test_launches_take_what_the_compiler_chose(project: Path) -> None:
    bundle = Bundle.open(project / BUNDLE)
    rows = [(k, v, i) for k in bundle.info.kernels for v in k.variants for i in v.images]
    symbols = {i.symbol: FakeKernel(abi=v.abi) for _, v, i in rows}
    driver = FakeDriver((H200,), symbols)
    module = load(bundle, 0, driver=driver)
    a, b, c = (Array(256, 256, dtype="f16", ptr=0x100000 * k) for k in (1, 2, 3))
    module.matmul(c, a, b, stream=5)
    (launch,) = driver.launches
    image = next(
        i
        for k, v, i in rows
        if v.id.startswith("matmul-f16") and v.id.endswith("div16") and str(i.target) == "sm_90"
    )
    assert launch.shape.grid == (4, 1, 1)
    assert launch.shape.block == (256, 1, 1)
    assert launch.shape.shared == image.dynamic_shared > 0
    assert driver.allowed_shared == {"matmul_kernel": image.dynamic_shared}
    assert launch.arguments == (0x100000, 0x200000, 0x300000, *(256,) * 6, 0, 0)
    z, x, y = (Array(1000, ptr=0x100000 * k + 4) for k in (1, 2, 3))
    assert module.add.explain(z, x, y).variant.id == "add-f32-BLOCK1024"
    z, x, y = (Array(1008, ptr=0x100000 * k) for k in (1, 2, 3))
    assert module.add.explain(z, x, y).variant.id == "add-f32-BLOCK1024-div16"


def test_the_language_has_to_be_said(project: Path, cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "unsaid"
    shutil.copytree(project, root)
    edit(
        root / "tilec.toml",
        'reference = "reference.py:add"\nlanguage = "triton"',
        'reference = "reference.py:add"',
    )
    failed = cli(root, "build")
    assert failed.code == 2
    assert (
        'add.py has no kernel at all: it is a @triton.jit function, so say language = "triton"'
        in failed.err
    )
