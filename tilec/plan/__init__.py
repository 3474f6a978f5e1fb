"""Manifest and declarations to jobs: pure, touches no file, device or tool."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tilec.manifest.types import Kernel, Manifest, Profile
from tilec.plan.checks import check_clusters, check_entry, check_hints, check_kernel, check_names, check_shared
from tilec.plan.groups import Groups
from tilec.plan.matrix import Report, expand
from tilec.plan.params import Resolver, abi_of_args
from tilec.plan.slices import with_slices
from tilec.plan.source import check_checks, check_source_axes, safety_of, with_names, with_source
from tilec.plan.targets import LanguageFacts, Selection, choose_targets, no_target, parse_targets
from tilec.plan.tuning import PASSED_OVER, Tuned, check_record, misread, newer_tools, shipped_table, space_digest, winners
from tilec_runtime.errors import Diagnostic, ManifestError, UsageError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.driver import cuda_of_branch, ptx_isa_of_cuda
from tilec_runtime.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.model.kernel import AxisValue, KernelDecl, KernelInfo, LaunchInfo
from tilec_runtime.model.safety import Checks
from tilec_runtime.model.signature import Param
from tilec_runtime.model.suggest import did_you_mean
from tilec_runtime.model.table import DispatchRule, TuningTable


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PlannedKernel:
    """A kernel with everything but its images: the index row to be, and its jobs in variant, then target order.

    Attributes:
        space: digest of what there is to choose from, for tuning records.
    """

    info: KernelInfo
    jobs: tuple[Job, ...]
    manifest: Kernel
    space: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a build of `manifest` will do. `notes` say what was left out and why."""

    manifest: Manifest
    kernels: tuple[PlannedKernel, ...]
    notes: tuple[str, ...] = ()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job, kernel by kernel."""
        return tuple(job for kernel in self.kernels for job in kernel.jobs)


def make_plan(
    manifest: Manifest,
    declarations: Mapping[str, KernelDecl],
    languages: Mapping[str, LanguageFacts],
    sources: Mapping[str, Source],
    *,
    targets: Sequence[str] = (),
    select: Sequence[str] = (),
    profile: str = "release",
    tuned: Mapping[str, Tuned] | None = None,
    shipped: bool = True,
) -> Plan:
    """Work out every job of a build.

    Args:
        manifest: the loaded manifest.
        declarations: each kernel's declaration, by kernel name.
        languages: what each language's frontend can make, by language.
        sources: each kernel's source, by kernel name.
        targets: names of targets or groups; empty takes the manifest's default.
        select: globs over job ids (or variant or kernel ids); empty takes everything.
        profile: name of the profile.
        tuned: tuning files that are taken up, by kernel name.
        shipped: what is not shipped has every variant, and passes over tuning files that do not hold.

    Raises:
        ManifestError: with every problem of every kernel.
    """
    problems: dict[Diagnostic, None] = {}  # what several variants have in common is told once

    def report(what: str, path: tuple[str | int, ...], column: int = 0) -> None:
        problems[manifest.locate.problem(path, what, index=column - 1 if column else None)] = None

    wanted = parse_targets(manifest, targets)
    chosen_profile = _profile(manifest, profile)
    selection = Selection(manifest.overrides, select)
    planned = []
    offered: list[Job] = []
    remarks: list[str] = []
    for kernel in manifest.kernels:
        decl = declarations[kernel.name]
        language = languages[kernel.language]
        problems.update(dict.fromkeys(check_checks(kernel, decl, report)))
        record = (tuned or {}).get(kernel.name)
        scope = _Scope(manifest, wanted, selection, chosen_profile, offered, problems, remarks, record, shipped)
        planned.append(_plan_kernel(scope, kernel, decl, sources[kernel.name], language, report))
    for index, reached in selection.hinted.items():
        for name in reached:
            given = [hint for hint, _ in manifest.overrides[index].hints]
            check_hints(given, ("override", index, "hints"), name, languages[name].hints, report)
    if problems:
        raise ManifestError(tuple(problems))
    selection.require_match()
    made = {kind for kernel in manifest.kernels for kind in languages[kernel.language].kinds}
    notes = [f"{target} concerns none of the kernels" for target in wanted if target.kind not in made]
    if not targets:  # a build for some targets leaves out what is meant for others
        notes.extend(_idle_overrides(manifest, selection))
    notes.extend(remarks)
    groups = Groups(offered)
    kernels = tuple(dataclasses.replace(k, jobs=tuple(map(groups.of, k.jobs))) for k in planned if k.jobs)
    return _noted(Plan(manifest=manifest, kernels=kernels, notes=tuple(dict.fromkeys(notes))), selection.offered if select else 0)


def _noted(plan: Plan, offered: int) -> Plan:
    """A plan that says where it takes fewer jobs than were offered."""
    if len(plan.jobs) >= offered:
        return plan
    partly = f"--select takes {len(plan.jobs)} of {offered} jobs: bundle and package hold these alone"
    return dataclasses.replace(plan, notes=(*plan.notes, partly))


def _idle_overrides(manifest: Manifest, selection: Selection) -> Iterator[str]:
    names = [kernel.name for kernel in manifest.kernels]
    for index, rule in enumerate(manifest.overrides):
        if index not in selection.reached:
            kernel = rule.select.partition("-")[0]
            yield f"override[{index}] matches no job: select = {rule.select!r}{'' if kernel in names else did_you_mean(kernel, names)}"


def _profile(manifest: Manifest, name: str) -> Profile:
    for profile in manifest.profiles:
        if profile.name == name:
            return profile
    known = [profile.name for profile in manifest.profiles]
    raise UsageError(f"unknown profile {name!r}{did_you_mean(name, known)}", fix=f"profiles of this project: {', '.join(known)}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Scope:
    """What the kernels of a plan share: what is asked for, and what is collected; and the kernel's own tuning file."""

    manifest: Manifest
    wanted: Sequence[Target]
    selection: Selection
    profile: Profile
    offered: list[Job]
    problems: dict[Diagnostic, None]
    remarks: list[str]
    tuned: Tuned | None
    shipped: bool


