"""Real kernels, compiled and run without a GPU: every tile example, loops without an end, Ctrl-C,
generated packages.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import Cli, await_true, environment, write

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


def test_every_case_of_the_tile_examples_passes(cli: Cli, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name in ("tilec.toml", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    # Threads of BLAS that wait for each other on a busy machine take many times as long as one.
    document = cli.good(
        tmp_path, "run", "--device", "cpu", "--json", *TARGETS, OPENBLAS_NUM_THREADS="1"
    ).json()
    cases = {case["name"]: case for case in document["cases"]}
    assert {name for name, case in cases.items() if case["status"] == "passed"} == PASSED
    skipped = [case for case in cases.values() if case["status"] == "skipped"]
    assert {case["kernel"] for case in skipped} == NEED_A_GPU
    assert len(skipped) + len(PASSED) == len(cases)
    assert (document["ok"], document["device"]) == (True, {"kind": "cpu", "name": "CPU"})


def test_a_loop_without_an_end_stops_at_its_limit_and_says_where(cli: Cli, tmp_path: Path) -> None:
    done = cli(project(tmp_path, "spin", SPIN), "run", "--device", "cpu", "--steps", "500")
    assert done.code == 1
    assert (
        "  k/spin.py:8:5: spin-TILE128: loop in block (0, 0, 0): still running after 500 passes of its loops"
        in done.out
    )
    assert "raise the limit of steps (--steps)" in done.out


def test_a_case_that_hangs_is_told_and_the_others_go_on(cli: Cli, tmp_path: Path) -> None:
    """Twice in one run, also where nothing is a terminal; without a limit it would end at its limit
    of steps, after many minutes.
    """
    sources = {"first": COPY, "spin": SPIN, "second": COPY, "spun": SPIN, "third": COPY}
    files = {
        f"k/{name}.py": source.replace("def copy", f"def {name}").replace("def spin", f"def {name}")
        for name, source in sources.items()
    }
    manifest = HEAD + "".join(KERNEL.format(name=name, size=1000) for name in sources)
    root = write(tmp_path, manifest, {**files, "k/reference.py": REFERENCE})
    cli.good(root, "build")
    done = cli(root, "run", "--device", "cpu", "--timeout", "6")
    assert done.code == 1
    assert [
        line.split()[:2]
        for line in done.out.splitlines()
        if line[0:1].strip() and "case" not in line.split()[0:2]
    ] == [
        ["first/small", "ok"],
        ["spin/small", "HUNG"],
        ["second/small", "ok"],
        ["spun/small", "HUNG"],
        ["third/small", "ok"],
        ["5", "cases"],
    ]
    assert (
        """
  spin/small did not end within 6 s: it hangs in kernel spin, grid (8, 1, 1), block (1, 1, 1)
    cause: a loop of the kernel never ends, or blocks wait for each other
    fix: see which loop never ends; if the case needs longer, raise --timeout SECONDS (0 for no limit)
"""
        in done.out
    )
    assert done.out.endswith("\n5 cases on the cpu device: 3 passed, 2 hung\n")
    assert done.err.splitlines() == [
        f"running {name}/small ({place} of 5) for 5 s, hung after 6 s"
        for name, place in (("spin", 2), ("spun", 4))
    ]

    told = cli(root, "run", "spin", "third", "--device", "cpu", "--timeout", "2", "--json")
    document = told.json()
    assert (
        told.code,
        document["ok"],
        document["counts"]["hung"],
        document["counts"]["passed"],
    ) == (1, False, 1, 1)
    assert [(case["name"], case["status"]) for case in document["cases"]] == [
        ("spin/small", "hung"),
        ("third/small", "passed"),
    ]
    assert (
        "hangs in kernel spin, grid (8, 1, 1), block (1, 1, 1)"
        in document["cases"][0]["error"]["message"]
    )


@pytest.mark.parametrize("more", [(), ("--trace", "spin/small")], ids=["run", "trace"])
def test_ctrl_c_ends_a_run_at_once(tmp_path: Path, more: tuple[str, ...]) -> None:
    cli = Cli(environment(tmp_path / "cache"))
    root = project(tmp_path / "project", "spin", SPIN)
    cli.good(root, "build")
    with cli.start(root, "run", "--device", "cpu", *more) as process:
        assert process.stdout is not None
        lines = [
            process.stdout.readline() for _ in range(20 if more else 1)
        ]  # of a trace, those of the kernel are among them
        before = _computed(process.pid)
        await_true("the kernel runs", lambda: more or _computed(process.pid) > before + 1)
        assert all(lines)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(
            timeout=60
        )  # by itself it would end at its limit of steps, after many minutes
    assert process.returncode == 130
    assert "interrupted" in words
    assert "Traceback" not in words


def _computed(pid: int) -> float:
    """Seconds of processors that a process took."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_tensors_without_elements_and_wrong_shapes(cli: Cli, tmp_path: Path) -> None:
    root = project(tmp_path, "copy", COPY)
    empty = cli(
        root,
        "run",
        "copy",
        "--arg",
        "x=f32[0]",
        "--arg",
        "z=f32[0]",
        "--reference",
        "k/reference.py:same",
    )
    assert (empty.code, empty.out.splitlines()[1].split()[:3]) == (0, ["copy", "ok", "z"])
    wrong = cli(root, "run", "copy", "--arg", "x=f32[5]", "--arg", "z=f32[4]")
    assert wrong.code == 1
    assert (
        "copy: requires x.shape == z.shape: left-hand side is (5,), right-hand side is (4,)"
        in wrong.out
    )


def test_without_tile_ir_it_says_what_to_add(cli: Cli, tmp_path: Path) -> None:
    root = project(tmp_path, "copy", COPY)
    done = cli(root, "run", "--targets", "sm_90")
    assert done.code == 3
    reason = "skipped copy: the kernel was built without portable Tile IR: add tileir to --targets, or leave --targets out"
    assert reason in done.out
    assert cli.good(root, "run").out.splitlines()[1].split()[:2] == ["copy/small", "ok"]


def test_a_generated_package_runs_on_numpy_arrays(cli: Cli, tmp_path: Path) -> None:
    root = project(tmp_path, "copy", COPY)
    cli.good(root, "build")
    code = """
import numpy as np, acme
from tilec_runtime import DeviceBuffer, Stream
kernels = acme.load("cpu")
x, z = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
x.flags.writeable = False
with Stream("cpu") as stream:
    kernels.copy(z, x, stream=stream)
    stream.sync()
assert (z == x).all()
streams, results = [Stream("cpu") for _ in range(4)], [np.zeros(10**6, np.float32) for _ in range(4)]
inputs = [np.full(10**6, number, np.float32) for number in range(4)]
for _ in range(3):
    for stream, result, given in zip(streams, results, inputs):
        kernels.copy(result, given, stream=stream)
for stream in streams:
    stream.sync()
assert all((result == given).all() for result, given in zip(results, inputs))
buffer = DeviceBuffer((1000,), "f32", "cpu")
kernels.copy(buffer, x)
assert (buffer.to_host() == x).all()
print(kernels["copy"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root / "dist",
        env=dict(cli.env),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "<Launcher copy on the cpu device>\n"
