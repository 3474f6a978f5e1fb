"""The whole pipeline on one page: load, declare, plan, compile, bundle, publish."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
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
from tilec.compile.events import Observer
from tilec.compile.execute import JobRunner
from tilec.compile.keys import Change, KeyedJob, KeyMaker, explain_change, recall
from tilec.compile.lockfile import NAME, Lock, Pin, read_lock
from tilec.compile.project import (
    UNREADABLE,
    Declared,
    Project,
    declare,
    include_folders,
    look_at_project,
    look_at_sources,
    open_project,
    tuning_files,
)
from tilec.compile.remote.access import RemoteChoice, resolve
from tilec.compile.remote.session import RemoteCache, open_remote
from tilec.compile.remote.usage import Usage, record
from tilec.compile.state import WorkDir
from tilec.frontends.base import BUILTIN, ToolSearch
from tilec.frontends.tools.environment import OWN
from tilec.frontends.tools.search import used as tools_used
from tilec.manifest.files import reference_parameter_problems, reference_problems
from tilec.manifest.problems import order_of
from tilec.manifest.types import Manifest
from tilec.model.atomic import Stage
from tilec.model.declaration import KernelDecl
from tilec.package.outputs import Output, fingerprint, save_outputs, unchanged_outputs
from tilec.package.provenance import Origin
from tilec.package.written import stale_outputs
from tilec.plan import Plan, make_plan, near_job
from tilec.plan.targets import parse_targets
from tilec_runtime.errors import (
    BuildError,
    Diagnostic,
    ManifestError,
    MissingError,
    UsageError,
)
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.kernel import BundleInfo

ASIDE, AGAIN = "run", "verify"  # in .tilec


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BuildRequest:
    """What is asked of a build.

    Attributes:
        manifest_path: the tilec.toml; with `manifest_text` it is no file.
        targets: names of targets or groups; empty takes the manifest's default.
        select: globs over job ids; empty takes everything.
        profile: profile's name.
        workers: worker processes at most.
        scheduler: address of the Dask scheduler whose workers compile; empty for worker processes.
        fallback: compile here what the scheduler's workers do not.
        emit: what to write; empty takes the manifest's `output.emit`.
        cache_dir: where compiled images are kept between builds, None for nowhere.
        cache_max: most bytes kept there.
        shared_cache: a cache that users share: gives what tilec.lock pins, and takes what is
            compiled; None for none.
        remote: what the user says about the remote cache; None for none, whatever the manifest has.
        search: where tools are looked for.
        force: compile everything again.
        locked: refuse tools other than those in tilec.lock, and images of other bytes than it pins.
        aside: make a bundle alone, in `.tilec/run`, of the kernels that a target concerns. The
            project's outputs, tilec.lock and what is known of the last build stay as they are.
            Tuning files do not concern it: all variants are in it.
        again: write all outputs below `.tilec/verify`, as they would be in the output directory. The
            project stays as it is, as for a build aside.
        lineinfo: keep source lines in the code, whatever the profile says; for a build aside, since
            outputs are those of a profile.
    """

    manifest_path: Path
    manifest_text: str = ""
    targets: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    profile: str = "release"
    workers: int = 1
    scheduler: str = ""
    fallback: bool = False
    emit: tuple[str, ...] = ()
    cache_dir: Path | None = None
    cache_max: int = 8 << 30
    shared_cache: Path | None = None
    remote: RemoteChoice | None = None
    search: ToolSearch = dataclasses.field(default_factory=ToolSearch)
    force: bool = False
    locked: bool = False
    aside: bool = False
    again: bool = False
    lineinfo: bool = False

    @property
    def outside(self) -> bool:
        """Whether the project's outputs, tilec.lock and records stay as they are."""
        return self.aside or self.again


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BuildResult:
    """What a build did.

    Attributes:
        outputs: what stands in the output directory now.
        info: the bundle's index; None where nothing had to be done.
        jobs, compiled, cached: how many jobs there are, were compiled, came from a cache.
        remote: how many of the cached ones came from the remote cache.
        usage: what the remote cache gave and took; None where there is none.
        seconds: wall time.
        up_to_date: the outputs of the last build were still right.
        warnings: of the compilers, each once.
        notes: what was left out and why.
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
    """Build a project; on any failure its last good outputs stay as they are.

    Raises:
        ManifestError, ToolchainError, BuildError, OutputError: the exit code is the error's.
    """
    started, started_ns = time.monotonic(), time.time_ns()
    project = open_project(request.manifest_path, request.search, request.manifest_text)
    if request.aside:
        project = _concerned_part(project, request.targets)
    elif request.again:
        project = _written_to(project, AGAIN)
    work = WorkDir(Path(project.manifest.root))
    cache = Cache(
        request.cache_dir,
        max_bytes=request.cache_max,
        note=observer.note,
        shared=request.shared_cache,
    )
    remote = _open_remote(request, project, cache, observer)
    with (
        remote or contextlib.nullcontext(),  # left last: nobody waits for uploads with a lock
        work.lock(observer.note),
        _runner(project, request, cache, observer, work.spool, work.kept) as runner,
    ):
        declared = declare(project, runner, cache, fresh=request.force, select=request.select)
        lock = read_lock(Path(project.manifest.root))
        if request.locked and not request.outside:
            lock.require_tools(declared.tools)
        plan = _plan_or_unreadable(project, declared, request)
        if request.aside and not plan.jobs:
            return _nothing_done((), started, jobs=0)
        keys = KeyMaker(tools=declared.tools, inputs=declared.inputs)
        keyed = keys.keyed(plan.jobs)
        pins = lock.pinned(request.profile, {k.job.id: k.key for k in keyed})
        cache.pins = {k.key: pins[k.job.id].row for k in keyed if k.job.id in pins}
        emit = ("bundle",) if request.aside else request.emit or project.manifest.output.emit
        this = _Build(
            request=request,
            observer=observer,
            project=project,
            declared=declared,
            plan=plan,
            keyed=keyed,
            cache=cache,
            lock=lock,
            emit=emit,
            started_ns=started_ns,
        )
        outputs = this.unchanged_outputs(pins)
        if outputs is not None:
            this.finish(outputs, built=None)
            return _nothing_done(outputs, started, jobs=len(keyed), notes=plan.notes)
        outcomes = runner.compile(keyed, fresh=request.force, meanwhile=lambda: _preload(emit))
        done = require_done(plan, outcomes, project.manifest.locate, declared)
        built = {
            k.job.id: Pin.of(k.key, one.info.digest, one.row)
            for k, one in zip(keyed, done, strict=True)
        }
        this.require_pinned(built)
        info = bundle_info(project, declared, plan, request.profile, outcomes=done)
        # Templates load slowly, and an up-to-date build writes nothing.
        from tilec.package.publish import Publication, put_in_place, stage_outputs, uninterrupted

        publication = Publication(
            info=info,
            plan=plan,
            done=done,
            blobs={one.info.digest: one.blob for one in done},
            emit=emit,
            manifest=project.manifest,
            scratch=work.file(AGAIN) if request.again else work.path,
            origin=this.origin(keys),
            owned=request.outside,
        )
        with Stage() as stage:
            outputs = stage_outputs(publication, stage)
            with uninterrupted():
                put_in_place(publication, stage, outputs, observer.note)
                work.note_end()
                this.save(outputs, built, keys)
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
            *plan.notes,
            *beyond_min_driver(info),
            *never_compiled(info),
            *not_reproducible(plan.jobs, done),
        ),
        remote=sum(k.key in cache.fetched for k in keyed),
        usage=remote.usage if remote else None,
    )


def _open_remote(
    request: BuildRequest, project: Project, cache: Cache, observer: Observer
) -> RemoteCache | None:
    """Connect the cache with the remote one that the user or the manifest names, if any does.

    Raises:
        UsageError: what the user says about it makes no sense.
    """
    if request.remote is None:
        return None
    named = project.manifest.cache
    access = resolve(request.remote, named.remote, named.remote_mode)
    if access is None or cache.root is None:
        return None
    remote = open_remote(
        access,
        note=observer.note,
        ended=lambda usage: record(cache, usage),
        wait=request.remote.wait,
    )
    cache.remote = remote
    return remote


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Build:
    """A planned build: everything that decides whether it has work, and what it leaves behind."""

    request: BuildRequest
    observer: Observer
    project: Project
    declared: Declared
    plan: Plan
    keyed: tuple[KeyedJob, ...]
    cache: Cache
    lock: Lock
    emit: tuple[str, ...]
    started_ns: int

    @property
    def root(self) -> Path:
        """The project's directory."""
        return Path(self.project.manifest.root)

    def fingerprint(self, images: Mapping[str, Pin]) -> str:
        """Return the digest of everything that the outputs depend on.

        The images' digests are part of it where tilec.lock pins them, so that outputs with other
        bytes are not up to date.
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
        origin = dataclasses.astuple(self.origin()) if "provenance" in self.emit else ()
        return fingerprint(states, draft, self.emit, self.project.manifest, origin)

    def origin(self, keys: KeyMaker | None = None) -> Origin:
        """What was asked of the build, for its provenance; settings are left out without `keys`."""
        manifest, request = self.project.manifest, self.request
        text = request.manifest_text.encode()
        return Origin(
            manifest=(Path(manifest.path).name, sha256(text or Path(manifest.path).read_bytes())),
            targets=request.targets,
            select=request.select,
            emit=self.emit,
            settings=keys.settings(self.plan.jobs) if keys and "provenance" in self.emit else {},
        )

    def unchanged_outputs(self, pins: Mapping[str, Pin]) -> tuple[Output, ...] | None:
        """Return the outputs of an earlier build if this one would write the same."""
        whole = not self.declared.unreadable and all(job.cacheable for job in self.plan.jobs)
        fills = self.cache.remote is not None and self.cache.remote.fills
        if self.request.force or not whole or fills:
            return None
        last = unchanged_outputs(self.cache, self.fingerprint(pins), self.root)
        if last is None or any(stale_outputs(self.project.manifest, self.emit, last).values()):
            return None
        return last

    def require_pinned(self, built: Mapping[str, Pin]) -> None:
        """With `locked`, refuse images of other bytes than the lock pins; note unpinned jobs.

        Raises:
            ToolchainError: images differ.
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

    def save(self, outputs: Sequence[Output], built: Mapping[str, Pin], keys: KeyMaker) -> None:
        """Record outputs that were put in place, and the keys for `--explain`."""
        save_outputs(self.cache, self.fingerprint(built), self.root, outputs)
        if not self.request.outside:
            record = stamp.record_key("keys", self.root)
            self.cache.put_record(record, keys.snapshot(self.plan.jobs))

    def finish(self, outputs: Sequence[Output], *, built: Mapping[str, Pin] | None) -> None:
        """Renew tilec.lock and the stamp; a build that fails leaves both as they are."""
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
        """Return a test whether a pin, by profile and job, that was not renewed is to be kept.

        A build of everything for a target names all of its jobs. Of other targets and profiles,
        the pins of kernels and profiles that the manifest still has are kept.
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
        """Let the next build see by file status that it has no work, where file status suffices."""
        project, declared, request = self.project, self.declared, self.request
        manifest = project.manifest
        # tilec's own code is looked at anyway.
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
    """Return the result of a build whose outputs are up to date, or that has none."""
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
    """Load the templates while the last jobs are compiled."""
    from tilec.package import publish, render

    if publish.HOLDS_PACKAGE.intersection(emit):
        render.package_templates()


def concerned(project: Project, targets: Sequence[str]) -> tuple[str, ...]:
    """Names of the kernels whose language makes something of the targets (names of targets or
    groups; none for the manifest's default).

    Raises:
        UsageError: a name is neither.
    """
    wanted = {target.kind for target in parse_targets(project.manifest, targets)}
    makes = {name: wanted.intersection(facts.kinds) for name, facts in project.languages.items()}
    return tuple(kernel.name for kernel in project.manifest.kernels if makes[kernel.language])


def _concerned_part(project: Project, targets: Sequence[str]) -> Project:
    """What a build aside makes of a project: without the other kernels' languages, whose tools may
    be missing.
    """
    names = concerned(project, targets)
    kernels = tuple(kernel for kernel in project.manifest.kernels if kernel.name in names)
    languages = {kernel.language for kernel in kernels}
    project = _written_to(project, ASIDE)
    return dataclasses.replace(
        project,
        manifest=dataclasses.replace(project.manifest, kernels=kernels),
        frontends={
            name: frontend for name, frontend in project.frontends.items() if name in languages
        },
        classes={name: where for name, where in project.classes.items() if name in languages},
        sources={name: source for name, source in project.sources.items() if name in names},
    )


def _written_to(project: Project, folder: str) -> Project:
    """A project whose outputs go to a folder of `.tilec`."""
    output = dataclasses.replace(project.manifest.output, dir=f".tilec/{folder}")
    manifest = dataclasses.replace(project.manifest, output=output)
    return dataclasses.replace(project, manifest=manifest)


def plan_only(request: BuildRequest, observer: Observer) -> Plan:
    """The plan of a build, without compiling (sources are still declared, which may run a
    compiler's front end).
    """
    return _planned(request, observer)[1]


def check(request: BuildRequest, observer: Observer) -> Plan:
    """The plan, if nothing is wrong with the project: references of cases included, which a run
    would miss on another machine.

    What is wrong in one place hides nothing that is wrong in another, but for the manifest's own
    text, without which nothing else is known.

    Raises:
        ManifestError, BuildError: every problem.
    """
    project, lacking = look_at_project(request.manifest_path, request.search)
    problems = [*lacking, *reference_problems(project.manifest)]
    try:
        declared = _declared(project, request, observer, look_at_sources)
    except MissingError as exc:
        if problems:
            raise ManifestError(tuple(problems)) from exc
        raise
    problems += declared.unknown
    plan, fix = None, ""
    try:
        plan = _plan(project, declared, request) if declared.kernels else None
    except ManifestError as exc:
        problems += exc.problems
        fix = exc.fix
    for planned in plan.kernels if plan else ():
        info = planned.info
        names = (*(param.name for param in info.params), *info.list_counts, *dict(info.axes))
        known = {info.name: names}
        problems += reference_parameter_problems(project.manifest, known)
    problems.sort(key=lambda problem: order_of(problem, project.manifest.locate.file))
    if declared.unreadable:
        failed = BuildError(declared.unreadable, total=declared.sources, what=UNREADABLE)
        if not problems:
            raise failed
        problems += failed.problems
    if problems or plan is None:
        raise ManifestError(tuple(problems), fix=fix)
    return plan


def explain(
    request: BuildRequest, job_id: str, observer: Observer
) -> tuple[tuple[tuple[str, str], ...], tuple[Change, ...] | None]:
    """What is hashed for a job, and what of it changed since the last build (None where the last
    build did not have the job).

    Raises:
        UsageError: there is no such job.
    """
    project, plan, declared = _planned(request, observer)
    for job in plan.jobs:
        if job.id == job_id:
            new = KeyMaker(tools=declared.tools, inputs=declared.inputs).explain(job)
            cache = Cache(request.cache_dir, max_bytes=request.cache_max, note=observer.note)
            old = recall(
                cache.get_record(stamp.record_key("keys", Path(project.manifest.root))), job_id
            )
            return new, None if old is None else explain_change(old, new)
    raise UsageError(
        f"no job {job_id!r}{near_job(job_id, plan)}", fix="`tilec build --list` prints the ids"
    )


def _planned(request: BuildRequest, observer: Observer) -> tuple[Project, Plan, Declared]:
    project = open_project(request.manifest_path, request.search, request.manifest_text)
    declared = _declared(project, request, observer, declare)
    declared.require_all()
    return project, _plan(project, declared, request), declared


def declarations(request: BuildRequest, observer: Observer) -> Mapping[str, KernelDecl]:
    """Return the declaration of each kernel; nothing is planned.

    Raises:
        ManifestError, BuildError: a source cannot be read, or has not the kernel.
    """
    project = open_project(request.manifest_path, request.search, request.manifest_text)
    declared = _declared(project, request, observer, declare)
    declared.require_all()
    return declared.kernels


def _declared(
    project: Project, request: BuildRequest, observer: Observer, look: Callable[..., Declared]
) -> Declared:
    cache = Cache(request.cache_dir, max_bytes=request.cache_max, note=observer.note)
    # Nothing is written into a project that is only looked at: it may be read-only, or be locked by
    # a build.
    with tempfile.TemporaryDirectory(prefix="tilec-") as folder:
        spool, kept = Path(folder, "spool"), Path(folder, "failed")
        with _runner(project, request, cache, observer, spool, kept) as runner:
            return look(project, runner, cache, select=request.select)


def _runner(
    project: Project,
    request: BuildRequest,
    cache: Cache,
    observer: Observer,
    spool: Path,
    kept: Path,
) -> JobRunner:
    return JobRunner(
        frontends=project.classes,
        search=project.search,
        cache=cache,
        workers=request.workers,
        scheduler=request.scheduler,
        fallback=request.fallback,
        observer=observer,
        spool=spool,
        kept=kept,
        timeout=project.manifest.toolchain.timeout,
    )


def _plan(project: Project, declared: Declared, request: BuildRequest) -> Plan:
    """The plan of every kernel whose source can be read."""
    manifest, targets = project.manifest, request.targets
    if request.lineinfo:
        manifest = dataclasses.replace(
            manifest,
            profiles=tuple(dataclasses.replace(one, lineinfo=True) for one in manifest.profiles),
        )
    select = request.select
    if request.aside:
        manifest, select = _made(manifest, declared, request, project)
    if any(kernel.name not in declared.kernels for kernel in manifest.kernels):
        targets = targets or (
            "default",
        )  # named: then nothing is said of overrides, which may well match what cannot be read
        manifest = dataclasses.replace(
            manifest,
            kernels=tuple(kernel for kernel in manifest.kernels if kernel.name in declared.kernels),
        )
    tuned, lacking = tuning_files(project, declared)
    if request.aside:
        lacking = ()
    try:
        plan = make_plan(
            manifest,
            declared.kernels,
            project.languages,
            project.sources,
            targets=targets,
            select=select,
            profile=request.profile,
            tuned=tuned,
            shipped=not request.aside,
        )
    except ManifestError as exc:
        raise ManifestError((*exc.problems, *lacking), fix=exc.fix) from exc
    if lacking:
        raise ManifestError(lacking)
    passed = [
        f"{error.what}: passed over, since --select takes none of its kernels"
        for error in declared.passed_over
    ]
    return dataclasses.replace(plan, notes=(*plan.notes, *passed))


def _plan_or_unreadable(project: Project, declared: Declared, request: BuildRequest) -> Plan:
    """The plan; where there is none, sources that cannot be read are told first: they may be what
    is behind it.
    """
    try:
        return _plan(project, declared, request)
    except UsageError:
        declared.require_all()
        raise


def _made(
    manifest: Manifest, declared: Declared, request: BuildRequest, project: Project
) -> tuple[Manifest, tuple[str, ...]]:
    """What a build aside and its `--select` keep: not the kernels whose source, a compiled file,
    gives nothing for the targets.
    """
    wanted = {target.kind for target in parse_targets(manifest, request.targets)}
    facts = {kernel.name: project.languages[kernel.language] for kernel in manifest.kernels}
    useless = {
        name
        for name, decl in declared.kernels.items()
        if not wanted.intersection(facts[name].of(decl).kinds)
    }
    select = tuple(glob for glob in request.select if glob not in useless)
    kernels = tuple(kernel for kernel in manifest.kernels if kernel.name not in useless)
    return dataclasses.replace(
        manifest, kernels=kernels if select or not request.select else ()
    ), select
