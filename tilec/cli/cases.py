"""Which cases a command line asks for, out of a bundle that it names or of the project's, built
first where needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App
from tilec.cli.tables import plural

if TYPE_CHECKING:
    from tilec.case.arguments import Override
    from tilec.case.cases import BoundCase
    from tilec.case.selection import Expression
    from tilec.compile.project import Project
    from tilec.manifest.types import Kernel, Manifest
    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.errors import UsageError
    from tilec_runtime.model.kernel import KernelInfo

NO_CASES = "there are no cases to run"
CASES_SHOWN = 20
ADD_CASE = "add [kernel.NAME.case.CASE] to tilec.toml, or run one kernel with --arg"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the command line asks to run.

    Attributes:
        kernels: by name; empty for all. select: globs. cases: by name. expression: of `-k`.
        args, axes, reference: what one kernel is run with in place of its cases.
        overrides: what is changed of the cases.
        chains: cases of chains are asked for too.
    """

    kernels: tuple[str, ...]
    select: tuple[str, ...]
    cases: tuple[str, ...]
    args: tuple[str, ...]
    axes: tuple[str, ...]
    reference: str
    expression: Expression | None = None
    overrides: tuple[Override, ...] = ()
    chains: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """What there is to run.

    Attributes:
        bundle: None where none of the kernels could be in it.
        absent: kernels that the command line asks for and that are not in it, with the reason.
        advice: how to get Tile IR into it; empty where that is said in the manifest.
        path: the file or directory that it was opened from.
    """

    bundle: Bundle | None
    absent: Mapping[str, str] = dataclasses.field(default_factory=dict)
    advice: str = ""
    path: Path | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class How:
    """How a bundle is built that is to be looked into: always aside.

    Attributes:
        profile: name of the profile.
        lineinfo: with source lines in the code, whatever the profile says.
    """

    profile: str = "release"
    lineinfo: bool = False


def open_project(app: App) -> Project:
    from tilec.compile import project

    return project.open_project(app.manifest_path(), app.settings.search)


def check_wish(manifest: Manifest, wish: Wish) -> None:
    """Refuse what cannot be run on any machine, before this one is looked at.

    Raises:
        UsageError: there is no such kernel, or no case.
    """
    from tilec_runtime.errors import UsageError
    from tilec_runtime.model.suggest import did_you_mean

    chains = [chain.name for chain in manifest.chains] if wish.chains else []
    known = [*(kernel.name for kernel in manifest.kernels), *chains]
    for name in wish.kernels:
        if name not in known:
            require_no_chain(manifest, name)
            if name.partition("/")[0] in known:  # as reports name their rows
                raise UsageError(
                    f"{name!r} is a case's name, and kernels are named here",
                    fix=f"take the case with --select '{name}'",
                )
            raise UsageError(
                f"no kernel {name!r}{did_you_mean(name, known) or '; there are ' + ', '.join(known)}"
            )
    if wish.args and wish.kernels[0] in chains:
        raise UsageError(
            f"--arg runs one kernel, and {wish.kernels[0]} is a chain of several",
            fix="name one of its kernels",
        )
    cased = [kernel.name for kernel in manifest.kernels if kernel.cases]
    cased += [chain.name for chain in manifest.chains if chain.cases and wish.chains]
    if not wish.args and not (set(cased) & set(wish.kernels) if wish.kernels else cased):
        named = [name for name in wish.kernels if name in chains]
        raise UsageError(
            NO_CASES, fix=f"add [chain.{named[0]}.case.CASE] to tilec.toml" if named else ADD_CASE
        )
    _check_cases(manifest, wish)


def _check_cases(manifest: Manifest, wish: Wish) -> None:
    """Refuse names of cases that none of the kernels has: what is built says no more of them, and
    beside others nobody would miss them.
    """
    from tilec_runtime.errors import UsageError
    from tilec_runtime.model.suggest import did_you_mean

    holders = [(kernel.name, kernel.cases) for kernel in manifest.kernels]
    holders += [(chain.name, chain.cases) for chain in manifest.chains if wish.chains]
    names = [
        (name, case.name)
        for name, cases in holders
        if not wish.kernels or name in wish.kernels
        for case in cases
    ]
    known = list(dict.fromkeys(case for _, case in names))
    missing = [name for name in wish.cases if name not in known]
    if missing:
        what = ", no ".join(f"case {name!r}{did_you_mean(name, known)}" for name in missing)
        raise UsageError(
            f"no {what}", fix=f"cases are {_listed([f'{holder}/{case}' for holder, case in names])}"
        )


