"""One case under an NVIDIA tool, which observes a process that launches the case."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App
from tilec.cli.cases import (
    Opened,
    Wish,
    bundle_options,
    check_wish,
    chosen_cases,
    one_case,
    open_bundle,
    open_project,
)
from tilec.cli.complete import completes, names_of
from tilec.cli.devices import device_option, find_gpu
from tilec.compile.own import own_command
from tilec_runtime.errors import MissingError, ToolchainError, UsageError

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.compile.project import Project
    from tilec.manifest.types import Manifest
    from tilec_runtime.device.seam import DeviceInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """A built case, ready to launch on a GPU."""

    case: BoundCase
    opened: Opened
    manifest: Manifest
    device: DeviceInfo

    def command(self, app: App, *options: str) -> list[str]:
        """Return the command line of the launch; options are `SMALL` and `UNSET`."""
        words = (app.manifest_path(), self.opened.path, self.case.name)
        place = f"cuda:{self.device.ordinal}"
        return own_command("tilec.cli.launch_case", *map(str, words), place, *options)

    def symbols(self) -> tuple[str, ...]:
        """Return the entry points that the launch may use."""
        variants = self.opened.kernels[self.case.kernel].variants
        return tuple(dict.fromkeys(image.symbol for v in variants for image in v.images))


def case_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare `CASE`, `--device`, `--bundle` and `--targets`."""
    for option in (
        bundle_options("this GPU's own"),
        device_option("cuda:0", "cuda or cuda:N.", ("cuda",)),
        click.argument("case", metavar="CASE", shell_complete=completes(names_of)),
    ):
        command = option(command)
    return command


def watched_case(
    app: App,
    tool: str,
    name: str,
    device: str,
    bundle: str | None,
    targets: tuple[str, ...],
    *,
    profile: str = "release",
) -> tuple[Watched, str]:
    """Return a case and a tool's path; build nothing if the tool or GPU is missing.

    Args:
        app: run of the command.
        tool: `ncu` or `cuda-gdb`.
        name: name of the case, such as `gemm/4k[f16]`.
        device: the GPU, such as `cuda:0`.
        bundle: bundle to launch from; None to build the case's kernel with source lines.
        targets: targets to build for; empty for the GPU's own.
        profile: profile to build with.

    Raises:
        UsageError: the case does not exist, or belongs to a chain.
        MissingError: the tool, the GPU or an image for it is missing.
    """
    from tilec.case.tools import find_outside_tool

    project = open_project(app)
    kernel, _, rest = name.partition("/")
    case = rest.partition("[")[0]
    if not case:
        raise UsageError(f"{name!r} is not the name of a case", fix="write KERNEL/CASE")
    wish = Wish(kernels=(kernel,), cases=(case,), chains=False, bundle=bundle, targets=targets)
    check_wish(project.manifest, wish)
    program = find_outside_tool(tool, app.settings.search)
    opened, gpu = open_on_gpu(app, project, wish, device, profile, tool)
    if opened.bundle is None:
        reasons = "; ".join(opened.absent.values())
        raise MissingError(f"{name} cannot be launched: {reasons}", kernel=kernel)
    chosen = one_case(chosen_cases(opened, project.manifest, wish), name)
    if chosen.error is not None:
        raise chosen.error
    watched = Watched(case=chosen, opened=opened, manifest=project.manifest, device=gpu)
    return watched, program


def open_on_gpu(
    app: App,
    project: Project,
    wish: Wish,
    device: str,
    profile: str,
    tool: str,
) -> tuple[Opened, DeviceInfo]:
    """Open a bundle, or build kernels with source lines, for a GPU.

    Raises:
        NoDeviceError: the GPU, which `tool` needs, is missing.
    """
    _, gpu = find_gpu(device, tool)
    if not (wish.targets or wish.bundle):  # the project's targets for this architecture
        own = (str(target) for target in project.manifest.targets.default if target.cc == gpu.cc)
        targets = tuple(name for name in own if name.startswith("sm_"))
        wish = dataclasses.replace(wish, targets=targets)
    opened = open_bundle(app, project, wish, cpu=False, profile=profile)
    return opened, gpu


def run_tool(app: App, command: Sequence[str]) -> int:
    """Run a tool on this terminal and return its exit code.

    With --json its output goes to standard error.

    Raises:
        ToolchainError: the tool cannot be started.
    """
    app.clear_status()
    sys.stdout.flush()
    try:
        # Pass the whole environment, which may locate the driver and libraries of the launch.
        return subprocess.run(
            list(command), env=dict(os.environ), stdout=2 if app.json else None, check=False
        ).returncode
    except OSError as exc:
        raise ToolchainError(
            f"cannot start {command[0]}: {exc.strerror or exc}", fix="install it again"
        ) from exc


def report_path(app: App, kind: str, case: str, suffix: str) -> Path:
    """Return the path of a tool's report, `.tilec/KIND/CASE.SUFFIX`."""
    from tilec.compile.state import WorkDir

    folder = WorkDir(app.manifest_path().parent).file(kind)
    letters = (letter if letter.isalnum() or letter in "-_" else "." for letter in case)
    return folder / f"{''.join(letters).strip('.')}{suffix}"
