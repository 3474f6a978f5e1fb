"""One case launched and nothing else: the process that a profiler or debugger is put around (`python -m tilec.cli.bare`)."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tilec
from tilec.errors import TilecError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bare:
    """What to launch.

    Attributes:
        manifest: the project's.
        bundle: what is built of it: a file or a directory.
        case: its name in full (`gemm/4k[f16]`).
        device: such as `cuda:0`.
        told: file that takes, as JSON, what is launched, or why nothing is.
    """

    manifest: str
    bundle: str
    case: str
    device: str
    told: str

    def command(self) -> list[str]:
        """The command line of the process."""
        return [sys.executable, "-m", "tilec.cli.bare", *dataclasses.asdict(self).values()]


def main(args: Sequence[str]) -> int:
    """Launch a case once, and wait until it is done; the exit code."""
    bare = Bare(**dict(zip((field.name for field in dataclasses.fields(Bare)), args, strict=True)))
    try:
        _launch(bare)
    except TilecError as error:
        _tell(bare, {"error": {"what": error.what, "cause": error.cause, "fix": error.fix}})
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _launch(bare: Bare) -> None:
    from tilec.frontends.base import ToolSearch
    from tilec.inspection.container import open_container
    from tilec.project import open_project
    from tilec.runner.cases import expand_cases
    from tilec.runner.device import ModuleDevice
    from tilec.runner.inputs import make_inputs
    from tilec.runner.run import arguments_on
    from tilec.runtime import _driver
    from tilec.runtime.load import load

    bundle = open_container(Path(bare.bundle)).bundle
    built = {kernel.name: kernel for kernel in bundle.info.kernels}
    manifest = open_project(Path(bare.manifest), ToolSearch()).manifest
    cases = [case for kernel in manifest.kernels if kernel.name in built for case in expand_cases(kernel, built[kernel.name])]
    case = next(case for case in cases if case.name == bare.case)
    driver = _driver.driver()
    module = load(bundle, bare.device, driver=driver)
    device = ModuleDevice(module, driver)
    arguments, choice = arguments_on(case, device, make_inputs(case)), dict(case.choose)
    why = module.kernels[case.kernel].explain(**arguments, **choice)
    image = why.images.image
    _tell(bare, {"variant": why.variant.id, "image": image.digest if image else "", "symbol": image.symbol if image else ""})
    device.launch(case.kernel, arguments, choice)


def _tell(bare: Bare, what: dict[str, Any]) -> None:
    Path(bare.told).write_text(json.dumps({"tilec": tilec.__version__, **what}), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