def require_no_chain(manifest: Manifest, name: str) -> None:
    """Refuse the name of a chain where kernels are taken one by one.

    Raises:
        UsageError: it is one.
    """
    from tilec_runtime.errors import UsageError

    for chain in manifest.chains:
        if chain.name == name:
            kernels = dict.fromkeys(step.kernel for step in chain.steps)
            raise UsageError(
                f"{name!r} is a chain, and here kernels are taken one by one",
                fix=f"name its kernels: {', '.join(kernels)}",
            )


def kernels_wished(manifest: Manifest, wish: Wish) -> tuple[Kernel, ...]:
    """The kernels that have to be there: those that are named, and those of the chains that are."""
    named = set(wish.kernels)
    named.update(
        step.kernel for chain in manifest.chains if chain.name in named for step in chain.steps
    )
    return tuple(kernel for kernel in manifest.kernels if not wish.kernels or kernel.name in named)


def open_bundle(
    app: App,
    project: Project | None,
    wish: Wish,
    *,
    bundle: str | None,
    targets: tuple[str, ...],
    cpu: bool,
    how: How | None = None,
) -> Opened:
    """The bundle that was named; else the project's own, if it is up to date; else one that is
    built for this run.

    A run of everything on a GPU builds the project. Any other needs less than that, and less is
    never put in the place of what is shipped: it is built aside, in `.tilec/run`.

    Args:
        app: this run.
        project: the project; None where a bundle is named that needs none.
        wish: what to run.
        bundle: of the command line.
        targets: likewise.
        cpu: the device is the cpu device, which takes nothing but Tile IR.
        how: build it so, aside; None to take what there is.

    Raises:
        UsageError: targets to build for, and a bundle that is built.
    """
    from tilec.inspection.container import open_container
    from tilec_runtime.errors import UsageError

    if bundle:
        if targets and how is None:  # else they are the device's own
            raise UsageError(
                f"--targets {' '.join(targets)}: what --bundle names is built already",
                fix="leave one of the two out",
            )
        path = app.built_path(bundle)
        return Opened(
            bundle=open_container(path).bundle,
            advice="build the bundle for the target tileir too",
            path=path,
        )
    assert project is not None
    words = tuple(word.strip() for text in targets for word in text.split(",") if word.strip())
    own = None if words or how else _own_bundle(app, project, cpu=cpu)
    if own is None and not (words or wish.kernels or cpu or how):
        own = _build(app)
    if own is not None:
        return Opened(bundle=open_container(own).bundle, path=own)
    return _open_part(
        app,
        project,
        wish,
        words or (("tileir",) if cpu else ()),
        cpu=cpu,
        named=bool(words),
        how=how or How(),
    )


def _own_bundle(app: App, project: Project, *, cpu: bool) -> Path | None:
    """What the last build of the whole project wrote, if nothing was touched since and the device
    can use it.
    """
    from tilec.cli.build import untouched
    from tilec_runtime.model.arch import TargetKind

    if cpu and all(
        target.kind is not TargetKind.TILEIR for target in project.manifest.targets.default
    ):
        return None
    last = untouched(app)
    return None if last is None else _bundle_among(last.outputs)


