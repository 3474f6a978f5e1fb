"""What real kernels need, from `check` to launches on the cpu device: each with a kernel and a case."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import Cli

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "needs_project"


@pytest.fixture(scope="module")
def project(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("needs") / "project"
    shutil.copytree(SAMPLE, root, ignore=shutil.ignore_patterns("dist", ".tilec", "__pycache__"))
    cli.good(root, "check")
    cli.good(root, "build", "--targets", "tileir")
    return root


def test_every_case_passes_on_the_cpu_device(cli: Cli, project: Path) -> None:
    found = cli.good(project, "run", "--device", "cpu", "--json").json()
    assert {case["status"] for case in found["cases"]} == {"passed"}
    outputs = {case["name"]: [one["name"] for one in case["outputs"]] for case in found["cases"]}
    assert outputs["take_rows/routed"] == ["y"]  # the reference leaves `seen` out
    assert outputs["take_and_scale/sorted"] == ["y"]
