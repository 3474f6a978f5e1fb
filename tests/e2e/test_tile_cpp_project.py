"""A project of kernels in CUDA Tile C++, from `tilec build` to cases on the cpu device and findings
of the checker.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import Cli, copied, edit
from tilec_runtime.bundle.read import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain, pytest.mark.long]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tile_cpp"
BUNDLE = "dist/tilec-tile-cpp-examples-0.1.0.tilec"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    root = copied(EXAMPLE, tmp_path_factory.mktemp("tile-cpp") / "project")
    cli.good(root, "build", "--targets", "sm_90,tileir")
    return root


def test_every_instance_has_a_cubin_and_tile_ir(project: Path) -> None:
    index = Bundle.open(project / BUNDLE).info
    assert {kernel.name: kernel.language for kernel in index.kernels} == {
        "axpy": "tile",
        "softmax": "tile",
    }
    found = {
        variant.id: {str(image.target) for image in variant.images}
        for kernel in index.kernels
        for variant in kernel.variants
    }
    both = {"sm_90", "tileir"}
    assert found == {
        "axpy-f32-BLOCK1024": both,
        "axpy-f16-BLOCK1024": both,
        "softmax-COLS256": both,
        "softmax-COLS1024": both,
    }
    assert index.kernels[1].location.file == "kernels.cu"


def test_the_cases_pass_on_the_cpu_device(project: Path, cli: Cli) -> None:
    report = cli.good(project, "run", "--device", "cpu", "--json").json()
    assert {case["name"]: case["status"] for case in report["cases"]} == {
        "axpy/odd[f32]": "passed",
        "axpy/odd[f16]": "passed",
        "softmax/wide": "passed",
        "softmax/narrow": "passed",
    }


def test_the_checker_finds_a_race_at_its_line_of_c(project: Path, cli: Cli, tmp_path: Path) -> None:
    root = tmp_path / "raced"
    shutil.copytree(project, root)
    edit(
        root / "kernels.cu",
        "    into.store_masked(powers /",
        "    into.store_masked(logits, 0, 0);\n    into.store_masked(powers /",
    )
    done = cli(root, "sanitize", "softmax", "--case", "narrow")
    assert done.code == 86
    assert "kernels.cu:24:34: write-write race: block (0, 0, 0) writes y[0, 0]" in done.out
    assert "        into.store_masked(logits, 0, 0);\n" in done.out


def test_tile_kernels_without_their_language(cli: Cli, tmp_path: Path) -> None:
    copied(EXAMPLE, tmp_path / "p")
    text = (tmp_path / "p" / "tilec.toml").read_text()
    (tmp_path / "p" / "tilec.toml").write_text(text.replace('language = "tile"\n', "", 1))
    failed = cli(tmp_path / "p", "check")
    assert failed.code == 2
    assert (
        'kernels.cu has no kernel at all of language cuda: for its __tile_global__ functions say language = "tile"'
        in failed.err
    )
