"""A generated package at work: functions whose ops load its bundle where they run, beside methods
that launch at once.
"""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bundle_samples import write_package
from tests.cpu_samples import ADD as CPU_ADD
from tests.cpu_samples import PythonKernels, add
from tests.runtime_samples import GEMM, fake_driver
from tests.unit.runtime.test_launch_options import TUNED
from tests.waiting import PATIENCE
from tilec_runtime import Device, Explanation, LazyLaunch, as_op, use_device
from tilec_runtime.cpu.launch import CpuOptions
from tilec_runtime.errors import (
    RequirementError,
    UseAfterMoveError,
    VariantError,
)
from tilec_runtime.tensors.tensor import Tensor

ROOT = Path(__file__).resolve().parents[3]
HERE = "test_package_launches.py"
KERNELS = (CPU_ADD, GEMM, TUNED)
# Kernels that are called what the package's code uses too.
NAMES = (
    *("self", "stream", "loaded", "load", "lazy", "Package", "launch", "kernels", "AddLaunch"),
    "tilec_runtime",
)


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    write_package(tmp_path / "generated_sample", *KERNELS)
    write_package(
        tmp_path / "generated_names", *(dataclasses.replace(CPU_ADD, name=name) for name in NAMES)
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("generated_sample")
    for name in ("generated_sample", "generated_names"):
        sys.modules.pop(name, None)


class Cpu:
    """A cpu device that adds."""

    def __init__(self) -> None:
        self.runs = 0
        self.driver: Any = PythonKernels(CpuOptions(run=self._run))
        self.device = Device("cpu", driver=self.driver)

    def _run(self, run: Any) -> None:
        self.runs += 1
        add(run)

    def tensor(self, number: float, count: int = 8) -> Tensor:
        made = Tensor.uninitialized((count,), "f32", driver=self.driver, ordinal=-1, stream=0)
        np.asarray(made)[...] = number
        return made


@pytest.fixture
def cpu() -> Iterator[Cpu]:
    found = Cpu()
    with use_device(found.device):
        yield found


def test_ops_of_the_package_run_later(sample: Any, cpu: Cpu) -> None:
    op = sample.ops.add(cpu.tensor(0), cpu.tensor(2), as_op(cpu.tensor(3)), alpha=2.0)
    assert type(op) is LazyLaunch
    assert (op.name, cpu.runs) == ("launch of add", 0)
    z, x, _, alpha = op.sync()
    assert (np.asarray(z).tolist(), np.asarray(x)[0], alpha, cpu.runs) == ([7.0] * 8, 2, 2.0, 1)


def test_building_does_no_device_work(sample: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver is started, and nothing is loaded, before an op runs."""

    def started(*_: object) -> Any:
        raise AssertionError("a device was asked")

    for module in ("device.devices", "launch.load"):
        found = importlib.import_module(f"tilec_runtime.{module}")
        monkeypatch.setattr(found, "driver_of", started)
    arrays = [np.zeros(8, np.float32) for _ in range(3)]
    assert repr(sample.ops.add(*arrays)).startswith(
        f"<DeviceOp launch of add, created at {__file__}:"
    )
    with pytest.raises(VariantError, match="BM = 32 was not built"):
        sample.ops.gemm(*arrays, BM=32)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        sample.ops.add(*arrays[:2])


def test_threads_load_once(sample: Any, cpu: Cpu, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    starts = threading.Barrier(8, timeout=PATIENCE)
    module = importlib.import_module("tilec_runtime.launch.load")
    inner = module.load

    def load(bundle: Any, device: Any, **more: Any) -> Any:
        loads.append(device)
        return inner(bundle, device, **more)

    def run() -> None:
        starts.wait(PATIENCE)
        with use_device(cpu.device):
            sample.ops.add(cpu.tensor(0), cpu.tensor(2), cpu.tensor(3)).sync()

    monkeypatch.setattr(module, "load", load)
    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert (cpu.runs, loads) == (8, [-1])


def test_methods_and_functions_stand_side_by_side(sample: Any, cpu: Cpu) -> None:
    kernels = sample.load(cpu.device)
    z, x, y = cpu.tensor(0), cpu.tensor(2), cpu.tensor(3)
    kernels.add(z, x, y)
    z, x, y, _ = kernels.ops.add(z, x, y, alpha=3.0).sync()
    assert np.asarray(z)[0] == 9
    assert type(kernels["add"].explain(z, x, y)) is Explanation
    assert kernels.ops is kernels.ops
    other = Cpu()
    op = kernels.ops.add(z, x, y)
    with use_device(other.device), pytest.raises(Exception, match="the bundle is loaded on"):
        op.sync()
    kernels.ops.add(z, x, y).sync()  # and nothing was lost


@pytest.mark.usefixtures("sample")
def test_kernels_of_any_name(cpu: Cpu) -> None:
    package = importlib.import_module("generated_names")
    kernels = package.load(cpu.device)
    for name in NAMES:
        for function in (getattr(package.ops, name), getattr(kernels.ops, name)):
            op = function(cpu.tensor(0), cpu.tensor(2), cpu.tensor(3))
            assert (op.name, op.sync()[3]) == (f"launch of {name}", 1.0)
        getattr(kernels, name)(cpu.tensor(0), cpu.tensor(2), cpu.tensor(3))
    assert sorted(package.__all__) == ["Module", "Ops", "load", "ops"]
    assert set(dir(kernels.ops)) >= set(NAMES)


def test_choices_and_options(sample: Any) -> None:
    driver: Any = fake_driver(*KERNELS)

    def tensors(dtype: str = "f32", *shape: int) -> list[Tensor]:
        return [
            Tensor.uninitialized(shape or (512,), dtype, driver=driver, ordinal=0, stream=0)
            for _ in range(3)
        ]

    with use_device(Device(0, driver=driver)):
        sample.ops.gemm(*tensors("f16", 128, 128), BM=64).sync()
        sample.ops.gemm(*tensors("f16", 128, 128)).variant(BM=64).sync()
        sample.ops.gemm(*tensors("f16", 128, 128)).sync()
        sample.ops.tuned(*tensors()).options(occupancy=1).sync()
        sample.ops.tuned(*tensors(), B=128, occupancy=4).sync()
        sample.ops.tuned(*tensors()).options(
            occupancy=4
        ).sync()  # the default has no such variant, and B is left open
        with pytest.raises(
            VariantError, match="no variant of B=64 was built with the options occupancy=4"
        ):
            sample.ops.tuned(*tensors(), B=64).options(occupancy=4)
    symbols = [launch.symbol for launch in driver.launches]
    assert symbols == [
        "gemm_f16_64",
        "gemm_f16_64",
        "gemm_f16_128",
        "tuned_64_1",
        "tuned_128_4",
        "tuned_128_4",
    ]


def test_messages_name_the_callers_line(sample: Any, cpu: Cpu) -> None:
    z, x, y = cpu.tensor(0), cpu.tensor(2), cpu.tensor(3, 9)
    op = sample.ops.add(z, x, y)
    with pytest.raises(UseAfterMoveError, match=rf"moved into the launch of add \(.*{HERE}:\d+\)"):
        z.share()
    with pytest.raises(RequirementError, match=rf"op: launch of add, created at .*{HERE}:\d+"):
        op.sync()
    z.share()


def test_importing_a_package_costs_next_to_nothing(tmp_path: Path) -> None:
    """And a launch of foreign tensors at once needs no ops."""
    write_package(tmp_path / "cold", CPU_ADD)
    code = f"""
import sys
sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]
import cold
print(*sorted(name for name in sys.modules if name.startswith("tilec")))
from tests.cpu_samples import PythonKernels, add, ones
from tilec_runtime.cpu.launch import CpuOptions
from tilec_runtime.device.device import Device
before = set(sys.modules)
device = Device("cpu", driver=PythonKernels(CpuOptions(run=add)))
cold.load(device).add(ones(8), ones(8), ones(8))
device.sync()
print(*sorted(name for name in set(sys.modules) - before if name.startswith("tilec_runtime.ops")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout.split("\n") == [
        "tilec_runtime tilec_runtime.forks tilec_runtime.package",
        "",
        "",
    ]
