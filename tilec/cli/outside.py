"""One case under a tool of NVIDIA's: found by its name, built for the GPU at hand, and launched by
a process of its own.
"""

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
from tilec.cli.cases import How, Wish, chosen_cases, open_bundle, open_project, require_no_chain
from tilec.cli.chosen import bundle_options
from tilec.cli.complete import completes, gpus, whole_cases
from tilec_runtime.errors import (
    MissingError,
    NoDeviceError,
    OutputError,
    ToolchainError,
    UsageError,
)

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.compile.project import Project
    from tilec.manifest.types import Manifest
    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.device.seam import DeviceInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """A case that is ready to be launched on `device`: it is built in `bundle`, which lies at
    `path`.
    """

    case: BoundCase
    bundle: Bundle
    path: Path
    manifest: Manifest
    device: DeviceInfo

    def command(self, app: App, *options: str) -> list[str]:
        """Return the command line of the process that launches it; options as `alone.command` takes
        them.
        """
        from tilec.cli import alone

        return alone.command(
            app.manifest_path(), self.path, self.case.name, self.device.ordinal, *options
        )

    def symbols(self) -> tuple[str, ...]:
        """Return the entry points that the launch may take."""
        from tilec.case.cases import said_axes

        (kernel,) = (one for one in self.bundle.info.kernels if one.name == self.case.kernel)
        # Where a table or rules choose, a launch may take any point that the case leaves open, and
        # not the default.
        axes = said_axes(self.case, kernel) if kernel.dispatched else dict(self.case.axes)
        fitting = (
            v
            for v in kernel.variants
            if all(axes.get(name, value) == value for name, value in v.axes)
        )
        return tuple(dict.fromkeys(image.symbol for variant in fitting for image in variant.images))