def _open_part(
    app: App,
    project: Project,
    wish: Wish,
    targets: tuple[str, ...],
    *,
    cpu: bool,
    named: bool,
    how: How,
) -> Opened:
    """Build what a run needs, aside: of the kernels that are asked for those that a target
    concerns.
    """
    from tilec.build import concerned
    from tilec.case.device import refusal_of
    from tilec.inspection.container import open_container

    able = concerned(project, targets)
    asked = kernels_wished(project.manifest, wish)
    select = tuple(kernel.name for kernel in asked if kernel.name in able) if wish.kernels else ()
    built = path = None
    if any(kernel.name in able for kernel in asked):
        path = _build(app, targets=targets, select=select, aside=True, how=how)
        built = open_container(path).bundle if path else None
    inside = {kernel.name for kernel in built.info.kernels} if built else set()
    advice = (
        "add tileir to --targets, or leave --targets out"
        if named
        else "take tileir out of what [[override]] keeps from it"
    )
    other = f"none of the targets {', '.join(targets)} concerns it: name others with --targets, or leave the option out"
    return Opened(
        bundle=built,
        absent={
            k.name: refusal_of(k.language, advice=advice) if cpu else other
            for k in asked
            if k.name not in inside
        },
        advice=advice,
        path=path,
    )


def _build(
    app: App,
    *,
    targets: tuple[str, ...] = (),
    select: tuple[str, ...] = (),
    aside: bool = False,
    how: How = How(),
) -> Path | None:
    """Build, and give the bundle; None where a build aside has nothing to make for the targets."""
    from tilec import build
    from tilec.cli import progress
    from tilec.cli.build import make_request
    from tilec.plan.tuning import PASSED_OVER
    from tilec_runtime.errors import ToolchainError

    observer = progress.make_observer(app)
    try:
        request = make_request(
            app,
            targets=targets,
            select=select,
            aside=aside,
            profile=how.profile,
            lineinfo=how.lineinfo,
        )
        result = build.build(request, observer)
    except ToolchainError as error:
        fix = "or run a bundle that was built elsewhere: `tilec run --bundle FILE`"
        raise ToolchainError(
            error.what, cause=error.cause, fix=f"{error.fix}; {fix}" if error.fix else fix
        ) from error
    finally:
        progress.close(observer)
    for text in result.notes if aside else ():
        if PASSED_OVER in text:  # the other notes are of what is shipped
            app.note(f"note: {text}")
    found = _bundle_among([(output.kind, Path(output.path)) for output in result.outputs])
    if found is None and not (aside and not result.jobs):
        raise click.UsageError(
            "the build writes no bundle: add it to output.emit", click.get_current_context()
        )
    return found


def _bundle_among(outputs: Sequence[tuple[str, Path]]) -> Path | None:
    """Return the first of a build's outputs, by kind and path, that is a bundle or holds one."""
    for wanted in ("bundle", "package", "wheel"):
        for kind, path in outputs:
            if kind == wanted and path.suffix in (".tilec", ".whl"):
                return path
    return None


def chosen_cases(opened: Opened, manifest: Manifest | None, wish: Wish) -> tuple[BoundCase, ...]:
    """The cases to run, bound to what was built.

    Raises:
        UsageError: there are none, or they do not have what is to be changed of them.
    """
    from tilec.case.cases import unbuilt_cases
    from tilec.case.selection import select_cases
    from tilec_runtime.errors import UsageError

    assert manifest is not None
    built = {kernel.name: kernel for kernel in opened.bundle.info.kernels} if opened.bundle else {}
    bound: list[BoundCase] = []
    refused: dict[str, UsageError] = {}
    for kernel in manifest.kernels:
        if wish.kernels and kernel.name not in wish.kernels:
            continue
        if kernel.name in built:
            bound.extend(_bound(kernel, built[kernel.name], wish, manifest, refused))
        elif kernel.name in opened.absent:
            bound.extend(unbuilt_cases(kernel, locate=manifest.locate))
        elif wish.kernels:
            raise UsageError(
                f"kernel {kernel.name!r} is not in the bundle",
                fix="build it, or leave --bundle out",
            )
    bound += _of_chains(opened, built, manifest, wish, refused)
    chosen = select_cases(bound, wish.select, wish.expression)
    taken = tuple(case for case in chosen if not wish.cases or case.case in wish.cases)
    if not taken:
        raise _none_matches(bound, wish)
    for case in taken:
        if case.kernel in refused:
            raise refused[case.kernel]
    return taken


