"""The cases that a command line selects, bound to an opened or newly built bundle."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tilec.cli.app import App, named
from tilec.cli.complete import cases_of, completes, kernels_of
from tilec.cli.tables import listed
from tilec.cli.targets import named_targets, targets_option
from tilec_runtime.errors import CaseError, ToolchainError, UsageError
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.suggest import did_you_mean

if TYPE_CHECKING:
    from tilec.case.arguments import Override
    from tilec.case.cases import BoundCase
    from tilec.case.device import ModuleDevice
    from tilec.case.selection import Expression
    from tilec.compile.project import Project
    from tilec.manifest.types import Chain, Kernel, Manifest
    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
    from tilec_runtime.model.kernel import KernelInfo

F = TypeVar("F", bound=Callable[..., object])
NO_CASES = "there are no cases to run"
ADD_CASE = "add [kernel.NAME.case.CASE] to tilec.toml, or run one kernel with --arg"
SHOWN = 20


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """The cases that a command line selects, and the code to run them with.

    Attributes:
        kernels: names of kernels (and chains); empty for all.
        cases: names of cases.
        expression: expression of `-k`.
        overrides: changes to the cases.
        chains: whether to include cases of chains.
        bundle: bundle to use; empty to use or build the project's.
        targets: targets to build for; empty for the default.
    """

    kernels: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    expression: Expression | None = None
    overrides: tuple[Override, ...] = ()
    chains: bool = True
    bundle: str | None = None
    targets: tuple[str, ...] = ()


def case_options(default: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Declare the options that select cases and their bundle; the command gets a `wish`.

    Args:
        default: the default targets, for the help.
    """
    declared = (
        click.argument(
            "kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=completes(kernels_of)
        ),
        click.option(
            "-k",
            "expression",
            default="",
            metavar="EXPR",
            shell_complete=completes(kernels_of),
            help="Only cases whose full names, such as gemm/4k[f16], match an expression of "
            "words and globs, such as 'gemm/* and not (f16 or BM256)'.",
        ),
        click.option(
            "--case",
            "cases",
            multiple=True,
            metavar="NAME",
            shell_complete=completes(cases_of),
            help="Only cases with this name.",
        ),
        bundle_options(default),
    )

    def declare(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def command(*args: Any, expression: str, **options: Any) -> int:
            from tilec.case.selection import parse_expression

            names = ("kernels", "cases", "bundle", "targets")
            chosen = {name: options.pop(name) for name in names}
            wish = Wish(expression=parse_expression(expression), **chosen)
            return function(*args, wish=wish, **options)

        for option in reversed(declared):
            command = option(command)
        return command

    return declare


def set_option(function: F) -> F:
    """Declare `--set` (`settings`)."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="Change an input or an axis: n=4096, x=[512,512], BM=64.",
    )(function)


def bundle_options(default: str) -> Callable[[F], F]:
    """Declare `--bundle` and `--targets`; `default` describes the default targets."""

    def declare(function: F) -> F:
        targets = targets_option(f"Targets to build for (default: {default}).", build=False)
        return click.option(
            "--bundle",
            type=click.Path(),
            callback=named,
            metavar="FILE",
            help="Bundle, package or wheel to use, or the name of an installed package.",
        )(targets(function))

    return declare


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A bundle to run from.

    Attributes:
        bundle: the bundle, or None if no kernel could be built for it.
        absent: requested kernels that it lacks, with the reason.
        advice: the step that adds Tile IR to it; empty if the manifest determines it.
        path: path of the bundle.
    """

    bundle: Bundle | None
    absent: Mapping[str, str] = dataclasses.field(default_factory=dict)
    advice: str = ""
    path: Path | None = None

    @property
    def kernels(self) -> dict[str, KernelInfo]:
        """Its kernels by name."""
        return {kernel.name: kernel for kernel in self.bundle.info.kernels} if self.bundle else {}

    def load(self, driver: DeviceDriver, device: DeviceInfo) -> ModuleDevice | None:
        """Load the bundle on a device; return None without a bundle."""
        from tilec.case.device import ModuleDevice
        from tilec_runtime.launch.load import load

        if self.bundle is None:
            return None
        module = load(self.bundle, device, driver=driver)
        return ModuleDevice(module, driver, advice=self.advice)

    def absence(self, case: BoundCase) -> str:
        """Return the reason why one of a case's kernels is absent; empty if none is."""
        for step in case.steps:
            if step.kernel in self.absent:
                return f"{step.kernel}: {self.absent[step.kernel]}"
        return self.absent.get(case.kernel, "")


def open_project(app: App) -> Project:
    """Open the project of the manifest at hand."""
    from tilec.compile import project

    return project.open_project(app.manifest_path(), app.settings.search)


def require_kernel(manifest: Manifest, name: str, *, chains: bool = False) -> None:
    """Refuse a name that is not a kernel (or, with `chains`, a chain).

    Raises:
        UsageError: the name is unknown.
    """
    by_chain = {chain.name: chain for chain in manifest.chains}
    known = [kernel.name for kernel in manifest.kernels] + (list(by_chain) if chains else [])
    if name in known:
        return
    if name in by_chain:
        steps = dict.fromkeys(step.kernel for step in by_chain[name].steps)
        raise UsageError(
            f"{name!r} is a chain; this command takes single kernels",
            fix=f"name its kernels: {', '.join(steps)}",
        )
    kernel, _, case = name.partition("/")
    if kernel in known:
        raise UsageError(
            f"{name!r} is the name of a case; name a kernel here",
            fix=f"select the case with {kernel} --case {case.partition('[')[0]}",
        )
    hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
    raise UsageError(f"no kernel {name!r}{hint}")


def check_wish(manifest: Manifest, wish: Wish) -> None:
    """Refuse names that are not in the manifest, before building.

    Raises:
        UsageError: a kernel or case is unknown, or there is no case at all.
    """
    for name in wish.kernels:
        require_kernel(manifest, name, chains=wish.chains)
    holders: list[Kernel | Chain] = [*manifest.kernels]
    holders += manifest.chains if wish.chains else ()
    names = [
        (holder.name, case.name)
        for holder in holders
        if not wish.kernels or holder.name in wish.kernels
        for case in holder.cases
    ]
    if not names:
        chain = next((c.name for c in manifest.chains if c.name in wish.kernels), "")
        fix = f"add [chain.{chain}.case.CASE] to tilec.toml" if chain else ADD_CASE
        raise UsageError(NO_CASES, fix=fix)
    known = list(dict.fromkeys(case for _, case in names))
    missing = [name for name in wish.cases if name not in known]
    if missing:
        unknown = ", no ".join(f"case {name!r}{did_you_mean(name, known)}" for name in missing)
        shown = listed([f"{holder}/{case}" for holder, case in names], SHOWN)
        raise UsageError(f"no {unknown}", fix=f"cases are {shown}")


def open_bundle(
    app: App,
    project: Project | None,
    wish: Wish,
    *,
    cpu: bool,
    profile: str = "",
) -> Opened:
    """Open the bundle of the command line or the project, or build one.

    The project's bundle must be up to date.

    A run of everything on a GPU builds the project. Other runs need only a part of it, which is
    built into `.tilec/run`, so that the project's outputs are not replaced.

    Args:
        app: run of the command.
        project: the project, or None if a bundle is named that needs none.
        wish: kernels and chains to run, bundle and targets.
        cpu: whether the device is the cpu device, which runs Tile IR only.
        profile: build with this profile and with source lines, into `.tilec/run`.

    Raises:
        UsageError: both targets and a bundle are given.
    """
    from tilec.inspection.container import open_container

    if wish.bundle:
        if wish.targets:
            raise UsageError(
                f"--targets {' '.join(wish.targets)}: a bundle is built already",
                fix="leave --targets or --bundle out",
            )
        path = app.built_path(wish.bundle)
        advice = "build the bundle for the target tileir too"
        return Opened(bundle=open_container(path).bundle, advice=advice, path=path)
    assert project is not None
    words = wish.targets or (() if cpu else named_targets(app.settings.targets))
    own = None if words or profile else _own_bundle(app, project, cpu=cpu)
    if own is None and not (words or wish.kernels or cpu or profile):
        own = _build(app)
    if own is not None:
        return Opened(bundle=open_container(own).bundle, path=own)
    return _open_part(app, project, wish.kernels, words, cpu=cpu, profile=profile)


def _own_bundle(app: App, project: Project, *, cpu: bool) -> Path | None:
    """Return the last build's bundle if it is up to date and fits the device."""
    from tilec.cli.build import untouched

    default = project.manifest.targets.default
    if cpu and all(target.kind is not TargetKind.TILEIR for target in default):
        return None
    last = untouched(app)
    return None if last is None else _bundle_among(last.outputs)


def _open_part(
    app: App,
    project: Project,
    kernels: Sequence[str],
    words: tuple[str, ...],
    *,
    cpu: bool,
    profile: str,
) -> Opened:
    """Build the kernels that support a target, into `.tilec/run`."""
    from tilec.case.device import refusal_of
    from tilec.inspection.container import open_container

    targets = words or (("tileir",) if cpu else ())
    chains = (chain for chain in project.manifest.chains if chain.name in kernels)
    names = {*kernels, *(step.kernel for chain in chains for step in chain.steps)}
    chosen = [kernel for kernel in project.manifest.kernels if not kernels or kernel.name in names]
    select = tuple(kernel.name for kernel in chosen) if kernels else ()
    path = _build(app, targets=targets, select=select, aside=True, profile=profile)
    built = open_container(path).bundle if path else None
    advice = "allow tileir for it in [[override]]"
    if words:
        advice = "add tileir to --targets, or leave --targets out"
    other = f"it cannot be built for {', '.join(targets)}: name other --targets, or leave the option out"
    opened = Opened(bundle=built, advice=advice, path=path)
    absent = {
        kernel.name: refusal_of(kernel.language, advice=advice) if cpu else other
        for kernel in chosen
        if kernel.name not in opened.kernels
    }
    return dataclasses.replace(opened, absent=absent)


def _build(
    app: App,
    *,
    targets: tuple[str, ...] = (),
    select: tuple[str, ...] = (),
    aside: bool = False,
    profile: str = "",
) -> Path | None:
    """Build and return the bundle, or None if no selected kernel supports the targets."""
    from tilec import build
    from tilec.cli import progress
    from tilec.cli.build import make_request
    from tilec.plan.tuning import PASSED_OVER

    try:
        request = make_request(
            app,
            targets=targets,
            select=select,
            aside=aside,
            profile=profile or "release",
            lineinfo=bool(profile),
        )
        result = build.build(request, progress.observer(app))
    except ToolchainError as error:
        fix = "or run a bundle that was built elsewhere: `tilec run --bundle FILE`"
        fix = f"{error.fix}; {fix}" if error.fix else fix
        raise ToolchainError(error.what, cause=error.cause, fix=fix) from error
    for text in result.notes if aside else ():
        if PASSED_OVER in text:  # the other notes are about shipped outputs
            app.note(f"note: {text}")
    path = _bundle_among([(output.kind, Path(output.path)) for output in result.outputs])
    if path is None and not (aside and not result.jobs):
        raise click.UsageError(
            "the build writes no bundle: add it to output.emit", click.get_current_context()
        )
    return path


def _bundle_among(outputs: Sequence[tuple[str, Path]]) -> Path | None:
    """Return the first output that is a bundle or contains one."""
    for wanted in ("bundle", "package", "wheel"):
        for kind, path in outputs:
            if kind == wanted and path.suffix in (".tilec", ".whl"):
                return path
    return None


def chosen_cases(opened: Opened, manifest: Manifest, wish: Wish) -> tuple[BoundCase, ...]:
    """Return the cases to run, bound to the built kernels.

    Raises:
        UsageError: no case matches, or an override does not apply.
    """
    from tilec.case.cases import unbuilt_cases
    from tilec.case.selection import select_cases

    bound: list[BoundCase] = []
    refused: dict[str, UsageError] = {}
    for kernel in manifest.kernels:
        if wish.kernels and kernel.name not in wish.kernels:
            continue
        if kernel.name in opened.kernels:
            bound += _bound(kernel, opened.kernels[kernel.name], wish, manifest, refused)
        elif kernel.name in opened.absent:
            bound += unbuilt_cases(kernel, locate=manifest.locate)
        elif wish.kernels:
            raise UsageError(
                f"kernel {kernel.name!r} is not in the bundle",
                fix="build it, or leave --bundle out",
            )
    if wish.chains:
        bound += _chain_cases(opened, manifest, wish, refused)
    chosen = select_cases(bound, wish.expression)
    taken = tuple(case for case in chosen if not wish.cases or case.case in wish.cases)
    if not taken:
        raise _no_match(bound, wish)
    for case in taken:
        if case.kernel in refused:
            raise refused[case.kernel]
    return taken


def _bound(
    kernel: Kernel, info: KernelInfo, wish: Wish, manifest: Manifest, refused: dict[str, UsageError]
) -> tuple[BoundCase, ...]:
    """Bind a kernel's cases with their overrides.

    If an override does not fit the kernel, its cases are unchanged and `refused` gets the reason,
    since another option may still deselect them.
    """
    from tilec.case.arguments import overridden
    from tilec.case.cases import expand_cases, require_fitting

    chosen = tuple(case for case in kernel.cases if not wish.cases or case.name in wish.cases)
    if wish.overrides and chosen:
        try:
            part = dataclasses.replace(kernel, cases=chosen)
            changed = overridden(part, info, wish.overrides)
            return require_fitting(expand_cases(changed, info, root=manifest.root))
        except UsageError as error:
            refused[kernel.name] = error
        except CaseError as error:  # its location is the command line, not the manifest
            message = f"{', '.join(override.text for override in wish.overrides)}: {error.what}"
            refused[kernel.name] = UsageError(
                message, cause=error.cause, fix=error.fix, kernel=kernel.name
            )
    return expand_cases(kernel, info, locate=manifest.locate)


def _chain_cases(
    opened: Opened, manifest: Manifest, wish: Wish, refused: dict[str, UsageError]
) -> Iterator[BoundCase]:
    """Bind the cases of chains, which take no overrides.

    Raises:
        UsageError: a kernel of a named chain is not in the bundle.
    """
    from tilec.case.chains import chain_cases

    for chain in manifest.chains:
        if wish.kernels and chain.name not in wish.kernels:
            continue
        there = {*opened.kernels, *opened.absent}
        lacking = [step.kernel for step in chain.steps if step.kernel not in there]
        if lacking and wish.kernels:
            raise UsageError(
                f"kernel {lacking[0]!r} of chain {chain.name!r} is not in the bundle",
                fix="build it, or leave --bundle out",
            )
        if not lacking:
            yield from chain_cases(chain, opened.kernels, locate=manifest.locate)
        if wish.overrides:
            refused[chain.name] = UsageError(
                f"{wish.overrides[0].text}: {chain.name} is a chain, whose cases cannot be changed",
                fix=f"write another case: [chain.{chain.name}.case.NAME]",
            )


def _no_match(bound: Sequence[BoundCase], wish: Wish) -> UsageError:
    from tilec.case.selection import unknown_words

    if not bound:
        return UsageError(NO_CASES, fix=ADD_CASE)
    names = list(dict.fromkeys(f"{case.kernel}/{case.case}" for case in bound))
    unknown = unknown_words(wish.expression, bound) if wish.expression else []
    message = f"no case matches{': there is no ' + ', no '.join(unknown) if unknown else ''}"
    return UsageError(message, fix=f"cases are {listed(names, SHOWN)}")


def one_case(cases: Sequence[BoundCase], name: str) -> BoundCase:
    """Return the case of a name: `gemm/4k[f16]`, or `gemm/4k` if it is single.

    Raises:
        UsageError: no case or several cases have the name.
    """
    exact = [case for case in cases if case.name == name]
    exact = exact or [case for case in cases if name == f"{case.kernel}/{case.case}"]
    if len(exact) != 1:
        names = [case.name for case in exact or cases]
        raise UsageError(
            f"{name!r} matches {len(exact) or 'none'} of the cases: name one",
            fix=f"cases are {listed(names, SHOWN)}",
        )
    return exact[0]


def package_json(opened: Opened, manifest: Manifest | None) -> dict[str, str | None]:
    """Return the head of a JSON document: package, version, and bundle's digest."""
    if opened.bundle is not None:
        package = opened.bundle.info.package
        return {"package": package.name, "version": package.version, "bundle": opened.bundle.digest}
    assert manifest is not None  # without a bundle there is a manifest
    return {"package": manifest.package.name, "version": manifest.package.version, "bundle": None}
