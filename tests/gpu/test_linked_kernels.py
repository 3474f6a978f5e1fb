"""Linked kernels and tile kernels in C++ on a GPU: every case of examples/linking and
examples/tile_cpp, and what is resident of them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tilec.case.cases import expand_cases
from tilec.case.device import ModuleDevice
from tilec.case.reference import References
from tilec.case.run import run_cases
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.manifest.types import Manifest
from tilec_runtime import Module, errors, load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.driver import driver

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KERNELS = (("linking", "bias_act"), ("tile_cpp", "axpy"), ("tile_cpp", "softmax"))


def opened(example: str) -> tuple[Manifest, Module]:
    """The bundle of an example, built elsewhere with `tilec build` in its directory."""
    manifest = open_project(EXAMPLES / example / "tilec.toml", ToolSearch()).manifest
    path = EXAMPLES / example / "dist" / f"{manifest.package.name}-{manifest.package.version}.tilec"
    if not path.is_file():
        pytest.skip(
            f"{path} is not there: build it first, with `tilec build` in examples/{example}"
        )
    try:
        return manifest, load(Bundle.open(path), 0)
    except errors.DeviceError as error:
        pytest.skip(f"no GPU: {error.what}")


@pytest.mark.parametrize(("example", "name"), KERNELS)
def test_every_case_agrees_with_its_reference(example: str, name: str) -> None:
    manifest, module = opened(example)
    kernel = next(kernel for kernel in manifest.kernels if kernel.name == name)
    cases = expand_cases(kernel, module.kernels[name].info, locate=manifest.locate)
    assert cases
    report = run_cases(
        cases, ModuleDevice(module, driver()), References(manifest.root), clock=time.perf_counter
    )
    assert [
        (r.case.name, str(r.error or r.outputs)) for r in report.results if r.status != "passed"
    ] == []


def test_what_is_resident_is_within_the_devices_limits(torch: Any) -> None:
    _, module = opened("linking")
    x, bias = torch.zeros((64, 300), device="cuda"), torch.zeros(300, device="cuda")
    held = module.bias_act.residency(torch.empty_like(x), x, bias)
    properties = torch.cuda.get_device_properties(0)
    assert held.threads == 256
    assert 1 <= held.max_active_blocks <= properties.max_threads_per_multi_processor // 256
    assert held.max_cooperative_grid == held.max_active_blocks * properties.multi_processor_count
    assert held.suggest_block_size % 32 == 0
