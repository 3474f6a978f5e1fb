"""Notes on a plan: what has no effect, and what costs speed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilec.manifest.types import DEFAULT_TARGETS, Manifest
from tilec.plan.planner import PlannedKernel, Planner
from tilec.plan.targets import LanguageFacts
from tilec_runtime.model.arch import Target
from tilec_runtime.model.suggest import did_you_mean


def notes_of(
    planner: Planner,
    planned: Sequence[PlannedKernel],
    languages: Mapping[str, LanguageFacts],
    targets: Sequence[str],
    idle: Sequence[int],
) -> Iterator[str]:
    """Yield the notes on all kernels.

    Args:
        planner: the planner of the build.
        planned: its kernels.
        languages: capabilities of each language's frontend, by language.
        targets: names of targets or groups that the request gives.
        idle: indices of the overrides that match no job.
    """
    manifest = planner.manifest
    if targets or manifest.targets.default != DEFAULT_TARGETS:  # the default suits any language
        yield from _idle_targets(manifest, languages, planner.wanted)
    if not targets:  # with `targets`, an override may be meant for a target that is left out
        yield from _idle_overrides(manifest, idle)
    yield from planner.remarks
    triton = [kernel for kernel in planned if kernel.manifest.language == "triton"]
    yield from _without_facts(triton)
    yield from _with_free_rows(triton)


def _idle_targets(
    manifest: Manifest, languages: Mapping[str, LanguageFacts], wanted: Iterable[Target]
) -> Iterator[str]:
    kinds = {kind for kernel in manifest.kernels for kind in languages[kernel.language].kinds}
    for target in wanted:
        if target.kind not in kinds:
            yield f"{target} concerns none of the kernels"


def _idle_overrides(manifest: Manifest, idle: Sequence[int]) -> Iterator[str]:
    names = [kernel.name for kernel in manifest.kernels]
    for index in idle:
        select = manifest.overrides[index].select
        kernel = select.partition("-")[0]
        near = "" if kernel in names else did_you_mean(kernel, names)
        yield f"override[{index}] matches no job: select = {select!r}{near}"


def _without_facts(planned: Iterable[PlannedKernel]) -> Iterator[str]:
    """Yield a note on the kernels whose tensors have no fact that Triton specializes for.

    Assumption sets in the manifest say that this is meant, even the empty set alone.
    """
    plain = [
        kernel.info
        for kernel in planned
        if not kernel.manifest.assume
        and any(param.rank > 0 for param in kernel.info.params)
        and not any(param.align > 1 for param in kernel.info.params)
    ]
    if plain:
        names = ", ".join(info.name for info in plain)
        divisible = ", ".join(
            f"{param.name} = [{', '.join(['1'] * (param.rank - 1) + ['16'])}]"
            for param in plain[0].params
            if param.rank > 0
        )
        yield (
            f"Triton compiles {names} without facts of alignment and divisibility, which costs registers and pipelining: write "
            f"kernel.{plain[0].name}.assume.sets = [{{ aligned = 16, divisible = {{ {divisible} }} }}, {{}}], "
            "or [{}] if launches have none"
        )


_FREE = '"?", '  # a free stride, in front of others


def _with_free_rows(planned: Iterable[PlannedKernel]) -> Iterator[str]:
    """Yield a note on each kernel whose tensors have rows of a free stride.

    A stride in the manifest says that this is meant.
    """
    for kernel in planned:
        written = {table.name for table in kernel.manifest.params if table.stride is not None}
        free = [
            param
            for param in kernel.info.params
            if param.rank > 1 and param.stride is not None and param.stride[-1] is None
            if param.name not in written
        ]
        if free:
            name = kernel.info.name
            strides = "; ".join(
                f"kernel.{name}.params.{param.name}.stride = [{_FREE * (param.rank - 1)}1]"
                for param in free
            )
            yield (
                f"Triton vectorizes and pipelines no loads of rows whose stride is free: if the rows of "
                f'{", ".join(param.name for param in free)} are contiguous, write {strides}; else "?" in place of 1'
            )
