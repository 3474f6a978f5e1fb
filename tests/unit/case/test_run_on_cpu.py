"""`tilec run` where there is no GPU: which device is taken, what is skipped and why, and what it
exits with. Kernels are Python here.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bundle_samples import write_kernels
from tests.cpu_samples import I32, PTR, held, program_of
from tests.runtime_samples import TENSOR, image, kernel, slot
from tests.unit.conftest import Cli, Ran
from tilec_runtime.cpu import driver as cpu_driver
from tilec_runtime.cpu.launch import CpuOptions, CpuRun
from tilec_runtime.errors import FaultError
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param

ABI = (slot("ptr", "z.ptr"), slot("ptr", "x.ptr"), slot("i32", "x.size"))


def doubling(name: str, target: str, language: str, **facts: Any) -> KernelInfo:
    params = (
        Param(name="z", kind=TENSOR, dtype="f32", rank=1, out=True),
        Param(name="x", kind=TENSOR, dtype="f32", rank=1),
    )
    variant = VariantInfo(id=name, abi=ABI, images=(image(name, target, **facts),))
    launch = LaunchInfo(grid=("cdiv(x.size, 256)",), block=("1",))
    return dataclasses.replace(kernel(name, params, (variant,), launch=launch), language=language)


KERNELS = (
    doubling("twice", "tileir", "tile", ptx_isa=(13, 3), cuda=(13, 3)),
    doubling("broken", "tileir", "tile"),
    doubling("native", "sm_90", "cuda"),
    doubling("narrow", "sm_90", "tile", exact=True),
)
HEAD = 'edition = 1\n[package]\nname = "acme"\nversion = "1.0"\n[targets]\ndefault = ["sm_90"]\n'
TABLE = """\
[kernel.{name}]
source = "{source}"
launch = {{ grid = ["1"]{block} }}
params = {{ z = {{ dtype = "f32", rank = 1, out = true }}, x = {{ dtype = "f32", rank = 1 }} }}
[kernel.{name}.case.small]
inputs.x = {{ shape = [40], dtype = "f32", dist = "ones" }}
inputs.z = {{ shape = ["x.size"], dtype = "f32", dist = "empty" }}
reference = "reference.py:twice"
"""


def manifest(*names: str) -> str:
    sources = {"native": ("kernels.cu", ", block = [1]")}
    tables = [
        TABLE.format(name=name, source=source, block=block)
        for name in names
        for source, block in [sources.get(name, ("kernels.py", ""))]
    ]
    return HEAD + "".join(tables)


class PythonDevice(cpu_driver.CpuDriver):
    """A cpu device that doubles; `broken` faults, and says what order of blocks it was asked for."""

    def __init__(self, options: CpuOptions) -> None:
        super().__init__(dataclasses.replace(options, run=twice))

    def load_module(self, ordinal: int, data: bytes) -> Any:
        return data

    def function(self, module: Any, symbol: str) -> Any:
        return program_of(PTR, PTR, I32)


def twice(run: CpuRun) -> None:
    if run.kernel == "broken":
        raise FaultError(
            f"{run.kernel}: blocks in {run.options.order!r} order: it went wrong", kernel=run.kernel
        )
    run.options.output("a kernel prints\n")
    np.multiply(held(run, "x"), 2, out=held(run, "z"))


@pytest.fixture
def tilec(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_driver: None) -> Cli:
    monkeypatch.setattr(cpu_driver, "CpuDriver", PythonDevice)
    (tmp_path / "kernels.py").write_text("")
    (tmp_path / "kernels.cu").write_text("")
    (tmp_path / "reference.py").write_text("def twice(x):\n    return 2 * x\n")
    write_kernels(tmp_path / "acme.tilec", *KERNELS)

    def call(names: str, *args: str) -> Ran:
        (tmp_path / "tilec.toml").write_text(manifest(*names.split()))
        return cli("run", "--bundle", "acme.tilec", *args)

    return call


SKIPPED_CUDA = "skipped native: it is a CUDA C++ kernel, compiled to code of a GPU; the cpu device runs tile kernels only"


def test_without_a_gpu_the_cpu_device_is_taken_and_it_says_so(tilec: Cli) -> None:
    done = tilec("twice native")
    assert done.code == 0
    assert (
        done.err
        == "running on the cpu device, without a GPU: the CUDA driver (libcuda) cannot be loaded\n"
    )
    lines = done.out.splitlines()
    assert lines[1] == "a kernel prints"
    assert lines[2].split()[:5] == ["twice/small", "ok", "z", "0", "0"]
    assert lines[3].split()[:2] == ["native/small", "skip"]
    assert lines[5] == "2 cases on the cpu device: 1 passed, 1 skipped"
    assert lines[6].startswith(SKIPPED_CUDA)


@pytest.mark.parametrize(
    ("names", "arguments", "words"),
    [
        ("native", (), SKIPPED_CUDA),
        ("twice native", ("native",), SKIPPED_CUDA),
        ("twice native", ("twice", "native"), "1 passed, 1 skipped"),
        (
            "narrow",
            (),
            "skipped narrow: the kernel was built without portable Tile IR: build the bundle for the target tileir too",
        ),
        (
            "twice native",
            ("native", "--arg", "x=f32[3]", "--arg", "z=f32[3]"),
            "skipped native: it is a CUDA C++ kernel",
        ),
    ],
)
def test_nothing_that_could_be_run_is_no_success(
    tilec: Cli, names: str, arguments: tuple[str, ...], words: str
) -> None:
    done = tilec(names, *arguments)
    assert done.code == 3
    assert words in done.out


def test_a_failure_counts_more_than_a_skip(tilec: Cli) -> None:
    done = tilec("twice broken native", "broken", "native", "--block-order", "7")
    assert done.code == 1
    assert "  broken: blocks in 7 order: it went wrong" in done.out
    assert "2 cases on the cpu device: 1 could not be run or compared, 1 skipped" in done.out


def test_json_has_the_skipped_cases_and_nothing_that_a_kernel_prints(tilec: Cli) -> None:
    done = tilec("twice native", "--json")
    document = json.loads(done.out)
    assert done.code == 0
    assert "a kernel prints" in done.err
    assert (document["ok"], document["device"]) == (True, {"kind": "cpu", "name": "CPU"})
    assert document["counts"] == {
        "passed": 1,
        "failed": 0,
        "error": 0,
        "hung": 0,
        "ran": 0,
        "skipped": 1,
    }
    passed, skipped = document["cases"]
    assert (passed["status"], skipped["status"], skipped["outputs"]) == ("passed", "skipped", [])
    assert skipped["reason"].startswith("it is a CUDA C++ kernel")


@pytest.mark.parametrize("command", ["run", "sanitize"])
def test_json_of_nothing_that_could_be_run_is_not_ok(tilec: Cli, cli: Cli, command: str) -> None:
    tilec("native")
    done = cli(command, "--bundle", "acme.tilec", "--json")
    assert (done.code, json.loads(done.out)["ok"]) == (3, False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--block-order", "sideways"],
            "'--block-order': 'sideways': use forward, reverse, or a whole number",
        ),
        (
            ["--block-order", "reverse", "--device", "cuda:1"],
            "--block-order needs the cpu device, but --device is cuda:1",
        ),
        (
            ["--trace", "none"],
            "'none' matches none of the cases: name one\n  fix: cases are twice/small, native/small",
        ),
        (["--block", "0"], "--block needs --trace"),
        (
            ["--trace", "twice/small", "--block", "0,x"],
            "'--block': '0,x': write its index in the grid, such as 3 or 3,0",
        ),
        (["--device", "cpu:0"], "'cpu:0' is no device"),
    ],
)
def test_usage(tilec: Cli, arguments: list[str], words: str) -> None:
    done = tilec("twice native", *arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
