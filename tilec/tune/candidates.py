"""Compiles candidates: a point of the matrix with all its assumption sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilec.compile.assemble import bundle_info
from tilec.compile.declare import declare
from tilec.compile.events import Done, Observer
from tilec.compile.keys import KeyMaker
from tilec.compile.project import Project
from tilec.compile.state import WorkDir
from tilec.manifest.types import Kernel
from tilec.model.job import Job
from tilec.model.tuning import size_expressions
from tilec.package.write import write_bundle
from tilec.plan import Plan, make_plan
from tilec.planning import BuildRequest, digest_of, part_of, runner_of
from tilec.tune.space import Point
from tilec_runtime.errors import TilecError, UsageError
from tilec_runtime.model.kernel import KernelInfo, ToolInfo, VariantInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CompiledPoint:
    """The outcome of compiling a candidate.

    Attributes:
        variants: with their images; empty if it does not compile.
        bundle: the file that holds them.
        failure: why it does not compile; empty if it does.
    """

    variants: tuple[VariantInfo, ...] = ()
    bundle: str = ""
    failure: str = ""


# Returns the outcome for points, by a compiler or from a kit.
Make = Callable[[Sequence[Point]], Mapping[Point, CompiledPoint]]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KernelFacts:
    """Facts about a tuned kernel that need no compile.

    Attributes:
        info: the kernel with its planned variants, which have no images.
        kernel_digest, space_digest: for the record.
        toolchain: of its frontend.
        target: that it is compiled for.
        sizes: expressions that distinguish launches: the manifest's, or all extents.
    """

    info: KernelInfo
    kernel_digest: str
    space_digest: str
    toolchain: tuple[ToolInfo, ...]
    target: str
    sizes: tuple[str, ...]


class Foundry:
    """Compiles candidates of one kernel for one target; a context manager that ends its workers.

    Args:
        request: the project, its cache and tools, and the number of workers.
        kernel: its name in the manifest.
        target: to compile for.
        folder: for bundles of candidates.
        project: of the request.
        observer: of compiles and notes.

    Raises:
        ManifestError, BuildError, ToolchainError: as a build would.
        UsageError: the manifest has no such kernel, or not for the target.
    """

    def __init__(
        self,
        request: BuildRequest,
        kernel: str,
        target: str,
        folder: Path,
        project: Project,
        observer: Observer | None = None,
    ) -> None:
        observer = observer or Observer()
        self._folder, self._profile = folder, request.profile
        table = next(one for one in project.manifest.kernels if one.name == kernel)
        self._project = part_of(project, {table.language})
        work = WorkDir(Path(self._project.manifest.root))
        cache = request.open_cache(observer.note)
        self._runner = runner_of(self._project, request, cache, observer, work.spool, work.kept)
        try:
            self._declared = declare(self._project, self._runner, cache, select=(kernel,))
            self._plan = self._planned(kernel, target)
        except BaseException:
            self._runner.close()
            raise
        self._planned_kernel = self._plan.kernels[0]
        self._keys = KeyMaker(tools=self._declared.tools, inputs=self._declared.inputs)
        self._count = 0
        self.facts = self._facts(table, target)

    def __enter__(self) -> Foundry:  # noqa: PYI034 - nothing inherits from it
        """Return the compiler."""
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """End its workers."""
        self._runner.close()

    def make(self, points: Sequence[Point]) -> Mapping[Point, CompiledPoint]:
        """Compile candidates in parallel, into one bundle for each call."""
        wanted = set(points)
        jobs = tuple(job for job in self._planned_kernel.jobs if job.variant.axes in wanted)
        outcomes = self._runner.compile(self._keys.keyed(jobs))
        failures = {
            job.variant.axes: outcome
            for job, outcome in zip(jobs, outcomes, strict=True)
            if isinstance(outcome, TilecError)
        }
        good = [
            (job, outcome)
            for job, outcome in zip(jobs, outcomes, strict=True)
            if isinstance(outcome, Done) and job.variant.axes not in failures
        ]
        compiled = {
            point: CompiledPoint(failure=_reason(failures[point]))
            for point in points
            if point in failures
        }
        if good:
            compiled.update(self._bundled(good))
        return compiled

    def _bundled(self, good: Sequence[tuple[Job, Done]]) -> Mapping[Point, CompiledPoint]:
        kernel = dataclasses.replace(self._planned_kernel, jobs=tuple(job for job, _ in good))
        plan = dataclasses.replace(self._plan, kernels=(kernel,))
        info = bundle_info(
            self._project, self._declared, plan, self._profile, outcomes=[done for _, done in good]
        )
        images = {done.info.digest: done.blob for _, done in good}
        self._count += 1
        path = self._folder / f"candidates-{self._count}.tilec"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bundle(path, info, lambda digest: images[digest].read())
        compiled: dict[Point, CompiledPoint] = {}
        for variant in info.kernels[0].variants:
            before = compiled.get(variant.axes, CompiledPoint(bundle=str(path)))
            compiled[variant.axes] = dataclasses.replace(
                before, variants=(*before.variants, variant)
            )
        return compiled

    def _planned(self, kernel: str, target: str) -> Plan:
        project = self._project
        plan = make_plan(
            project.manifest,
            self._declared.kernels,
            project.languages,
            project.sources,
            targets=(target,),
            select=(kernel,),
            profile=self._profile,
        )
        if not plan.kernels or not plan.jobs:
            raise UsageError(
                f"kernel {kernel!r} is not built for {target}", fix="name another one with --target"
            )
        return plan

    def _facts(self, kernel: Kernel, target: str) -> KernelFacts:
        planned = self._planned_kernel
        variants = tuple(dict.fromkeys(job.variant for job in planned.jobs))
        infos = tuple(VariantInfo(id=v.id, axes=v.axes, assume=v.assume) for v in variants)
        return KernelFacts(
            info=dataclasses.replace(planned.info, variants=infos),
            kernel_digest=digest_of(self._project, self._declared, kernel),
            space_digest=planned.space,
            toolchain=tuple(
                sorted(self._declared.tools[kernel.language], key=lambda tool: tool.name)
            ),
            target=target,
            sizes=sizes_of(kernel, planned.info),
        )


def sizes_of(kernel: Kernel, info: KernelInfo) -> tuple[str, ...]:
    """Return the expressions that distinguish launches: the manifest's, or all extents."""
    return kernel.sizes or size_expressions(info)


def _reason(error: TilecError) -> str:
    lines = error.what.strip().splitlines() or [type(error).__name__]
    return f"it does not compile: {lines[0]}"
