"""The process under ncu, cuda-gdb or compute-sanitizer: it launches one case."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilec_runtime.errors import TilecError
from tilec_runtime.foreign import printable

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.device import ModuleDevice

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


def _launch(manifest: Path, bundle: Path, name: str, device: str, options: list[str]) -> None:
    from tilec.case.cases import expand_cases, small_case
    from tilec.case.device import ModuleDevice
    from tilec.compile.project import open_project
    from tilec.frontends.base import ToolSearch
    from tilec.inspection.container import open_container
    from tilec_runtime.device import driver as _driver
    from tilec_runtime.launch.load import load

    built = open_container(bundle).bundle
    kernels = {kernel.name: kernel for kernel in built.info.kernels}
    found = open_project(manifest, ToolSearch()).manifest
    cases = [
        case
        for kernel in found.kernels
        if kernel.name in kernels
        for case in expand_cases(kernel, kernels[kernel.name], locate=found.locate)
    ]
    case = next(case for case in cases if case.name == name)
    if case.error is not None:
        raise case.error
    driver = _driver.driver()
    module = load(built, device, driver=driver)
    # Otherwise the tools report calls that fail without a current context.
    driver.adopt(module.device.ordinal)
    module_device = ModuleDevice(module, driver)
    case = small_case(case) if SMALL in options else case
    module_device.launch(case, _arguments(case, module_device, unset=UNSET in options))


def _arguments(case: BoundCase, device: ModuleDevice, *, unset: bool) -> dict[str, Any]:
    """Return the arguments of the launch.

    With `unset`, empty inputs are allocated and not written.
    """
    import numpy as np

    from tilec.case.inputs import make_inputs
    from tilec.case.run import arguments_on

    inputs = make_inputs(case)
    empty = {item.name for item in case.inputs if item.dist == "empty" and item.shape is not None}
    empty = empty if unset else set()
    written = tuple(param for param in case.params if param.name not in empty)
    arguments = arguments_on(dataclasses.replace(case, params=written), device, inputs)
    for param in case.params:
        if param.name in empty and isinstance(like := inputs[param.name], np.ndarray):
            arguments[param.name] = device.unset(like, param.dtype)
    return arguments