def case_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare what commands on one case share: `CASE`, `--device`, `--bundle` and `--targets`."""
    for option in (
        bundle_options("the GPU's own"),
        click.option(
            "--device",
            default="cuda:0",
            show_default=True,
            metavar="NAME",
            shell_complete=completes(gpus),
            help="cuda or cuda:N.",
        ),
        click.argument("case", metavar="CASE", shell_complete=completes(whole_cases)),
    ):
        command = option(command)
    return command


def check_case(project: Project, name: str) -> Wish:
    """Return the wish for one case, before anything is built.

    Raises:
        UsageError: there is no such case, or the name is that of several kernels' or of none.
    """
    from tilec.case.cases import unbuilt_cases
    from tilec_runtime.model.suggest import did_you_mean

    kernels = {kernel.name: kernel for kernel in project.manifest.kernels}
    every = [f"{kernel.name}/{case.name}" for kernel in kernels.values() for case in kernel.cases]
    if not every:
        raise UsageError(
            "the project has no cases", fix="add [kernel.NAME.case.CASE] to tilec.toml"
        )
    kernel, _, rest = name.partition("/")
    if kernel not in kernels:
        require_no_chain(project.manifest, kernel)
        what = f"no kernel {kernel!r}{did_you_mean(kernel, kernels) or '; there are ' + ', '.join(kernels)}"
        raise UsageError(what, fix=f"name a case, such as {every[0]}")
    cases = [case.name for case in kernels[kernel].cases]
    case = rest.partition("[")[0]
    if case not in cases:
        what = (
            f"no case {case!r} of {kernel}{did_you_mean(case, cases)}"
            if case
            else f"{name!r} names no case"
        )
        raise UsageError(
            what,
            fix=f"cases are {', '.join(one.name for one in unbuilt_cases(kernels[kernel])) or 'none'}",
        )
    return Wish(kernels=(kernel,), select=(), cases=(case,), args=(), axes=(), reference="")


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
    """Return a case and the path of the tool that watches it; nothing is built where the tool or
    the GPU is missing.

    Args:
        app: this run.
        tool: `ncu` or `cuda-gdb`.
        name: the case, such as `gemm/4k[f16]`.
        device: the GPU, such as `cuda:0`.
        bundle: what is launched; None to build the case's kernel aside, with source lines in its
            code.
        targets: what to build for; empty for the GPU's own.
        profile: what to build with.

    Raises:
        UsageError: there is no such case, or not one alone.
        MissingError: no tool, no GPU, or nothing for it.
    """
    from tilec.case.tools import find_outside_tool

    project = open_project(app)
    wish = check_case(project, name)
    program = find_outside_tool(tool, app.settings.search)
    place = gpu_of(device, f"launching {name}")
    targets = targets or own_targets(project.manifest, place)
    opened = open_bundle(
        app,
        project,
        wish,
        bundle=bundle,
        targets=targets,
        cpu=False,
        how=How(profile=profile, lineinfo=True),
    )
    if opened.bundle is None or opened.path is None:
        raise MissingError(
            f"{name} cannot be launched: {'; '.join(opened.absent.values())}",
            kernel=wish.kernels[0],
        )
    cases = chosen_cases(opened, project.manifest, wish)
    named = [case for case in cases if name in (case.name, f"{case.kernel}/{case.case}")]
    if len(named) != 1:
        listed = ", ".join(case.name for case in named or cases)
        raise UsageError(
            f"{name!r} is {len(named) or 'none'} of the cases: name one", fix=f"cases are {listed}"
        )
    if named[0].error is not None:
        raise named[0].error
    return Watched(
        case=named[0],
        bundle=opened.bundle,
        path=opened.path,
        manifest=project.manifest,
        device=place,
    ), program


def run_outside(app: App, command: Sequence[str]) -> int:
    """Run a tool on this terminal to its end and return its exit code; with --json its output goes
    to standard error.

    Raises:
        ToolchainError: it cannot be started.
    """
    app.wipe()
    sys.stdout.flush()
    try:
        # The whole environment: the driver and the libraries of the launch are found by it.
        return subprocess.run(
            list(command), env=dict(os.environ), stdout=2 if app.json else None, check=False
        ).returncode
    except OSError as exc:
        raise ToolchainError(
            f"cannot start {command[0]}: {exc.strerror or exc}", fix="install it again"
        ) from exc


def report_path(app: App, kind: str, case: str, suffix: str) -> Path:
    """Return the place of a tool's report, `.tilec/KIND/CASE.SUFFIX`, whose folder is there.

    Raises:
        OutputError: the folder cannot be made.
    """
    from tilec.compile.state import WorkDir

    folder = WorkDir(app.manifest_path().parent).file(kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise OutputError(
            f"cannot create {app.show(folder)}: {exc.strerror}", fix="make the directory writable"
        ) from exc
    name = "".join(letter if letter.isalnum() or letter in "-_" else "." for letter in case).strip(
        "."
    )
    return folder / f"{name}{suffix}"


def device_json(device: DeviceInfo) -> dict[str, Any]:
    """Return a GPU as JSON values."""
    return {"name": device.name, "ordinal": device.ordinal, "compute_capability": list(device.cc)}


def gpu_of(name: str, work: str) -> DeviceInfo:
    """Return the GPU of a name.

    Raises:
        UsageError: it is no name of one. NoDeviceError: it is not there; `work` is what needs it.
    """
    from tilec_runtime.device import driver as _driver
    from tilec_runtime.device.devices import find_device

    if name != "cuda" and not (name.startswith("cuda:") and name[5:].isdecimal()):
        raise UsageError(
            f"--device: {name!r} is no GPU", fix="take cuda, or cuda:N for the GPU number N"
        )
    try:
        return find_device(name, _driver.driver())
    except NoDeviceError as error:
        raise NoDeviceError(
            f"{work} needs a GPU ({name}): {error.what}",
            cause=error.cause,
            fix="go to a machine with an NVIDIA GPU and its driver",
        ) from error


def own_targets(manifest: Manifest, device: DeviceInfo) -> tuple[str, ...]:
    """Return the project's own targets for this very architecture; empty without one: a launch then
    takes what fits.
    """
    return tuple(
        str(target)
        for target in manifest.targets.default
        if target.cc == device.cc and str(target).startswith("sm_")
    )
