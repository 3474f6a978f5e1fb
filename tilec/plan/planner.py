"""Plan kernels one by one: variants, jobs and index entries."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilec.manifest.types import Kernel, Manifest, Profile
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec.model.tuning import table_of
from tilec.plan.args import abi_of_args, with_slices
from tilec.plan.captures import with_captures
from tilec.plan.checks import check_entry, check_kernel, check_names, check_source
from tilec.plan.launch_checks import check_clusters, check_shared
from tilec.plan.lists import in_manifest, list_params, with_lists, with_optional
from tilec.plan.matrix import expand
from tilec.plan.operators import operator_of
from tilec.plan.params import params_of
from tilec.plan.points import for_targets, inlined, is_for, with_points
from tilec.plan.report import Path, Report
from tilec.plan.source import (
    check_checks,
    check_source_axes,
    safety_of,
    unfollowed_note,
    with_names,
    with_source,
)
from tilec.plan.targets import LanguageFacts, Selection, no_target
from tilec.plan.tuning import PASSED_OVER, Tuned, check_record, newer_tools, space_digest, winners
from tilec_runtime.errors import Diagnostic
from tilec_runtime.model.arch import Target
from tilec_runtime.model.driver import cuda_of_branch, ptx_isa_of_cuda
from tilec_runtime.model.kernel import AxisValue, KernelInfo, LaunchInfo
from tilec_runtime.model.safety import Checks
from tilec_runtime.model.signature import Param
from tilec_runtime.model.table import TuningTable


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PlannedKernel:
    """A planned kernel.

    Attributes:
        info: its entry in the bundle index.
        jobs: its jobs, by variant, then target.
        manifest: its table in the manifest, completed by the source.
        space: digest of points, assumption sets and hints, for tuning records.
    """

    info: KernelInfo
    jobs: tuple[Job, ...]
    manifest: Kernel
    space: str = ""


class Planner:
    """Plans the kernels of a manifest one by one.

    Attributes:
        problems: problems of all kernels, each once, since variants may share one.
        offered: all jobs, of which `--select` takes some.
        languages: language of each job by its id, also for variants that are not built.
        remarks: notes of frontends and on tuning files.
    """

    def __init__(
        self,
        manifest: Manifest,
        wanted: Sequence[Target],
        profile: Profile,
        selection: Selection,
        *,
        shipped: bool,
    ) -> None:
        self.manifest, self.wanted, self.profile = manifest, wanted, profile
        self.selection, self.shipped = selection, shipped
        self.report = Report(self._collect)
        self.problems: dict[Diagnostic, None] = {}
        self.offered: list[Job] = []
        self.languages: dict[str, str] = {}
        self.remarks: list[str] = []

    def _collect(self, what: str, path: Path, column: int) -> None:
        index = column - 1 if column else None
        self.problems[self.manifest.locate.problem(path, what, index=index)] = None

    def kernel(
        self,
        kernel: Kernel,
        decl: KernelDecl,
        source: Source,
        language: LanguageFacts,
        tuned: Tuned | None,
    ) -> PlannedKernel:
        """Plan a kernel; its jobs are meaningless if problems were reported."""
        report = self.report.at("kernel", kernel.name)
        self.problems.update(dict.fromkeys(check_checks(kernel, decl, report)))
        kernel, points = with_points(kernel, decl, report)
        written = kernel
        kernel, decl, lists = with_lists(kernel, decl, report)
        once = in_manifest(written, report) if lists else report
        decl = with_captures(kernel, with_names(kernel, decl, report), report)
        kernel = with_slices(kernel, decl, report)
        language = language.of(decl)
        params = None
        if check_entry(kernel, decl, report) and check_source_axes(kernel, decl, report):
            kernel = with_source(kernel, decl, report)
            check_source(kernel, decl, language, report)
            params = params_of(kernel, decl, report)
        if params is None:
            return PlannedKernel(info=_info(kernel, decl, (), ()), jobs=(), manifest=kernel)
        self.remarks.extend(filter(None, (decl.note, unfollowed_note(kernel, decl))))
        params = with_optional(params, lists)
        everything = expand(kernel, points, params, report, lists=lists)
        check_kernel(kernel, decl, params, everything, language, once)
        reasons = language.reasons(self.wanted)
        targets = [target for target, reason in reasons.items() if not reason]
        variants, table = self._taken_up(kernel, params, everything, targets, tuned)
        self._check_targets(kernel, variants, reasons, language, report)
        variants = for_targets(kernel, variants, targets)
        # Overrides may be for variants that a tuning table leaves out.
        for variant, target in itertools.product(everything, targets):
            self.languages[f"{variant.id}-{target}"] = kernel.language
        spec = self._spec(kernel, decl, source, params)
        jobs = self._selected(
            job
            for variant in variants
            for job in self._jobs(spec, kernel, variant, targets, language, report)
        )
        check_clusters(kernel, decl, [job.target for job in jobs], report)
        check_shared(kernel, jobs, report)
        check_names(jobs, report)
        info = dataclasses.replace(
            _info(kernel, decl, params, variants),
            table=table,
            op=operator_of(kernel, decl, params, report),
            lists=list_params(params, lists),
        )
        space = space_digest(self.manifest, kernel, everything)
        return PlannedKernel(info=info, jobs=jobs, manifest=kernel, space=space)

    def _selected(self, offered: Iterable[Job]) -> tuple[Job, ...]:
        """Return the jobs of a kernel that are selected."""
        jobs = tuple(offered)
        self.offered += jobs
        takes = self.selection.takes
        return tuple(job for job in jobs if takes(job.spec.name, job.variant.id, job.target))

    def _check_targets(
        self,
        kernel: Kernel,
        variants: Sequence[Variant],
        reasons: Mapping[Target, str],
        language: LanguageFacts,
        report: Report,
    ) -> None:
        """Report selected targets that the language refuses, and a shipped kernel without a target."""
        pairs = itertools.product(variants, self.wanted)
        # An override, `--select` or the matrix may exclude a target that the language refuses.
        selected = [(v, t) for v, t in pairs if self.selection.takes(kernel.name, v.id, t)]
        for variant, target in selected:
            built = is_for(kernel, variant.axes, target)
            if reasons.get(target) and built and self.selection.allows(variant.id, target):
                report(f"target {target}: {reasons[target]}")
        if selected and not reasons and self.shipped:
            report(no_target(kernel, language, self.wanted))

    def _jobs(
        self,
        spec: KernelSpec,
        kernel: Kernel,
        variant: Variant,
        targets: Sequence[Target],
        language: LanguageFacts,
        report: Report,
    ) -> Iterator[Job]:
        """Yield the jobs of a variant."""
        if kernel.args is not None:  # with dtype axes in `args`, variants pack different types
            values = dict(variant.constants)
            abi = abi_of_args(kernel, spec.decl, spec.params, values, report)
            spec = dataclasses.replace(spec, abi=abi)
        # A hint that is an axis of the matrix is part of the variant's id: nothing overrides it.
        axes = {
            name: value
            for name, value in variant.axes
            if name in language.hints and isinstance(value, int)
        }
        for target in targets:
            if self.selection.allows(variant.id, target) and is_for(kernel, variant.axes, target):
                hints = {**self.selection.hints(kernel, variant.id, target), **axes}
                yield Job(
                    spec=spec, variant=variant, target=target, hints=tuple(sorted(hints.items()))
                )

    def _taken_up(
        self,
        kernel: Kernel,
        params: tuple[Param, ...],
        variants: tuple[Variant, ...],
        targets: Sequence[Target],
        tuned: Tuned | None,
    ) -> tuple[tuple[Variant, ...], TuningTable | None]:
        """Return the variants to build and the tuning table to ship.

        A kernel that names a tuning file always has a table, if only an empty one: launches then
        choose by their arguments, even if the default does not fit.
        """
        empty = TuningTable(source=kernel.table, sizes=(), devices=()) if kernel.table else None
        if tuned is None:
            if kernel.table and not self.shipped:
                self.remarks.append(
                    f"{kernel.table} {PASSED_OVER}: it is not there, or cannot be read; `tilec check` says more"
                )
            return variants, empty
        faults = list(check_record(tuned, self.manifest, kernel, params, variants))
        if faults and self.shipped:
            self.problems.update(dict.fromkeys(faults))
        elif faults:
            self.remarks.append(f"{kernel.table} {PASSED_OVER}: {faults[0].message}")
        if faults:
            return variants, empty
        self.remarks.extend(newer_tools(tuned))
        kept = (
            winners(kernel, params, variants, tuned.record)
            if kernel.keep == "winners" and self.shipped
            else variants
        )
        return kept, table_of(tuned.record, tuned.path, targets)

    def _spec(
        self, kernel: Kernel, decl: KernelDecl, source: Source, params: tuple[Param, ...]
    ) -> KernelSpec:
        cuda = (
            cuda_of_branch(self.manifest.targets.min_driver)
            if self.manifest.targets.min_driver
            else None
        )
        return KernelSpec(
            name=kernel.name,
            language=kernel.language,
            source=source,
            decl=decl,
            symbol=kernel.symbol or decl.qualified or decl.name,
            params=params,
            cluster=kernel.launch.cluster,
            cooperative=kernel.launch.cooperative,
            opt=self.profile.opt,
            lineinfo=self.profile.lineinfo,
            debug=self.profile.debug,
            bounds=self.profile.bounds,
            max_isa=ptx_isa_of_cuda(cuda) if cuda else None,
            timeout=self.manifest.toolchain.timeout,
            checks=Checks(kernel.checks or Checks.ON.value),
        )


def _info(
    kernel: Kernel, decl: KernelDecl, params: tuple[Param, ...], variants: Sequence[Variant]
) -> KernelInfo:
    axes = _built_axes(kernel, variants)
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
        rules=kernel.rules,
        launch=_launch_info(kernel, decl),
        safety=safety_of(kernel, decl),
    )


def _built_axes(
    kernel: Kernel, variants: Sequence[Variant]
) -> tuple[tuple[str, tuple[AxisValue, ...]], ...]:
    """Return the axes that callers see, with the values of built variants, in order."""
    derived = dict(kernel.let)
    listed = {name: values for name, values in kernel.matrix.axes if name not in derived}
    built: dict[str, dict[AxisValue, None]] = {name: {} for name in listed}
    for variant in variants:
        for name, value in variant.axes:
            built[name][value] = None
    # Keep the manifest's order of values: variants may lack the first points, and included points
    # add values.
    return tuple(
        (name, tuple(v for v in dict.fromkeys((*values, *built[name])) if v in built[name]))
        for name, values in listed.items()
    )


def _launch_info(kernel: Kernel, decl: KernelDecl) -> LaunchInfo:
    launch = kernel.launch

    def texts(expressions: Iterable[str]) -> tuple[str, ...]:
        return tuple(inlined(kernel, text) for text in expressions)

    return LaunchInfo(
        grid=texts(launch.grid),
        block=texts(launch.block) or ("1",),
        shared=inlined(kernel, launch.shared),
        cluster=launch.cluster or decl.cluster,
        cooperative=launch.cooperative,
        programmatic=launch.programmatic,
        requires=texts(launch.requires),
        open=launch.open,
        preset=launch.preset,
    )
