"""The whole pipeline on one page: load, declare, plan, compile, bundle, publish.

skip      compile/stamp.py                       end the build if no file changed
load      manifest/load.py                       Manifest: frozen values with all defaults
open      compile/project.py                     Project: frontends, a Source per kernel
declare   compile/declare.py, in a worker        KernelDecl: the kernels of each source
plan      plan/__init__.py, plan/planner.py      Job: one variant for one target
key       compile/keys.py                        the cache key of each job
compare   package/outputs.py                     end the build if outputs are up to date
compile   compile/execute.py, pool.py, worker.py images, from the cache or from workers
assemble  compile/assemble.py                    the bundle's index, failures, budgets
publish   package/publish.py                     outputs, all written, then renamed at once
record    compile/lockfile.py, compile/stamp.py  tilec.lock, status of all files
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilec.compile import stamp
from tilec.compile.assemble import (
    beyond_min_driver,
    bundle_info,
    never_compiled,
    not_reproducible,
    require_done,
)
from tilec.compile.cache import Cache
from tilec.compile.declare import Declared, declare, may_select
from tilec.compile.events import Done, Observer
from tilec.compile.execute import JobRunner
from tilec.compile.keys import KeyedJob, KeyMaker
from tilec.compile.lockfile import NAME, Lock, Pin, read_lock
from tilec.compile.project import Project, include_folders
from tilec.compile.remote.access import resolve
from tilec.compile.remote.session import RemoteCache, open_remote
from tilec.compile.remote.usage import Usage
from tilec.compile.state import WorkDir
from tilec.frontends.base import BUILTIN
from tilec.frontends.tools.environment import OWN
from tilec.frontends.tools.search import used as tools_used
from tilec.model.atomic import Stage
from tilec.package.outputs import Output, fingerprint, save_outputs, unchanged_outputs
from tilec.package.provenance import Origin
from tilec.package.written import stale_outputs
from tilec.plan import Plan
from tilec.plan.targets import parse_targets
from tilec.planning import AGAIN, BuildRequest, plan_of, project_of, runner_of
from tilec_runtime.errors import Diagnostic
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.kernel import BundleInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BuildResult:
    """The result of a build.

    Attributes:
        outputs: outputs that are now in the output directory.
        info: the bundle index, or None if nothing was built.
        jobs: number of jobs.
        compiled: number of jobs that were compiled.
        cached: number of jobs that came from a cache.
        seconds: wall time.
        up_to_date: whether the outputs of the last build were valid.
        warnings: warnings of the compilers, each once.
        notes: notes on what the outputs lack, and why.
        remote: number of cached jobs that came from the remote cache.
        usage: traffic with the remote cache, or None without one.
    """

    outputs: tuple[Output, ...]
    info: BundleInfo | None
    jobs: int
    compiled: int
    cached: int
    seconds: float
    up_to_date: bool
    warnings: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    remote: int = 0
    usage: Usage | None = None


def build(request: BuildRequest, observer: Observer) -> BuildResult:
    """Build a project; a failed build leaves the previous outputs unchanged.

    Raises:
        ManifestError: the manifest or a source has problems.
        ToolchainError: a tool is missing, or does not match tilec.lock.
        BuildError: a job failed.
        OutputError: an output cannot be written.
    """
    started, started_ns = time.monotonic(), time.time_ns()
    project = project_of(request)
    names = [kernel.name for kernel in project.manifest.kernels]
    if request.aside and not any(may_select(request.select, name) for name in names):
        return _nothing_done((), started, jobs=0)
    work = WorkDir(Path(project.manifest.root))
    cache = request.open_cache(observer.note)
    remote = _open_remote(request, project, cache, observer)
    with (
        remote or contextlib.nullcontext(),  # exits last, to wait for uploads without the lock
        work.lock(observer.note),
        runner_of(project, request, cache, observer, work.spool, work.kept, remote) as runner,
    ):
        this = _planned(request, observer, project, cache, remote, runner, started_ns)
        if request.aside and not this.keyed:
            return _nothing_done((), started, jobs=0)
        outputs = this.unchanged_outputs()
        if outputs is not None:
            this.finish(outputs, built=None)
            return _nothing_done(outputs, started, jobs=len(this.keyed), notes=this.plan.notes)
        outcomes = runner.compile(
            this.keyed, fresh=request.force, meanwhile=lambda: _preload(this.emit)
        )
        done = require_done(this.plan, outcomes, project.manifest.locate, this.declared)
        built = {
            k.job.id: Pin.of(k.key, one.info.digest, one.row)
            for k, one in zip(this.keyed, done, strict=True)
        }
        this.require_pinned(built)
        info = bundle_info(project, this.declared, this.plan, request.profile, outcomes=done)
        outputs = this.publish(info, done, built, work)
        this.finish(outputs, built=built)
    compiled = sum(not outcome.cached for outcome in done)
    return BuildResult(
        outputs=outputs,
        info=info,
        jobs=len(done),
        compiled=compiled,
        cached=len(done) - compiled,
        seconds=time.monotonic() - started,
        up_to_date=False,
        warnings=tuple(dict.fromkeys(w for outcome in done for w in outcome.warnings)),
        notes=(
            *this.plan.notes,
            *beyond_min_driver(info),
            *never_compiled(info),
            *not_reproducible(this.plan.jobs, done),
        ),
        remote=sum(k.key in remote.fetched for k in this.keyed) if remote else 0,
        usage=remote.usage if remote else None,
    )


def _planned(
    request: BuildRequest,
    observer: Observer,
    project: Project,
    cache: Cache,
    remote: RemoteCache | None,
    runner: JobRunner,
    started_ns: int,
) -> _Build:
    """Declare the sources, plan the jobs and compute their cache keys.

    Raises:
        ManifestError, ToolchainError, BuildError: see `build`.
    """
    declared = declare(project, runner, cache, fresh=request.force, select=request.select)
    lock = read_lock(Path(project.manifest.root))
    if request.locked and not request.outside:
        lock.require_tools(declared.tools)
    plan = plan_of(project, declared, request)
    keys = KeyMaker(tools=declared.tools, inputs=declared.inputs)
    keyed = keys.keyed(plan.jobs)
    pins = lock.pinned(request.profile, {k.job.id: k.key for k in keyed})
    if remote:
        remote.pins = {k.key: pins[k.job.id].row for k in keyed if k.job.id in pins}
    return _Build(
        request=request,
        observer=observer,
        project=project,
        declared=declared,
        plan=plan,
        keys=keys,
        keyed=keyed,
        cache=cache,
        remote=remote,
        lock=lock,
        pins=pins,
        emit=("bundle",) if request.aside else request.emit or project.manifest.output.emit,
        started_ns=started_ns,
    )


def _open_remote(
    request: BuildRequest, project: Project, cache: Cache, observer: Observer
) -> RemoteCache | None:
    """Open the remote cache that the user or the manifest names; return None without one.

    Raises:
        UsageError: the user's settings are invalid.
    """
    if request.remote is None:
        return None
    named = project.manifest.cache
    access = resolve(request.remote, named.remote, named.remote_mode)
    if access is None or cache.root is None:
        return None
    return open_remote(access, cache, note=observer.note, wait=request.remote.wait)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Build:
    """A planned build: decides whether there is work, and writes outputs and records."""

    request: BuildRequest
    observer: Observer
    project: Project
    declared: Declared
    plan: Plan
    keys: KeyMaker
    keyed: tuple[KeyedJob, ...]
    cache: Cache
    remote: RemoteCache | None
    lock: Lock
    pins: Mapping[str, Pin]
    emit: tuple[str, ...]
    started_ns: int

    @property
    def root(self) -> Path:
        """The project's directory."""
        return Path(self.project.manifest.root)

    def fingerprint(self, images: Mapping[str, Pin]) -> str:
        """Return the digest of everything that the outputs depend on.

        It includes the digests of images pinned in tilec.lock, so that outputs with other bytes are
        not up to date.
        """
        states = [
            f"{k.key} {images[k.job.id].image}"
            if k.job.id in images and not self.request.outside
            else k.key
            for k in self.keyed
        ]
        draft = bundle_info(
            self.project, self.declared, self.plan, self.request.profile, outcomes=None
        )
        provenance = "provenance" in self.emit
        origin = dataclasses.astuple(self.origin(settings=False)) if provenance else ()
        return fingerprint(states, draft, self.emit, self.project.manifest, origin)

    def origin(self, *, settings: bool) -> Origin:
        """Return the request as recorded in the provenance, on request with the job settings."""
        manifest, request = self.project.manifest, self.request
        return Origin(
            manifest=(Path(manifest.path).name, sha256(Path(manifest.path).read_bytes())),
            targets=request.targets,
            select=request.select,
            emit=self.emit,
            settings=self.keys.settings(self.plan.jobs) if settings else {},
        )

    def unchanged_outputs(self) -> tuple[Output, ...] | None:
        """Return the outputs of the last build if this one would write the same, or None."""
        whole = not self.declared.unreadable and all(job.cacheable for job in self.plan.jobs)
        fills = self.remote is not None and self.remote.fills
        if self.request.force or not whole or fills:
            return None
        last = unchanged_outputs(self.cache, self.fingerprint(self.pins), self.root)
        if last is None or any(stale_outputs(self.project.manifest, self.emit, last).values()):
            return None
        return last

    def require_pinned(self, built: Mapping[str, Pin]) -> None:
        """With `locked`, compare images with tilec.lock, and note jobs without a pin.

        Raises:
            ToolchainError: an image has other bytes than pinned.
        """
        if not self.request.locked or self.request.outside:
            return
        unpinned = self.lock.require_images(self.request.profile, built)
        if unpinned:
            jobs = "1 job" if unpinned == 1 else f"{unpinned} jobs"
            self.observer.note(
                f"tilec.lock pins no image of {jobs} as the sources are now: `tilec build` without "
                "--locked pins what it builds"
            )

    def publish(
        self, info: BundleInfo, done: Sequence[Done], built: Mapping[str, Pin], work: WorkDir
    ) -> tuple[Output, ...]:
        """Write the outputs, and record them with the keys for `--explain`.

        Raises:
            OutputError: an output cannot be written; no output is replaced then.
        """
        # Templates load slowly, and an up-to-date build does not need them.
        from tilec.package.publish import Publication, put_in_place, stage_outputs, uninterrupted

        publication = Publication(
            info=info,
            blobs={one.info.digest: one.blob for one in done},
            emit=self.emit,
            manifest=self.project.manifest,
            scratch=work.file(AGAIN) if self.request.again else work.path,
            origin=self.origin(settings="provenance" in self.emit),
            owned=self.request.outside,
        )
        with Stage() as stage:
            outputs = stage_outputs(publication, stage)
            with uninterrupted():
                put_in_place(publication, stage, outputs, self.observer.note)
                save_outputs(self.cache, self.fingerprint(built), self.root, outputs)
                if not self.request.outside:
                    record = stamp.record_key("keys", self.root)
                    self.cache.put_record(record, self.keys.snapshot(self.plan.jobs))
        return outputs

    def finish(self, outputs: Sequence[Output], *, built: Mapping[str, Pin] | None) -> None:
        """Update tilec.lock and the stamp; a failed build changes neither."""
        if self.request.outside:
            return
        root_before: list[int] = []
        if not self.request.locked:
            root_before = stamp.status_of(self.root)
            self.lock.renew(
                self.declared.tools,
                profile=self.request.profile,
                built=built,
                keep=self._kept_pins(),
                note=self.observer.note,
            )
        self._stamp(outputs, root_before)

    def _kept_pins(self) -> Callable[[str, str], bool]:
        """Return a predicate over (profile, job): whether to keep a pin that was not renewed.

        A whole build for a target has all of the target's jobs, so its other pins are dropped. Pins
        of other targets and profiles are kept while the manifest has their kernel and profile.
        """
        manifest = self.project.manifest
        kernels = {kernel.name for kernel in manifest.kernels}
        profiles = {profile.name for profile in manifest.profiles}
        partial = self.request.select or self.declared.passed_over
        targets = set() if partial else {*map(str, parse_targets(manifest, self.request.targets))}

        def keep(profile: str, job: str) -> bool:
            built_now = profile == self.request.profile and job.rpartition("-")[2] in targets
            return not built_now and job.partition("-")[0] in kernels and profile in profiles

        return keep

    def _stamp(self, outputs: Sequence[Output], root_before: Sequence[int]) -> None:
        """Record file status, by which the next build sees that it has no work.

        Nothing is recorded if file status does not suffice, as with tools outside of wheels.
        """
        project, declared, request = self.project, self.declared, self.request
        manifest = project.manifest
        # The stamp always covers tilec's own code.
        names = {
            file.name
            for files in declared.inputs.values()
            for file in files
            if not file.name.startswith(OWN)
        }
        unchecked = any(
            dict(source.options).get("unchecked-flags") for source in project.sources.values()
        )
        if (
            unchecked
            or declared.unreadable
            or declared.passed_over
            or any(name[0] == "<" for name in names)
            or project.search.prefer != "wheels"
            or set(project.classes) - set(BUILTIN)
        ):
            return
        own = (
            Path(manifest.path).name,
            *((NAME,) if request.locked else ()),
            *manifest.package.license_files,
            *(kernel.table for kernel in manifest.kernels if kernel.table),
        )
        asked = stamp.question(
            own[0],
            targets=request.targets,
            select=request.select,
            profile=request.profile,
            emit=request.emit,
            places=(request.search.cuda_home, request.search.path),
        )
        stamp.take(
            self.cache,
            self.root,
            asked,
            jobs=len(self.keyed),
            since=self.started_ns,
            read=[
                *(self.root / name for name in (*own, *names)),
                *(Path(path) for path in tools_used if Path(path).is_file()),
            ],
            searched=[self.root / folder for folder in include_folders(project)],
            written=[(output.kind, Path(output.path)) for output in outputs],
            kept=[self.root / NAME],
            output=self.root / manifest.output.dir,
            root_before=root_before,
        )


def _nothing_done(
    outputs: tuple[Output, ...], started: float, *, jobs: int, notes: tuple[str, ...] = ()
) -> BuildResult:
    """Return the result of a build that is up to date, or that has no jobs."""
    return BuildResult(
        outputs=outputs,
        info=None,
        jobs=jobs,
        compiled=0,
        cached=jobs,
        seconds=time.monotonic() - started,
        up_to_date=bool(outputs),
        notes=notes,
    )


def _preload(emit: Sequence[str]) -> None:
    """Load the templates while the last jobs compile."""
    from tilec.package import publish, render

    if publish.HOLDS_PACKAGE.intersection(emit):
        render.package_templates()
