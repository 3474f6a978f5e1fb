"""A project with SIMT kernels in Python: what is built, and what the kernels compute."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import Cli, copied

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain, pytest.mark.long]
pytest.importorskip("numba_cuda")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BUNDLE = "dist/tilec-simt-examples-0.1.0.tilec"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    root = copied(EXAMPLES / "simt", tmp_path_factory.mktemp("simt") / "simt")
    cli.good(root, "build", "--targets", "sm_90,compute_80")
    return root


def test_a_build_needs_no_gpu_and_says_its_tools(project: Path, cli: Cli) -> None:
    report = cli.good(project, "inspect", BUNDLE, "--json").json()
    assert {kernel["language"] for kernel in report["kernels"]} == {"simt"}
    assert {"numba-cuda", "numba", "llvmlite", "libnvvm", "ptxas"} <= {
        tool["name"] for tool in report["toolchain"]
    }
    assert "numba_cuda" not in (project / "dist" / "tilec_simt_examples" / "__init__.py").read_text(
        encoding="utf-8"
    )


def test_the_kernels_compute_what_their_references_say_where_threads_are_pythons(cli: Cli) -> None:
    script = Path(__file__).resolve().parents[1] / "toolchain" / "simulated.py"
    command = [sys.executable, "-W", "ignore", str(script), str(EXAMPLES / "simt")]
    env = {**cli.env, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, env=env, capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert done.stdout.split() == [
        "saxpy",
        "add_rows",
        "histogram",
        "matmul",
        "diffuse",
        "count_inside",
    ], done.stderr