def _of_chains(
    opened: Opened,
    built: Mapping[str, KernelInfo],
    manifest: Manifest,
    wish: Wish,
    refused: dict[str, UsageError],
) -> Iterator[BoundCase]:
    """The cases of chains. What is to be changed of cases is said of one kernel's parameters: none
    of them may be chosen then.

    Raises:
        UsageError: a chain is named, and a kernel of it is not in the bundle.
    """
    from tilec.case.chains import fitting_chain_cases
    from tilec_runtime.errors import UsageError

    for chain in manifest.chains if wish.chains else ():
        if wish.kernels and chain.name not in wish.kernels:
            continue
        lacking = [
            step.kernel
            for step in chain.steps
            if step.kernel not in built and step.kernel not in opened.absent
        ]
        if lacking and wish.kernels:
            what = f"kernel {lacking[0]!r} of chain {chain.name!r} is not in the bundle"
            raise UsageError(what, fix="build it, or leave --bundle out")
        if not lacking:
            yield from fitting_chain_cases(chain, built, locate=manifest.locate)
        if wish.overrides:
            what = f"{wish.overrides[0].text}: {chain.name} is a chain, whose cases run as they are written"
            refused[chain.name] = UsageError(
                what, fix=f"write another case: [chain.{chain.name}.case.NAME]"
            )


def kernels_of(case: BoundCase) -> tuple[str, ...]:
    """The kernels that a case launches: of a chain each of its steps'."""
    return tuple(step.kernel for step in case.steps) or (case.kernel,)


def absence(opened: Opened, case: BoundCase) -> str:
    """Why a case cannot be run from what was opened: a kernel of it is not in the bundle; empty
    where all are.
    """
    for step in case.steps:
        if step.kernel in opened.absent:
            return f"{step.kernel}: {opened.absent[step.kernel]}"
    return opened.absent.get(case.kernel, "")


def _bound(
    kernel: Kernel, info: KernelInfo, wish: Wish, manifest: Manifest, refused: dict[str, UsageError]
) -> tuple[BoundCase, ...]:
    """A kernel's cases with what is changed of them; where that cannot be they stay, and `refused`
    has the reason: none may be chosen.
    """
    from tilec.case.arguments import overridden
    from tilec.case.cases import expand_cases, fitting_cases
    from tilec_runtime.errors import CaseError, UsageError

    chosen = tuple(case for case in kernel.cases if not wish.cases or case.name in wish.cases)
    if wish.overrides and chosen:
        try:
            changed, files = overridden(
                dataclasses.replace(kernel, cases=chosen), info, wish.overrides
            )
            return expand_cases(changed, info, files=files)
        except UsageError as error:
            refused[kernel.name] = error
        except CaseError as error:  # not of the manifest, but of the command line
            what = f"{', '.join(override.text for override in wish.overrides)}: {error.what}"
            refused[kernel.name] = UsageError(
                what, cause=error.cause, fix=error.fix, kernel=kernel.name
            )
    return fitting_cases(kernel, info, locate=manifest.locate)


