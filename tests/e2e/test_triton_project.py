"""A project with Triton kernels and a tile kernel, from `tilec build` to launches as a driver sees
them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import Cli, copied

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain, pytest.mark.long]
pytest.importorskip("triton")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "triton"
BUNDLE = "dist/tilec-triton-examples-0.1.0.tilec"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    root = copied(EXAMPLE, tmp_path_factory.mktemp("triton") / "project")
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
