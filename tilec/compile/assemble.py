"""Assembly of the bundle's index from outcomes: failures, budgets, and kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from tilec import __version__
from tilec.compile.declare import UNREADABLE, Declared
from tilec.compile.events import Done, Outcome
from tilec.compile.project import Project
from tilec.frontends.cuda.mangled import pointed
from tilec.manifest.locate import Locator
from tilec.manifest.types import Budget
from tilec.model.argument import joined_abi
from tilec.model.job import Job
from tilec.plan import Plan, PlannedKernel
from tilec_runtime.errors import BudgetError, BuildError, CompileError, Diagnostic, TilecError
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.driver import branch_of_cuda
from tilec_runtime.model.image import Resources
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind

T = TypeVar("T", int, str)


def require_done(
    plan: Plan, outcomes: Sequence[Outcome], locate: Locator, declared: Declared
) -> tuple[Done, ...]:
    """Return the outcomes if all jobs are done and within their budgets.

    Raises:
        BuildError: every failure, and every source that cannot be read.
    """
    failures: list[TilecError] = []
    done: list[Done] = []
    failed = 0  # a job may break several budgets
    rows = iter(outcomes)
    for kernel in plan.kernels:
        for job in kernel.jobs:
            outcome = next(rows)
            errors = [outcome] if isinstance(outcome, TilecError) else []
            if isinstance(outcome, Done):
                done.append(outcome)
                errors = _budget_errors(kernel, job.id, outcome, locate)
            failed += bool(errors)
            failures.extend(errors)
    if not failures:
        declared.require_all()
        return tuple(done)
    summary = f"{failed} of {len(outcomes)} jobs failed"
    if declared.unreadable:
        summary = f"{len(declared.unreadable)} of {declared.sources} {UNREADABLE}, {summary}"
    raise BuildError((*declared.unreadable, *failures), total=len(outcomes), summary=summary)


def over_budget(budget: Budget, used: Resources) -> list[tuple[str, int, int]]:
    """Return the name, value and limit of each resource that an image uses too much of."""
    spills = None if used.spill_stores is None else max(used.spill_stores, used.spill_loads or 0)
    rows = (
        ("registers", used.registers, budget.registers),
        ("spills", spills, budget.spills),
        ("shared", used.shared, budget.shared),
        ("stack", used.stack, budget.stack),
        ("constant", used.constant, budget.constant),
    )
    return [
        (name, value, limit)
        for name, value, limit in rows
        if limit is not None and value is not None and value > limit
    ]


def _budget_errors(
    kernel: PlannedKernel, job_id: str, done: Done, locate: Locator
) -> list[TilecError]:
    if any(job.spec.debug for job in kernel.jobs):
        return []  # budgets apply to optimized code
    return [
        BudgetError(
            f"{job_id}: {name} {value}, over the budget of {limit}",
            cause="the compiler needs more than kernel.budget allows for this variant and target",
            fix=f"raise kernel.{kernel.info.name}.budget.{name}, exclude the variant, or give it smaller tiles or other hints",
            kernel=job_id,
            target=str(done.info.target),
            location=locate(("kernel", kernel.info.name, "budget", name)),
        )
        for name, value, limit in over_budget(kernel.manifest.budget, done.info.resources)
    ]


def bundle_info(
    project: Project,
    declared: Declared,
    plan: Plan,
    profile: str,
    *,
    outcomes: Sequence[Done] | None,
) -> BundleInfo:
    """Return the bundle's index.

    Without outcomes it has no variants; it then serves to compare the inputs that no job's key
    covers.
    """
    rows = iter(outcomes or ())
    built = (
        _with_images(kernel, rows) if outcomes is not None else kernel.info
        for kernel in plan.kernels
    )
    kernels = tuple(
        dataclasses.replace(kernel, jit=project.manifest.targets.jit_fallback) for kernel in built
    )
    planned = {kernel.info.name for kernel in plan.kernels}
    tools = {
        tool.name: tool for kernel in plan.kernels for tool in declared.tools[kernel.info.language]
    }
    # Files of the project only. Files elsewhere, directories and missing files are in the keys of
    # the jobs, but a reader of the bundle could not look them up.
    inputs = {file for name in planned for file in declared.inputs[name]}
    files = {
        file.name: file.digest
        for file in inputs
        if file.digest and file.name[-1] != "/" and not file.name.startswith("../")
    }
    return BundleInfo(
        package=project.manifest.package.info,
        kernels=kernels,
        toolchain=tuple(tools[name] for name in sorted(tools)),
        sources=tuple(sorted(files.items())),
        profile=profile,
        min_driver=project.manifest.targets.min_driver,
        builder=f"tilec {__version__}",
    )


def _with_images(kernel: PlannedKernel, rows: Iterator[Done]) -> KernelInfo:
    variants: dict[str, VariantInfo] = {}
    for job in kernel.jobs:
        done = next(rows)
        known = variants.get(job.variant.id)
        abi = joined_abi(known.abi, done.abi) if known else done.abi
        if abi is None:
            message = f"{job.variant.id}: the image for {job.target} takes other arguments than those for other targets"
            raise CompileError(
                message,
                kernel=job.variant.id,
                target=str(job.target),
                fix="keep one of the targets from it in [[override]]",
            )
        images = (*(known.images if known else ()), done.info)
        hints = (
            *(known.hints if known else ()),
            *(((str(job.target), job.hints),) if job.hints else ()),
        )
        variants[job.variant.id] = VariantInfo(
            id=job.variant.id,
            axes=job.variant.axes,
            assume=job.variant.assume,
            abi=abi,
            images=images,
            hints=hints,
        )
    built = tuple(variants.values())
    params = tuple(_completed(param, built, kernel) for param in kernel.info.params)
    return dataclasses.replace(kernel.info, params=params, variants=built)


def _completed(param: Param, variants: Sequence[VariantInfo], kernel: PlannedKernel) -> Param:
    """Return a parameter with the struct size or dtype that only the images give.

    Raises:
        CompileError: the images disagree, but one launcher takes only one size or dtype.
    """
    if param.kind is ParamKind.STRUCT and not param.size:
        sizes = {
            f"{slot.size} bytes": (slot.size, v.id)
            for v in variants
            for slot in v.abi
            if slot.type == "struct" and slot.expr.strip() == param.name
        }
        return dataclasses.replace(param, size=_agreed(sizes, param, "size", kernel) or 0)
    if param.kind is ParamKind.TENSOR and not param.dtype:
        compiled = (
            (pointed(v.abi, image.symbol).get(param.name), f"{v.id}-{image.target}")
            for v in variants
            for image in v.images
        )
        dtypes = {fact.dtype: (fact.dtype, job) for fact, job in compiled if fact}
        return dataclasses.replace(param, dtype=_agreed(dtypes, param, "dtype", kernel) or "")
    return param


def _agreed(
    values: Mapping[str, tuple[T, str]], param: Param, fact: str, kernel: PlannedKernel
) -> T | None:
    """Return the value that all images share, or None if no image has it.

    `values` maps the text of each value to the value and the id of an image.

    Raises:
        CompileError: the images have several values.
    """
    if len(values) > 1:
        ordered = sorted(values.items(), key=lambda item: item[1][0])
        shown = ", ".join(f"{text} in {job}" for text, (_, job) in ordered)
        message = f"{param.kind.value} {param.name!r} has {shown}: one launcher takes one {fact}"
        fix = f"split kernel.{kernel.info.name} into kernels whose images take one {fact} each"
        problem = Diagnostic(message=message, location=kernel.info.location, hint=fix)
        raise CompileError(message, diagnostics=(problem,), fix=fix)
    return next((value for value, _ in values.values()), None)


def beyond_min_driver(info: BundleInfo) -> Iterator[str]:
    """Yield notes on images that drivers as old as min-driver cannot load.

    The version of PTX is lowered for min-driver; machine code and Tile IR cannot be.
    """
    needed: dict[int | None, dict[str, None]] = {}
    for image in (
        image for kernel in info.kernels for variant in kernel.variants for image in variant.images
    ):
        branch = branch_of_cuda(image.cuda)
        if info.min_driver and (branch is None or branch > info.min_driver):
            needed.setdefault(branch, {})[str(image.target)] = None
    for branch, targets in needed.items():
        wants = f"driver {branch} or later" if branch else "a driver that tilec does not know yet"
        yield f"{', '.join(targets)}: needs {wants}, which is newer than min-driver {info.min_driver}; older drivers cannot load it"


def not_reproducible(jobs: Sequence[Job], outcomes: Sequence[Done]) -> Iterator[str]:
    """Yield notes on images whose bytes may differ in another build, by cause."""
    varying = [job for job, done in zip(jobs, outcomes, strict=True) if not done.info.reproducible]
    unchecked = "unchecked-flags is on"
    randomized = "this system refuses to run tileiras without address-space randomization, which changes its output"
    for cause, cached in ((unchecked, False), (randomized, True)):
        affected = [job for job in varying if job.cacheable is cached]
        if affected:
            shown = f"{', '.join(job.id for job in affected[:3])}{f' and {len(affected) - 3} more' if len(affected) > 3 else ''}"
            yield f"{shown}: not reproducible, so another build may give other bytes: {cause}"


def never_compiled(info: BundleInfo) -> Iterator[str]:
    """Yield a note on code that is useless if no process allows compilation.

    Tile IR is excluded, since the cpu device runs it.
    """
    images = (
        image
        for kernel in info.kernels
        if kernel.jit is None
        for variant in kernel.variants
        for image in variant.images
    )
    targets = dict.fromkeys(
        str(image.target)
        for image in images
        if image.target.kind in (TargetKind.PTX, TargetKind.LTOIR)
    )
    if targets:
        message = 'compiled on no GPU at load, for jit-fallback is deny by default: say "allow" in [targets], or "deny" if that is meant'
        yield f"{', '.join(targets)}: {message}"