def _none_matches(bound: Sequence[BoundCase], wish: Wish) -> UsageError:
    from tilec.case.selection import unknown_words
    from tilec_runtime.errors import UsageError
    from tilec_runtime.model.suggest import did_you_mean

    if not bound:
        return UsageError(NO_CASES, fix=ADD_CASE)
    names = list(dict.fromkeys(f"{case.kernel}/{case.case}" for case in bound))
    unknown = unknown_words(wish.expression, bound) if wish.expression else []
    unknown += [
        f"{glob}{did_you_mean(glob, [*names, *(case.name for case in bound)])}"
        for glob in wish.select
    ]
    what = f"no case matches{': there is no ' + ', no '.join(unknown) if unknown else ''}"
    return UsageError(what, fix=f"cases are {_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - CASES_SHOWN} more" if len(names) > CASES_SHOWN else ""
    return f"{', '.join(names[:CASES_SHOWN])}{more}"


def case_of_arguments(app: App, opened: Opened, wish: Wish) -> tuple[BoundCase, ...]:
    from tilec.case.arguments import bind_arguments, parse_argument, parse_axis
    from tilec_runtime.errors import MissingError, UsageError
    from tilec_runtime.model.suggest import did_you_mean

    name = wish.kernels[0]
    if name in opened.absent or opened.bundle is None:
        raise MissingError(f"kernel {name} cannot be run: {opened.absent[name]}", kernel=name)
    built: dict[str, KernelInfo] = {kernel.name: kernel for kernel in opened.bundle.info.kernels}
    if name not in built:
        raise UsageError(
            f"no kernel {name!r} in the bundle{did_you_mean(name, list(built)) or '; it has ' + ', '.join(built)}"
        )
    info = built[name]
    given = [parse_argument(text, cwd=app.base) for text in wish.args]
    axes = [parse_axis(text, info) for text in wish.axes]
    return (bind_arguments(info, given, axes=axes, reference=wish.reference),)


def package_json(opened: Opened, manifest: Manifest | None) -> dict[str, str | None]:
    """What was run, at the head of a JSON document; without a bundle the manifest says what it
    would be of.
    """
    if opened.bundle is not None:
        package = opened.bundle.info.package
        return {"package": package.name, "version": package.version, "bundle": opened.bundle.digest}
    assert manifest is not None  # with --bundle there always is one
    return {"package": manifest.package.name, "version": manifest.package.version, "bundle": None}


NO_CASE = "no case"
NOT_IN_BUNDLE = "not in the bundle"
ONE_BY_ONE = "compute-sanitizer checks kernels one by one: without --device cuda chains of tile kernels are checked"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Unchecked:
    """A kernel, a chain or a case (`kind`) that is not checked, with the reason."""

    kind: str
    name: str
    reason: str


def left_out(
    manifest: Manifest | None, opened: Opened, wish: Wish, cases: Sequence[BoundCase]
) -> tuple[Unchecked, ...]:
    """Return kernels and chains that no chosen case launches.

    Where the command line chooses cases (`-k`, `--select`, `--case`), only kernels and chains that
    it names count.
    """
    if manifest is None or wish.args:
        return ()
    launched = {name for case in cases for name in (case.kernel, *kernels_of(case))}
    some = bool(wish.select or wish.cases or wish.expression)
    built = {kernel.name for kernel in opened.bundle.info.kernels} if opened.bundle else set()
    found = []
    rows: list[tuple[str, str, bool, tuple[str, ...]]] = [
        ("kernel", kernel.name, bool(kernel.cases), (kernel.name,)) for kernel in manifest.kernels
    ]
    rows += [
        ("chain", chain.name, bool(chain.cases), tuple(step.kernel for step in chain.steps))
        for chain in manifest.chains
    ]
    for kind, name, cased, kernels in rows:
        if name in launched or (name not in wish.kernels if wish.kernels else some):
            continue
        if not cased:
            found.append(Unchecked(kind=kind, name=name, reason=NO_CASE))
        elif any(one not in built and one not in opened.absent for one in kernels):
            found.append(Unchecked(kind=kind, name=name, reason=NOT_IN_BUNDLE))
        elif kind == "chain" and not wish.chains:
            found.append(Unchecked(kind=kind, name=name, reason=ONE_BY_ONE))
    return tuple(found)


def unchecked_lines(left: Sequence[Unchecked]) -> list[str]:
    """How many kernels and chains are not checked, and which: a line for each kind and reason."""
    if not left:
        return []
    groups: dict[tuple[str, str], list[str]] = {}
    for one in left:
        groups.setdefault((one.kind, one.reason), []).append(one.name)
    kinds = [
        plural(count, kind)
        for kind in ("kernel", "chain")
        if (count := sum(one.kind == kind for one in left))
    ]
    lines = [
        f"  {kind}{'s' if len(names) > 1 else ''} {', '.join(names)}: {reason}"
        for (kind, reason), names in groups.items()
    ]
    return [f"left out, and not checked: {' and '.join(kinds)}", *lines]


def unchecked_json(
    left: Sequence[Unchecked], skipped: Iterable[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Return all that is not checked as JSON: kernels and chains, then cases of (name, reason)."""
    cases = (Unchecked(kind="case", name=name, reason=reason) for name, reason in skipped if reason)
    return [dataclasses.asdict(one) for one in (*left, *cases)]
