"""Real kernels, compiled and run without a GPU: every tile example, loops without an end, Ctrl-C,
generated packages.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import Cli, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("--targets", "tileir,compute_80")  # CUDA kernels are built too, to be skipped
PASSED = {
    *(f"vector_add/{case}[{dtype}]" for case in ("1m", "odd", "one") for dtype in ("f32", "f16")),
    "saxpy/1m",
    "saxpy/odd",
    "softmax/1k",
    "softmax/odd",
    "softmax/wide",
    "softmax_backward/1k",
    "softmax_backward/odd",
    "rms_norm/4k[bf16]",
    "rms_norm/odd[bf16]",
    "layer_norm/1k",
    "layer_norm/odd",
    "gemm/1k[f16]",
    "gemm/1k[bf16]",
    "gemm/4k",
    "gemm/odd[f16]",
    "gemm/odd[bf16]",
    "gemm/small_tiles",
    "safe_add/1m[f32]",
    "safe_add/odd[f32]",
    "safe_softmax/1k",
    "safe_softmax/odd",
    "safe_gemm/1k[f16]",
    "safe_gemm/odd[f16]",
}
NEED_A_GPU = {"reduce_sum", "block_scan", "elementwise", "stencil", "square_add"}

HEAD = """edition = 1
[package]
name = "acme"
version = "1.0.0"
[targets]
default = ["tileir"]
min-driver = "580"
"""
KERNEL = """
[kernel.{name}]
source = "k/{name}.py"
matrix = {{ TILE = [128] }}
launch = {{ requires = ["x.shape == z.shape"], grid = ["cdiv(z.shape[0], TILE)"] }}
[kernel.{name}.params]
z = {{ dtype = "f32", rank = 1, out = true }}
x = {{ dtype = "f32", rank = 1 }}
[kernel.{name}.case.small]
inputs.x = {{ shape = [{size}], dtype = "f32", dist = "ones" }}
inputs.z = {{ shape = [{size}], dtype = "f32", dist = "empty" }}
reference = "k/reference.py:same"
"""
REFERENCE = "def same(x):\n    return x\n"
SPIN = """import cuda.tile as ct


@ct.kernel
def spin(z, x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    n = 1
    while n > 0:
        n = n * 1
    ct.store(z, (i,), ct.load(x, (i,), (TILE,)) * n)
"""
COPY = """import cuda.tile as ct


@ct.kernel
def copy(z, x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (TILE,)))
"""


def project(root: Path, name: str, source: str, size: int = 1000) -> Path:
    return write(
        root,
        HEAD + KERNEL.format(name=name, size=size),
        {f"k/{name}.py": source, "k/reference.py": REFERENCE},
    )


@pytest.mark.parametrize(
    "names", [("odd", "one", "small_tiles"), pytest.param((), marks=pytest.mark.long)]
)
def test_cases_of_the_tile_examples_pass(cli: Cli, tmp_path: Path, names: tuple[str, ...]) -> None:
    """The small ones in the gate, else all."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name in ("tilec.toml", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    # Threads of BLAS that wait for each other on a busy machine take many times as long as one.
    chosen = [word for name in names for word in ("--case", name)]
    document = cli.good(
        tmp_path, "run", "--device", "cpu", "--json", *chosen, *TARGETS, OPENBLAS_NUM_THREADS="1"
    ).json()
    cases = {case["name"]: case for case in document["cases"]}
    passed = {name for name, case in cases.items() if case["status"] == "passed"}
    assert passed == {name for name in PASSED if not names or re.split(r"[/[]", name)[1] in names}
    skipped = [case for case in cases.values() if case["status"] == "skipped"]
    assert {case["kernel"] for case in skipped} <= NEED_A_GPU
    assert len(skipped) + len(passed) == len(cases)
    assert (document["ok"], document["device"]) == (True, {"kind": "cpu", "name": "CPU"})


def test_a_loop_without_an_end_stops_at_its_limit_and_says_where(cli: Cli, tmp_path: Path) -> None:
    done = cli(project(tmp_path, "spin", SPIN), "run", "--device", "cpu", "--steps", "500")
    assert done.code == 1
    assert (
        "  k/spin.py:8:5: spin-TILE128: loop in block (0, 0, 0): still running after 500 passes of its loops"
        in done.out
    )
    assert "raise the limit of steps (--steps)" in done.out


@pytest.mark.long
def test_a_case_that_hangs_ends_the_run(cli: Cli, tmp_path: Path) -> None:
    """Also where nothing is a terminal."""
    sources = {"first": COPY, "spin": SPIN, "second": COPY}
    files = {
        f"k/{name}.py": source.replace("def copy", f"def {name}").replace("def spin", f"def {name}")
        for name, source in sources.items()
    }
    manifest = HEAD + "".join(KERNEL.format(name=name, size=1000) for name in sources)
    root = write(tmp_path, manifest, {**files, "k/reference.py": REFERENCE})
    cli.good(root, "build")
    done = cli.process(root, "run", "--device", "cpu", "--timeout", "6")
    assert done.code == 1
    rows = [line.split()[:2] for line in done.out.splitlines() if "/small  " in line]
    assert rows == [["first/small", "ok"], ["spin/small", "HUNG"], ["second/small", "skip"]]
    assert (
        """
  spin/small did not end within 6 s: it hangs in kernel spin, grid (8, 1, 1), block (1, 1, 1)
    cause: a loop of the kernel never ends, or blocks wait for each other
    fix: check the loops of the kernel; if the case needs longer, raise --timeout SECONDS (0 for no limit)
"""
        in done.out
    )
    assert done.out.endswith(
        "\n3 cases on the cpu device: 1 passed, 1 hung, 1 skipped\nskipped second: spin/small hangs\n"
    )
    assert done.err == ""
    told = cli.process(root, "run", "spin", "second", "--device", "cpu", "--timeout", "2", "--json")
    document = told.json()
    assert (told.code, document["ok"], document["counts"]["hung"]) == (1, False, 1)
    assert [case["status"] for case in document["cases"]] == ["hung", "skipped"]
    assert (
        "hangs in kernel spin, grid (8, 1, 1), block (1, 1, 1)"
        in document["cases"][0]["error"]["message"]
    )