def _plan_kernel(scope: _Scope, kernel: Kernel, decl: KernelDecl, source: Source, language: LanguageFacts, report: Report) -> PlannedKernel:
    manifest, selection, wanted = scope.manifest, scope.selection, scope.wanted
    decl = with_names(kernel, decl, report)
    kernel = with_slices(kernel, decl, report)
    language = language.of(decl)
    if not check_entry(kernel, decl, report) or not check_source_axes(kernel, decl, report):
        return PlannedKernel(info=_info(kernel, decl, (), ()), jobs=(), manifest=kernel)
    kernel = with_source(kernel, decl, report)
    resolver = Resolver(kernel, decl, report)
    params = resolver.params()
    unresolved = sorted(resolver.unresolved)
    variants = expand(kernel, params, report, unresolved=unresolved)
    check_kernel(kernel, decl, params, variants, language, report, unresolved=unresolved)
    for number, text in enumerate(kernel.sizes):
        if why := misread(text, params):
            report(why, ("kernel", kernel.name, "dispatch", "sizes", number))
    chosen = choose_targets(language, wanted)
    space = space_digest(manifest, kernel, variants)
    everything = variants
    variants, table = _taken_up(scope, kernel, params, everything, chosen.targets)
    for variant in set(everything).difference(variants):  # overrides may well speak of what a table leaves out
        for target in chosen.targets:
            selection.hints(kernel, variant.id, target)
    specs = _Specs(manifest, kernel, decl, source, params, scope.profile, report)
    jobs = []
    for variant in variants:
        spec = specs.of(variant)
        for target in chosen.targets:
            hints = _with_axes(selection.hints(kernel, variant.id, target), variant, language)
            if not selection.allows(variant.id, target):
                continue
            job = Job(spec=spec, variant=variant, target=target, hints=hints)
            scope.offered.append(job)
            if selection.takes(kernel.name, variant.id, target):
                jobs.append(job)
        for target, reason in chosen.refused.items():
            # An override or `--select` may keep a kernel from a target that its language cannot make.
            if selection.allows(variant.id, target) and selection.takes(kernel.name, variant.id, target):
                report(f"target {target}: {reason}", ("kernel", kernel.name))
    if not chosen.targets and not chosen.refused and selection.asks_for(kernel.name, [v.id for v in variants], wanted):
        report(no_target(kernel, language, wanted), ("kernel", kernel.name))
    check_clusters(kernel, decl, [job.target for job in jobs], report)
    check_shared(kernel, jobs, report)
    check_names(kernel, jobs, report)
    info = dataclasses.replace(_info(kernel, decl, params, variants), table=table)
    return PlannedKernel(info=info, jobs=tuple(jobs), manifest=kernel, space=space)


def _taken_up(
    scope: _Scope, kernel: Kernel, params: tuple[Param, ...], variants: tuple[Variant, ...], targets: Sequence[Target]
) -> tuple[tuple[Variant, ...], TuningTable | None]:
    """The variants that are built, and the table that is shipped, by the kernel's tuning file if it has one.

    A kernel that names a file has a table in any case: launches then look for what fits, whether or not the default does.
    """
    empty = TuningTable(source=kernel.table, sizes=(), devices=()) if kernel.table else None
    if scope.tuned is None:
        if kernel.table and not scope.shipped:
            scope.remarks.append(f"{kernel.table} {PASSED_OVER}: it is not there, or cannot be read; `tilec check` says more")
        return variants, empty
    found = list(check_record(scope.tuned, scope.manifest, kernel, params, variants))
    if found and scope.shipped:
        scope.problems.update(dict.fromkeys(found))
    elif found:
        scope.remarks.append(f"{kernel.table} {PASSED_OVER}: {found[0].message}")
    if found:
        return variants, empty
    scope.remarks.extend(newer_tools(scope.tuned))
    table = shipped_table(scope.tuned, targets)
    return (winners(kernel, params, variants, scope.tuned.record) if kernel.keep == "winners" and scope.shipped else variants), table


