"""The cpu device and a GPU give the same, and each refuses the tensors of the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilec.case.cases import BoundCase, expand_cases
from tilec.case.compare import compare, tolerance_for
from tilec.case.device import ModuleDevice
from tilec.case.inputs import make_inputs
from tilec.case.run import arguments_on
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.devices import driver_of
from tilec_runtime.errors import PlacementError, SchedulingError
from tilec_runtime.launch.load import load

pytestmark = pytest.mark.gpu


ROOT = Path(__file__).resolve().parents[2]


# Every element is the same bit by bit: one addition or multiplication rounds alike everywhere.
EXACT = ("vector_add", "safe_add")


@pytest.fixture(scope="module")
def bundle(dist: Path) -> Bundle:
    return Bundle.open(next(dist.glob("tilec-examples-*.tilec")))


@pytest.fixture(scope="module")
def devices(bundle: Bundle, torch) -> dict[str, ModuleDevice]:
    return {
        name: ModuleDevice(load(bundle, name, driver=driver_of(name)), driver_of(name))
        for name in ("cuda:0", "cpu")
    }


def cases(bundle: Bundle) -> list[BoundCase]:
    manifest = open_project(ROOT / "tilec.toml", ToolSearch(path="")).manifest
    built = {kernel.name: kernel for kernel in bundle.info.kernels if kernel.language == "tile"}
    return [
        case
        for kernel in manifest.kernels
        if kernel.name in built
        for case in expand_cases(kernel, built[kernel.name], locate=None)
    ]


def test_every_tile_case_agrees(bundle, devices):
    chosen = cases(bundle)
    plain = {"vector_add", "saxpy", "softmax", "softmax_backward", "rms_norm", "layer_norm", "gemm"}
    assert {case.kernel for case in chosen} == plain | {"safe_add", "safe_softmax", "safe_gemm"}
    off = []
    for case in chosen:
        found = {}
        for name, device in devices.items():
            arguments = arguments_on(case, device, make_inputs(case))
            device.launch(case, arguments)
            found[name] = {out: device.from_device(arguments[out]) for out in case.outs}
        for out in case.outs:
            gpu, cpu = found["cuda:0"][out], found["cpu"][out]
            dtype = next(param.dtype for param in case.params if param.name == out)
            if case.kernel in EXACT:
                same = np.array_equal(gpu.view(f"u{gpu.itemsize}"), cpu.view(f"u{cpu.itemsize}"))
            else:
                same = compare(cpu, gpu, tolerance_for(case.tolerance, dtype)).ok
            off.extend([] if same else [f"{case.name}: {out}"])
    assert not off


def test_tensors_are_launched_on_where_they_live(package: Any, torch: Any) -> None:
    on_cpu, on_gpu = package.load("cpu"), package.load(torch.device("cuda", 0))
    assert str(on_cpu["vector_add"]) == "<Launcher vector_add on the cpu device>"
    x, y, z = torch.randn(1003), torch.randn(1003).pin_memory(), torch.empty(1003)
    from tilec_runtime import Stream

    with Stream("cpu") as stream:
        on_cpu.vector_add(z, x, y, stream=stream)
        stream.sync()
    assert torch.equal(z, x + y)
    there = torch.empty(1003, device="cuda")
    on_gpu.vector_add(there, x.cuda(), y.cuda())
    assert torch.equal(there.cpu(), z)
    with pytest.raises(
        PlacementError, match="'x' is on device 0, and the kernel is loaded on the cpu device"
    ):
        on_cpu.vector_add(z, x.cuda(), y)
    with pytest.raises(
        PlacementError, match="'x' is on the CPU, and the kernel is loaded on device 0"
    ):
        on_gpu.vector_add(there, x, y.cuda())
    with pytest.raises(SchedulingError, match="is no stream of the cpu device"):
        on_cpu.vector_add(z, x, y, stream=torch.cuda.Stream())
