"""The process under ncu, cuda-gdb or compute-sanitizer: it launches one case."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tilec.case.cases import BoundCase, small_case
from tilec.case.device import ModuleDevice
from tilec.case.inputs import make_inputs
from tilec.case.run import arguments_on
from tilec.cli.cases import Opened, Wish, chosen_cases, one_case
from tilec.cli.devices import find_gpu
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.inspection.container import open_container
from tilec_runtime.errors import TilecError
from tilec_runtime.foreign import printable

SMALL = "small"  # take the case's small sizes
UNSET = "unset"  # do not write inputs with dist = "empty"


def main() -> int:
    """Launch a case, and return the exit code.

    The arguments of the process are manifest, bundle, case, device, and options.
    """
    manifest, bundle, case, device, *options = sys.argv[1:]
    try:
        _launch(Path(manifest), Path(bundle), case, device, options)
    except TilecError as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return error.exit_code
    return 0


def _launch(path: Path, bundle: Path, name: str, device: str, options: list[str]) -> None:
    manifest = open_project(path, ToolSearch()).manifest
    opened = Opened(bundle=open_container(bundle).bundle)
    wish = Wish(kernels=(name.partition("/")[0],), chains=False)
    case = one_case(chosen_cases(opened, manifest, wish), name)
    if case.error is not None:
        raise case.error
    driver, gpu = find_gpu(device, "the launch")
    loaded = opened.load(driver, gpu)
    assert loaded is not None  # the bundle is there
    # Otherwise the tools report calls that fail without a current context.
    driver.adopt(gpu.ordinal)
    case = small_case(case) if SMALL in options else case
    loaded.launch(case, _arguments(case, loaded, unset=UNSET in options))


def _arguments(case: BoundCase, device: ModuleDevice, *, unset: bool) -> dict[str, Any]:
    """Return the arguments of the launch.

    With `unset`, empty inputs are allocated and not written.
    """
    inputs = make_inputs(case)
    empty = {item.name for item in case.inputs if item.dist == "empty" and item.shape is not None}
    empty = empty if unset else set()
    written = tuple(param for param in case.params if param.name not in empty)
    arguments = arguments_on(dataclasses.replace(case, params=written), device, inputs)
    for param in case.params:
        if param.name in empty and isinstance(like := inputs[param.name], np.ndarray):
            arguments[param.name] = device.unset(like, param.dtype)
    return arguments
