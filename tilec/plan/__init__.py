"""Plan the jobs of a build; pure: no file, device or tool."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tilec.manifest.types import Manifest, Profile
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Source
from tilec.plan.checks import check_hints
from tilec.plan.groups import Groups
from tilec.plan.notes import notes_of
from tilec.plan.operators import with_backward
from tilec.plan.planner import PlannedKernel, Planner
from tilec.plan.report import Report
from tilec.plan.targets import LanguageFacts, Selection, parse_targets
from tilec.plan.tuning import Tuned
from tilec_runtime.errors import ManifestError, UsageError
from tilec_runtime.model.suggest import did_you_mean


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The kernels and jobs of a build of `manifest`, with notes on omitted jobs."""

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
    """Return every job of a build.

    Args:
        manifest: the loaded manifest.
        declarations: each kernel's declaration, by kernel name.
        languages: capabilities of each language's frontend, by language.
        sources: each kernel's source, by kernel name.
        targets: names of targets or groups; empty takes the manifest's default.
        select: globs over job ids (or variant or kernel ids); empty selects everything.
        profile: name of the profile.
        tuned: valid tuning files, by kernel name.
        shipped: whether the result is shipped. Otherwise every variant is built, outdated
            tuning files are ignored, and a kernel may have no job.

    Raises:
        ManifestError: with every problem of every kernel.
    """
    selection = Selection(manifest.overrides, select)
    planner = Planner(
        manifest,
        parse_targets(manifest, targets),
        _profile(manifest, profile),
        selection,
        shipped=shipped,
    )
    planned = [
        planner.kernel(
            kernel,
            declarations[kernel.name],
            sources[kernel.name],
            languages[kernel.language],
            (tuned or {}).get(kernel.name),
        )
        for kernel in manifest.kernels
    ]
    planned = _with_backwards(planned, planner.report)
    reached = selection.reached(planner.languages)
    for index, override in enumerate(manifest.overrides):
        at = planner.report.at("override", index, "hints")
        for name in reached[index]:
            check_hints([*dict(override.hints)], name, languages[name].hints, at)
    if planner.problems:
        raise ManifestError(tuple(planner.problems))
    if shipped:
        selection.require_match(planner.offered)
    groups = Groups(planner.offered)
    kernels = tuple(
        dataclasses.replace(k, jobs=tuple(map(groups.of, k.jobs)))
        for k in _without_gone([k for k in planned if k.jobs])
    )
    idle = [index for index, names in enumerate(reached) if not names]
    notes = dict.fromkeys(notes_of(planner, planned, languages, targets, idle))
    plan = Plan(manifest=manifest, kernels=kernels, notes=tuple(notes))
    count, offered = len(plan.jobs), len(planner.offered)
    if select and count < offered:
        note = f"--select takes {count} of {offered} jobs: bundle and package hold these alone"
        plan = dataclasses.replace(plan, notes=(*plan.notes, note))
    return plan


def _with_backwards(planned: Sequence[PlannedKernel], report: Report) -> list[PlannedKernel]:
    others = {kernel.info.name: (kernel.manifest, kernel.info) for kernel in planned}
    return [
        dataclasses.replace(
            k, info=with_backward(k.manifest, k.info, others, report.at("kernel", k.info.name))
        )
        for k in planned
    ]


def _without_gone(planned: Sequence[PlannedKernel]) -> Iterator[PlannedKernel]:
    """Yield the built kernels; drop a backward whose kernel is not built."""
    built = {kernel.info.name for kernel in planned}
    for kernel in planned:
        op, backward = kernel.info.op, kernel.info.backward
        if op is not None and backward is not None and backward.kernel not in built:
            op = dataclasses.replace(op, backward=None)
        yield dataclasses.replace(kernel, info=dataclasses.replace(kernel.info, op=op))


def _profile(manifest: Manifest, name: str) -> Profile:
    for profile in manifest.profiles:
        if profile.name == name:
            return profile
    known = [profile.name for profile in manifest.profiles]
    raise UsageError(
        f"unknown profile {name!r}{did_you_mean(name, known)}",
        fix=f"profiles of this project: {', '.join(known)}",
    )


def near_job(job_id: str, plan: Plan) -> str:
    """Return a hint for an unknown job id: jobs of that variant or kernel, or the nearest."""
    begun = [job.id for job in plan.jobs if job_id in (job.variant.id, job.spec.name)]
    if begun:
        return (
            f"; jobs end in their target: {', '.join(begun[:4])}{', …' if len(begun) > 4 else ''}"
        )
    return did_you_mean(job_id, [job.id for job in plan.jobs[:2000]])


__all__ = ["LanguageFacts", "Plan", "PlannedKernel", "make_plan", "near_job"]
