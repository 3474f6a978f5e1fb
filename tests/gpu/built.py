"""Projects whose bundles are built elsewhere: opening one, and what fails of a kernel's cases."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tilec.case.cases import expand_cases
from tilec.case.device import ModuleDevice
from tilec.case.functions import Functions
from tilec.case.run import run_case
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.manifest.types import Manifest
from tilec_runtime import Module, errors, load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.driver import driver


def bundle_of(project: Path, variable: str = "") -> tuple[Manifest, Path]:
    """A project's manifest, and its bundle: in its output directory, or where a variable says."""
    manifest = open_project(project / "tilec.toml", ToolSearch()).manifest
    name = f"{manifest.package.name}-{manifest.package.version}.tilec"
    path = Path(os.environ.get(variable, str(project / manifest.output.dir))) / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: build it first, with `tilec build` in {project}")
    return manifest, path


def on_gpu(path: Path) -> Module:
    """A bundle on the first device."""
    try:
        return load(Bundle.open(path), 0)
    except errors.NoDeviceError as error:
        pytest.skip(error.what)


def failing(name: str, manifest: Manifest, module: Module) -> list[tuple[str, str]]:
    """The cases of a kernel that do not agree with their reference, and why."""
    kernel = next(kernel for kernel in manifest.kernels if kernel.name == name)
    cases = expand_cases(kernel, module.kernels[name].info, locate=manifest.locate)
    assert cases
    device, functions = ModuleDevice(module, driver()), Functions(manifest.root)
    results = [run_case(case, device, functions, clock=time.perf_counter) for case in cases]
    return [
        (result.case.name, str(result.error or result.outputs))
        for result in results
        if result.status != "passed"
    ]
