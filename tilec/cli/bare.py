"""One case launched and nothing else: the process that a profiler, debugger or sanitizer is put around."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tilec
from tilec.compiler.child import own_command
from tilec_runtime.errors import TilecError

if TYPE_CHECKING:
    from tilec.runner.cases import BoundCase
    from tilec.runner.device import ModuleDevice

# How a case's arrays lie in memory: as in any run; far apart; far apart, and those that the case leaves empty never written.
PLAIN, APART, UNSET = "plain", "apart", "unset"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bare:
    """What to launch.

    Attributes:
        manifest: the project's.
        bundle: what is built of it: a file or a directory.
        case: its name in full (`gemm/4k[f16]`).
        device: such as `cuda:0`.
        memory: how its arrays lie there: `PLAIN`, `APART` or `UNSET`.
        told: file that takes, as JSON, what is launched, with the places of its arrays, whether it came to its end, and what went wrong.
    """

    manifest: str
    bundle: str
    case: str
    device: str
    memory: str = PLAIN
    told: str

    def command(self) -> list[str]:
        """The command line of the process."""
        return own_command("tilec.cli.bare", *dataclasses.asdict(self).values())


def main(args: Sequence[str] | None = None) -> int:
    """Launch a case once, and wait until it is done; the exit code. The arguments are those of the process by default."""
    given = sys.argv[1:] if args is None else args
    bare = Bare(**dict(zip((field.name for field in dataclasses.fields(Bare)), given, strict=True)))
    told: dict[str, Any] = {"tilec": tilec.__version__}
    try:
        _launch(bare, told)
    except TilecError as error:
        _tell(bare, told, error={"what": error.what, "cause": error.cause, "fix": error.fix})
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _launch(bare: Bare, told: dict[str, Any]) -> None:
    from tilec.frontends.base import ToolSearch
    from tilec.inspection.container import open_container
    from tilec.project import open_project
    from tilec.runner.cases import fitting_cases, small_case
    from tilec.runner.device import ApartDevice, ModuleDevice
    from tilec_runtime import _driver
    from tilec_runtime.load import load
    from tilec_runtime.memory import DeviceBuffer

    bundle = open_container(Path(bare.bundle)).bundle
    built = {kernel.name: kernel for kernel in bundle.info.kernels}
    manifest = open_project(Path(bare.manifest), ToolSearch()).manifest
    cases = [case for kernel in manifest.kernels if kernel.name in built for case in fitting_cases(kernel, built[kernel.name])]
    case = next(case for case in cases if case.name == bare.case)
    driver = _driver.driver()
    module = load(bundle, bare.device, driver=driver)
    driver.adopt(module.device.ordinal)  # tools tell of each call that fails for want of a context
    device = ModuleDevice(module, driver) if bare.memory == PLAIN else ApartDevice(module, driver)
    case = case if bare.memory == PLAIN else small_case(case)  # a profile is of the sizes that are measured
    arguments, choice = _arguments(case, device, unset=bare.memory == UNSET), dict(case.choose)
    if isinstance(device, ApartDevice):
        told["gap"] = device.settle()
    why = module.kernels[case.kernel].explain(**arguments, **choice)
    image = why.images.image
    tensors = {name: (value.ptr, value.nbytes) for name, value in arguments.items() if isinstance(value, DeviceBuffer)}
    taken = {"variant": why.variant.id, "image": image.digest if image else "", "symbol": image.symbol if image else ""}
    _tell(bare, told, **taken, tensors=tensors, grid=why.shape.grid)  # before the launch, which may not come back
    device.launch(case.kernel, arguments, choice)
    _tell(bare, told, ended=True)


def _arguments(case: BoundCase, device: ModuleDevice, *, unset: bool) -> dict[str, Any]:
    """What the launch is given; with `unset`, nothing was ever written to what the case leaves empty."""
    import numpy as np

    from tilec.runner.inputs import make_inputs
    from tilec.runner.run import arguments_on

    inputs = make_inputs(case)
    empty = {item.name for item in case.inputs if item.dist == "empty" and item.shape is not None} if unset else set()
    filled = dataclasses.replace(case, params=tuple(param for param in case.params if param.name not in empty))
    made = arguments_on(filled, device, inputs)
    for param in case.params:
        if param.name in empty and isinstance(like := inputs[param.name], np.ndarray):
            made[param.name] = device.unset(like, param.dtype)
    return made


def _tell(bare: Bare, told: dict[str, Any], **more: Any) -> None:
    """Add to what is told."""
    told.update(more)
    Path(bare.told).write_text(json.dumps(told), encoding="utf-8")
