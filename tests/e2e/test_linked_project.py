"""A project whose kernel is linked with a source of device functions, from `tilec build` to a
launch as a driver sees it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import Cli, copied, edit
from tilec_runtime.bundle.read import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "linking"
BUNDLE = "dist/tilec-linking-examples-0.1.0.tilec"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    root = copied(EXAMPLE, tmp_path_factory.mktemp("linking") / "project")
    cli.good(root, "build", "--targets", "sm_80,sm_90,compute_80")
    return root


def test_the_linker_and_the_linked_files_are_in_the_bundle(project: Path, cli: Cli) -> None:
    report = cli.good(project, "inspect", BUNDLE, "--json").json()
    assert "libnvJitLink" in {tool["name"] for tool in report["toolchain"]}
    assert "libnvJitLink" in (project / "tilec.lock").read_text()
    index = Bundle.open(project / BUNDLE).info
    assert {name for name, _ in index.sources} >= {
        "activations.cu",
        "activations.cuh",
        "bias_act.cu",
    }
    explained = cli.good(
        project,
        "build",
        "--targets",
        "sm_80,sm_90,compute_80",
        "--explain",
        "bias_act-SMOOTH0-sm_90",
    ).out
    assert "input activations.cu " in explained
    assert "option link  " in explained


def test_an_edit_of_a_linked_file_compiles_the_kernel_again(project: Path, cli: Cli) -> None:
    before = (project / BUNDLE).read_bytes()
    edit(project / "activations.cu", "1.0f + expf(-x)", "1.0f + __expf(-x)")
    done = cli.good(project, "build", "--targets", "sm_80,sm_90,compute_80")
    assert len(done.jobs) == 6
    assert (project / BUNDLE).read_bytes() != before
    edit(project / "activations.cu", "1.0f + __expf(-x)", "1.0f + expf(-x)")
    assert not cli.good(project, "build", "--targets", "sm_80,sm_90,compute_80").jobs, (
        "all are in the cache"
    )
    assert (project / BUNDLE).read_bytes() == before
