"""A project whose CUDA C++ kernel calls device functions in Python: what a build says of them, and what makes it compile again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import Cli, edit, write
from tilec_runtime.bundle.read import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]
pytest.importorskip("numba_cuda")

MANIFEST = """edition = 1

[package]
name = "activated"
version = "0.1.0"

[targets]
default = ["sm_80", "sm_90", "compute_80"]

[kernel.apply]
source = "kernels/apply.cu"
link = ["kernels/act.py:relu"]
args = ["y.ptr", "x.ptr", "i32(x.size)"]
params = { y = {}, x = {} }
launch = { requires = ["y.size == x.size"], grid = ["cdiv(x.size, 256)"], block = [256] }
"""
FILES: dict[str, str | None] = {
    "kernels/apply.cu": """extern "C" __device__ float relu(float);
extern "C" __global__ void apply(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = relu(x[i]);
}
""",
    "kernels/act.py": """from numba import cuda, float32
from kernels.slopes import SLOPE

@cuda.jit(device=True)
def relu(x: float32) -> float32:
    return max(x, SLOPE * x)
""",
    "kernels/slopes.py": "SLOPE = 0.125\n",
}
BUNDLE = "dist/activated-0.1.0.tilec"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    root = write(tmp_path_factory.mktemp("activated") / "project", MANIFEST, FILES)
    cli.good(root, "build")
    return root


def test_a_build_names_the_python_and_what_compiles_it(project: Path, cli: Cli) -> None:
    explained = cli.good(project, "build", "--explain", "apply-sm_90").out
    for name in ("input kernels/act.py ", "input kernels/slopes.py ", "input <simt>/numba-cuda 0.30", "option link  "):
        assert name in explained
    assert {name for name, _ in Bundle.open(project / BUNDLE).info.sources} >= {"kernels/act.py", "kernels/slopes.py"}


def test_an_edit_of_what_the_python_imports_compiles_the_kernel_again(project: Path, cli: Cli) -> None:
    assert not cli.good(project, "build").jobs
    before = (project / BUNDLE).read_bytes()
    edit(project / "kernels/slopes.py", "0.125", "0.25")
    assert len(cli.good(project, "build").jobs) == 3
    assert (project / BUNDLE).read_bytes() != before
    edit(project / "kernels/slopes.py", "0.25", "0.125")
    cli.good(project, "build")
    assert (project / BUNDLE).read_bytes() == before


def test_two_signatures_are_an_error_at_both_places_and_write_nothing(project: Path, cli: Cli) -> None:
    before = (project / BUNDLE).read_bytes()
    edit(project / "kernels/apply.cu", "float relu(float);", "double relu(double);")
    failed = cli(project, "build")
    edit(project / "kernels/apply.cu", "double relu(double);", "float relu(float);")
    assert failed.code == 1
    assert "kernels/apply.cu:1:30: error: double relu(double) is declared" in failed.err
    assert "the function of Python at kernels/act.py:5:5 is" in failed.err
    assert "kernels/act.py:5:5: note: relu is defined here" in failed.err
    assert (project / BUNDLE).read_bytes() == before
