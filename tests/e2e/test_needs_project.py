"""What real kernels need, from `check` to launches on the cpu device: each with a kernel and a case."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.harness import Cli, copied
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.bundle.read import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "needs_project"


@pytest.fixture(scope="module")
def project(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copied(SAMPLE, tmp_path_factory.mktemp("needs") / "project")
    cli.good(root, "check")
    return root


def test_every_case_passes_on_the_cpu_device(cli: Cli, project: Path) -> None:
    found = cli.good(project, "run", "--device", "cpu", "--json").json()
    statuses = {case["name"]: case["status"] for case in found["cases"]}
    skipped = {name for name, status in statuses.items() if status == "skipped"}
    assert skipped == {
        "scale_tuned/relu[f32]",
        "twice/thousand",
        "axpy/thousand",
        "square/thousand",
        "uniform/thousand",
        "scale_signed/thousand",
    }
    assert {statuses[name] for name in statuses.keys() - skipped} == {"passed"}
    outputs = {case["name"]: [one["name"] for one in case["outputs"]] for case in found["cases"]}
    assert outputs["take_rows/routed"] == ["y"]  # the reference leaves `seen` out
    assert outputs["take_and_scale/sorted"] == ["y"]
    assert outputs["grouped_gemm/two"] == ["c_0", "c_1"]  # the shorter lists take their own variant


def test_kernels_of_gpus_build_as_their_authors_wrote_them(cli: Cli, project: Path) -> None:
    names = ("scale_tuned", "twice", "axpy", "square", "uniform", "scale_signed")
    selected = [f"--select={name}*" for name in names]
    found = cli.good(project, "build", "--targets", "sm_90", *selected)
    assert "program.cu has a main(): it is compiled with nvcc" in found.out + found.err
    assert "launcher.cu includes <cstdio>: it is compiled with nvcc" in found.out + found.err
    bundle = Bundle.open(project / "dist" / "needs-1.0.tilec")
    tuned, axpy = bundle.kernel("scale_tuned"), bundle.kernel("axpy")
    assert (len(tuned.variants), dict(tuned.default)["BLOCK"]) == (8, 256)
    assert [slot.expr for slot in axpy.variants[0].abi] == ["y.ptr", "x.ptr", "a", "x.size", "0"]
    square = bundle.kernel("square")
    assert [(p.name, p.dtype, p.out) for p in square.params] == [
        ("y", "f32", True),
        ("x", "f32", False),
    ]
    (image,) = square.variants[0].images
    assert [kernel.name for kernel in read_cubin(bundle.image(image.digest)).kernels] == [
        "_Z6squarePfPKfi"
    ]


USES = """
import needs
import numpy as np

array = np.zeros((16, 16), np.float32)
kernels = needs.load("cpu")
kernels.grouped_gemm([array], (array,), b=[array])
c, a, b = needs.ops.grouped_gemm([array], (array,), [array]).sync()
reveal_type(c)
kernels.grouped_gemm(array, array, array)
"""


def test_lists_of_arrays_in_calls_of_the_package(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.good(project, "build", "--targets", "tileir", "--select=grouped_gemm*")
    monkeypatch.syspath_prepend(str(project / "dist"))
    kernels = importlib.import_module("needs").load("cpu")
    for count in (2, 3):
        a, b = (
            [np.full((16, 16), 1 + place, np.float32) for place in range(count)] for _ in range(2)
        )
        c = [np.zeros((16, 16), np.float32) for _ in range(count)]
        kernels.grouped_gemm(c, tuple(a), b)
        assert [int(each[3, 5]) for each in c] == [16 * (1 + place) ** 2 for place in range(count)]
    (project / "uses.py").write_text(USES, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "../uses.py"],
        cwd=project / "dist",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("../uses.py")]
    assert [line.split(":")[1] for line in lines] == ["9"] + ["10"] * 3, done.stdout
    assert "tuple[numpy.ndarray[" in lines[0]
    assert lines[0].endswith(', ...]"')