def _with_axes(hints: tuple[tuple[str, int], ...], variant: Variant, language: LanguageFacts) -> tuple[tuple[str, int], ...]:
    """The hints of a job, and those that are axes of the matrix: which they are is the variant's identity, so nothing overrides them."""
    axes = {name: value for name, value in variant.axes if name in language.hints and isinstance(value, int)}
    return tuple(sorted({**dict(hints), **axes}.items())) if axes else hints


class _Specs:
    """The specs of one kernel: one for all its variants, or one per set of dtypes where `args` packs a dtype axis."""

    def __init__(
        self,
        manifest: Manifest,
        kernel: Kernel,
        decl: KernelDecl,
        source: Source,
        params: tuple[Param, ...],
        profile: Profile,
        report: Report,
    ) -> None:
        cuda = cuda_of_branch(manifest.targets.min_driver) if manifest.targets.min_driver else None
        self._kernel, self._decl, self._params, self._report = kernel, decl, params, report
        self._axes = [name for name, _ in kernel.matrix.axes if any(p.dtype == name for p in params)]
        self._base = KernelSpec(
            name=kernel.name,
            language=kernel.language,
            source=source,
            decl=decl,
            symbol=kernel.symbol or decl.qualified or decl.name,
            params=params,
            cluster=kernel.launch.cluster,
            cooperative=kernel.launch.cooperative,
            opt=profile.opt,
            lineinfo=profile.lineinfo,
            debug=profile.debug,
            bounds=profile.bounds,
            max_isa=ptx_isa_of_cuda(cuda) if cuda else None,
            timeout=manifest.toolchain.timeout,
            checks=Checks(kernel.checks or Checks.ON.value),
        )
        self._made: dict[tuple[AxisValue, ...], KernelSpec] = {}

    def of(self, variant: Variant) -> KernelSpec:
        """The spec that a variant's jobs share."""
        if self._kernel.args is None:
            return self._base
        axes = dict(variant.axes)
        key = tuple(axes[name] for name in self._axes)
        if key not in self._made:
            abi = abi_of_args(self._kernel, self._decl, self._params, axes, self._report)
            self._made[key] = dataclasses.replace(self._base, abi=abi)
        return self._made[key]


def _info(kernel: Kernel, decl: KernelDecl, params: tuple[Param, ...], variants: Sequence[Variant]) -> KernelInfo:
    built: dict[str, dict[AxisValue, None]] = {name: {} for name, _ in kernel.matrix.axes}
    for variant in variants:
        for name, value in variant.axes:
            built[name][value] = None
    # Points that are left out change which value is met first, and those that are added bring values of their own.
    ordered = {name: dict.fromkeys((*values, *built[name])) for name, values in kernel.matrix.axes}
    axes = tuple((name, tuple(value for value in values if value in built[name])) for name, values in ordered.items())
    bound = {p.dtype for p in params}
    default = dict(kernel.default)
    for name, values in axes:
        if len(values) == 1 and name not in bound:
            default.setdefault(name, values[0])
    return KernelInfo(
        name=kernel.name,
        language=kernel.language,
        location=decl.location,
        doc=decl.doc,
        params=params,
        axes=axes,
        dtype_axes=tuple(name for name, _ in axes if name in bound),
        default=tuple(default.items()),
        rules=tuple(DispatchRule(when=rule.when, take=rule.take) for rule in kernel.rules),
        launch=LaunchInfo(
            grid=kernel.launch.grid,
            block=kernel.launch.block or ("1",),
            shared=kernel.launch.shared,
            cluster=kernel.launch.cluster or decl.cluster,
            cooperative=kernel.launch.cooperative,
            programmatic=kernel.launch.programmatic,
            requires=kernel.launch.requires,
            open=kernel.launch.open,
        ),
        safety=safety_of(kernel, decl),
    )


__all__ = ["LanguageFacts", "Plan", "PlannedKernel", "make_plan"]


def near_job(job_id: str, plan: Plan) -> str:
    """Jobs of the variant, where it is a variant's or kernel's id; else the nearest job."""
    begun = [job.id for job in plan.jobs if job_id in (job.variant.id, job.spec.name)]
    if begun:
        return f"; jobs end in their target: {', '.join(begun[:4])}{', …' if len(begun) > 4 else ''}"
    return did_you_mean(job_id, [job.id for job in plan.jobs[:2000]])
