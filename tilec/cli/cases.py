"""Which cases a command line asks for, out of a bundle that it names or of the project's, built first where needed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App

if TYPE_CHECKING:
    from tilec.bundle.read import Bundle
    from tilec.manifest.types import Manifest
    from tilec.model.kernel import KernelInfo
    from tilec.runner.cases import BoundCase

NO_CASES = "there are no cases to run"
ADD_CASE = "add [kernel.NAME.case.CASE] to tilec.toml, or run one kernel with --arg"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the command line asks to run."""

    kernels: tuple[str, ...]
    select: tuple[str, ...]
    cases: tuple[str, ...]
    args: tuple[str, ...]
    axes: tuple[str, ...]
    reference: str


def project_manifest(app: App) -> Manifest:
    from tilec.project import open_project

    return open_project(app.manifest_path(), app.settings.search).manifest


def check_wish(manifest: Manifest, wish: Wish) -> None:
    """Refuse what cannot be run on any machine, before this one is looked at.

    Raises:
        UsageError: there is no such kernel, or no case.
    """
    from tilec.errors import UsageError
    from tilec.model.suggest import did_you_mean

    known = [kernel.name for kernel in manifest.kernels]
    for name in wish.kernels:
        if name not in known:
            raise UsageError(f"no kernel {name!r}{did_you_mean(name, known) or '; there are ' + ', '.join(known)}")
    if not wish.args and not any(kernel.cases for kernel in manifest.kernels if not wish.kernels or kernel.name in wish.kernels):
        raise UsageError(NO_CASES, fix=ADD_CASE)


def open_bundle(app: App, bundle: str | None, targets: tuple[str, ...]) -> Bundle:
    """The bundle that was named, else the project's, built if it is not up to date."""
    from tilec.inspection.container import open_container

    if bundle:
        return open_container(app.path(bundle)).bundle
    return open_container(_build(app, targets)).bundle


def _build(app: App, targets: tuple[str, ...]) -> Path:
    from tilec import build
    from tilec.cli import progress
    from tilec.cli.build import make_request
    from tilec.errors import ToolchainError

    words = tuple(word.strip() for text in targets for word in text.split(",") if word.strip())
    observer = progress.make_observer(app)
    try:
        result = build.build(make_request(app, targets=words), observer)
    except ToolchainError as error:
        fix = "or run a bundle that was built elsewhere: `tilec run --bundle FILE`"
        raise ToolchainError(error.what, cause=error.cause, fix=f"{error.fix}; {fix}" if error.fix else fix) from error
    finally:
        progress.close(observer)
    for kind in ("bundle", "package", "wheel"):
        for output in result.outputs:
            if output.kind == kind and output.path.endswith((".tilec", ".whl")):
                return Path(output.path)
    raise click.UsageError("the build writes no bundle: add it to output.emit", click.get_current_context())


def chosen_cases(bundle: Bundle, manifest: Manifest | None, wish: Wish) -> tuple[BoundCase, ...]:
    from tilec.errors import UsageError
    from tilec.runner.cases import expand_cases
    from tilec.runner.report import select_cases

    assert manifest is not None
    built = {kernel.name: kernel for kernel in bundle.info.kernels}
    for name in wish.kernels:
        if name not in built:
            raise UsageError(f"kernel {name!r} is not in the bundle", fix="build it, or leave --bundle out")
    bound = [
        case
        for kernel in manifest.kernels
        if kernel.name in built and (not wish.kernels or kernel.name in wish.kernels)
        for case in expand_cases(kernel, built[kernel.name], locate=manifest.locate)
    ]
    taken = tuple(case for case in select_cases(bound, wish.select) if not wish.cases or case.case in wish.cases)
    if not taken:
        names = ", ".join(dict.fromkeys(f"{case.kernel}/{case.case}" for case in bound))
        raise UsageError("no case matches" if bound else NO_CASES, fix=f"cases are {names}" if bound else ADD_CASE)
    return taken


def case_of_arguments(app: App, bundle: Bundle, wish: Wish) -> tuple[BoundCase, ...]:
    from tilec.errors import UsageError
    from tilec.model.suggest import did_you_mean
    from tilec.runner.arguments import bind_arguments, parse_argument, parse_axis

    built: dict[str, KernelInfo] = {kernel.name: kernel for kernel in bundle.info.kernels}
    name = wish.kernels[0]
    if name not in built:
        raise UsageError(f"no kernel {name!r} in the bundle{did_you_mean(name, list(built)) or '; it has ' + ', '.join(built)}")
    info = built[name]
    given = [parse_argument(text, cwd=app.base) for text in wish.args]
    axes = [parse_axis(text, info) for text in wish.axes]
    return (bind_arguments(info, given, axes=axes, reference=wish.reference),)
