"""One case under a tool that watches it: found by its name, built for it, and launched by a process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App
from tilec.cli.bare import PLAIN, Bare
from tilec.cli.cases import How, Wish, chosen_cases, open_bundle, open_project, require_no_chain
from tilec.cli.chosen import bundle_options
from tilec.cli.complete import completes, gpus, whole_cases
from tilec_runtime.errors import MissingError, NoDeviceError, TilecError, UsageError

if TYPE_CHECKING:
    from tilec.manifest.types import Manifest
    from tilec.project import Project
    from tilec.runner.cases import BoundCase
    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.model.image import ImageInfo
    from tilec_runtime.model.kernel import VariantInfo
    from tilec_runtime.seam import DeviceInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What the command line says of the case.

    Attributes:
        case: its name. device: where to launch it.
        bundle: what to launch; None to build the case's kernel, for `targets`.
    """

    case: str
    device: str
    bundle: str | None
    targets: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Watched:
    """A case that is ready to be launched.

    Attributes:
        case, bundle: the case, and what is built of its kernel, which lies at `path`.
        manifest: the project's. device: where it is launched.
    """

    case: BoundCase
    bundle: Bundle
    path: Path
    manifest: Manifest
    device: DeviceInfo

    @property
    def images(self) -> tuple[ImageInfo, ...]:
        """What its launch may take."""
        from tilec.runner.cases import said_axes

        (kernel,) = (one for one in self.bundle.info.kernels if one.name == self.case.kernel)
        # Where a table or rules choose, a launch may take any point that the case leaves open, and not the default.
        axes = said_axes(self.case, kernel) if kernel.dispatched else dict(self.case.axes)
        found = (v for v in kernel.variants if all(axes.get(name, value) == value for name, value in v.axes))
        return tuple(image for variant in found for image in variant.images)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Entry points that its launch may take."""
        return tuple(dict.fromkeys(image.symbol for image in self.images))

    def image(self, told: dict[str, Any]) -> tuple[VariantInfo, ImageInfo] | None:
        """The variant and image that the launch said it takes."""
        for kernel in self.bundle.info.kernels:
            for variant in kernel.variants:
                for image in variant.images:
                    if (variant.id, image.digest) == (told.get("variant"), told.get("image")):
                        return variant, image
        return None


def case_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """What commands on one case have in common."""
    for option in (
        bundle_options("the GPU's own"),
        click.option(
            "--device", default="cuda:0", show_default=True, metavar="NAME", shell_complete=completes(gpus), help="cuda or cuda:N."
        ),
        click.argument("case", metavar="CASE", shell_complete=completes(whole_cases)),
    ):
        command = option(command)
    return command


def check_case(project: Project, name: str) -> Wish:
    """What a name asks for, before anything is built.

    Raises:
        UsageError: there is no such case, or the name is that of several kernels' or of none.
    """
    from tilec.runner.cases import unbuilt_cases
    from tilec_runtime.model.suggest import did_you_mean

    kernels = {kernel.name: kernel for kernel in project.manifest.kernels}
    every = [f"{kernel.name}/{case.name}" for kernel in kernels.values() for case in kernel.cases]
    if not every:
        raise UsageError("the project has no cases", fix="add [kernel.NAME.case.CASE] to tilec.toml")
    kernel, _, rest = name.partition("/")
    if kernel not in kernels:
        require_no_chain(project.manifest, kernel)
        what = f"no kernel {kernel!r}{did_you_mean(kernel, kernels) or '; there are ' + ', '.join(kernels)}"
        raise UsageError(what, fix=f"name a case, such as {every[0]}")
    cases = [case.name for case in kernels[kernel].cases]
    case = rest.partition("[")[0]
    if case not in cases:
        what = f"no case {case!r} of {kernel}{did_you_mean(case, cases)}" if case else f"{name!r} names no case"
        raise UsageError(what, fix=f"cases are {', '.join(one.name for one in unbuilt_cases(kernels[kernel])) or 'none'}")
    return Wish(kernels=(kernel,), select=(), cases=(case,), args=(), axes=(), reference="")


def watched_case(app: App, asked: Asked, tool: Callable[[], str], how: How) -> tuple[Watched, str]:
    """A case and the tool that watches it; nothing is built where one of them, or the GPU, is missing.

    Args:
        app: this run.
        asked: the case. Without a bundle its kernel is built aside.
        tool: finds the tool.
        how: the kernel is built so.

    Raises:
        UsageError: there is no such case, or not one alone.
        MissingError: no tool, no GPU, or nothing for it.
    """
    project = open_project(app)
    name = asked.case
    wish = check_case(project, name)
    program = tool()
    place = gpu_of(asked.device, f"launching {name}")
    targets = asked.targets or own_targets(project.manifest, place)
    opened = open_bundle(app, project, wish, bundle=asked.bundle, targets=targets, cpu=False, how=how)
    if opened.bundle is None or opened.path is None:
        reason = "; ".join(opened.absent.values())
        raise MissingError(f"{name} cannot be launched: {reason}", kernel=wish.kernels[0])
    found = [case for case in chosen_cases(opened, project.manifest, wish) if name in (case.name, f"{case.kernel}/{case.case}")]
    if len(found) != 1:
        listed = ", ".join(case.name for case in found or chosen_cases(opened, project.manifest, wish))
        raise UsageError(f"{name!r} is {len(found) or 'none'} of the cases: name one", fix=f"cases are {listed}")
    if found[0].error is not None:
        raise found[0].error
    return Watched(case=found[0], bundle=opened.bundle, path=opened.path, manifest=project.manifest, device=place), program


@contextmanager
def bare_launch(app: App, watched: Watched) -> Iterator[tuple[Bare, Callable[[], dict[str, Any]]]]:
    """The process that launches a case, and what it tells of itself once it has run.

    Asking what it tells raises TilecError where it could not launch the case, for the reason that it gives.
    """
    with tempfile.TemporaryDirectory(prefix="tilec-") as folder:
        bare = bare_of(app, watched, Path(folder))
        yield bare, lambda: _unless_failed(read_told(bare))


def bare_of(app: App, watched: Watched, folder: Path, *, memory: str = PLAIN) -> Bare:
    """The process that launches a case; it tells of itself in a folder, which has to be there."""
    return Bare(
        manifest=str(app.manifest_path()),
        bundle=str(watched.path),
        case=watched.case.name,
        device=f"cuda:{watched.device.ordinal}",
        memory=memory,
        told=str(folder / "told.json"),
    )


def read_told(bare: Bare) -> dict[str, Any]:
    """What a process told so far; nothing where it did not come to that."""
    try:
        found = json.loads(Path(bare.told).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def told_error(told: dict[str, Any]) -> TilecError | None:
    """What went wrong in a process, by what it told."""
    error = told.get("error")
    return TilecError(error["what"], cause=error["cause"], fix=error["fix"]) if error else None


def _unless_failed(told: dict[str, Any]) -> dict[str, Any]:
    if (error := told_error(told)) is not None:
        raise error
    return told


def environment() -> dict[str, str]:
    """What a tool and the launch in it are given: all of the environment, for a driver and its libraries are found by it."""
    return dict(os.environ)


def gpu_of(name: str, work: str) -> DeviceInfo:
    """The GPU of a name.

    Raises:
        UsageError: it is no name of one. NoDeviceError: it is not there; `work` is what needs it.
    """
    from tilec_runtime import _driver
    from tilec_runtime.devices import find_device

    if name != "cuda" and not (name.startswith("cuda:") and name[5:].isdecimal()):
        raise UsageError(f"--device: {name!r} is no GPU", fix="take cuda, or cuda:N for the GPU number N")
    try:
        return find_device(name, _driver.driver())
    except NoDeviceError as error:
        raise NoDeviceError(
            f"{work} needs a GPU ({name}): {error.what}",
            cause=error.cause,
            fix="go to a machine with an NVIDIA GPU and its driver",
        ) from error


def own_targets(manifest: Manifest, device: DeviceInfo) -> tuple[str, ...]:
    """The project's own targets for this very architecture; without one all of them, of which the launch takes what fits."""
    return tuple(str(target) for target in manifest.targets.default if target.cc == device.cc and str(target).startswith("sm_"))
