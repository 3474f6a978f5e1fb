"""The whole pipeline on one page: load, declare, plan, compile, bundle, publish."""

from __future__ import annotations

import dataclasses
import functools
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
from tilec.compile.events import Done, Observer
from tilec.compile.execute import KeyedJob, Pool
from tilec.compile.keys import Change, KeyMaker, explain_change, inputs_digest, recall
from tilec.compile.lockfile import NAME, Lock, Pin, read_lock
from tilec.compile.outputs import Output, fingerprint, save_outputs, unchanged_outputs
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
from tilec.compile.state import WorkDir
from tilec.frontends.base import BUILTIN, ToolSearch
from tilec.frontends.tools.environment import OWN
from tilec.frontends.tools.search import used as tools_used
from tilec.manifest.files import reference_problems
from tilec.manifest.problems import order_of
from tilec.manifest.types import Manifest
from tilec.package.marks import stale_outputs
from tilec.plan import Plan, make_plan, near_job
from tilec.plan.targets import parse_targets
from tilec_runtime.errors import (
    BuildError,
    Diagnostic,
    ManifestError,
    MissingError,
    TilecError,
    UsageError,
)
from tilec_runtime.model.kernel import BundleInfo

ASIDE = "run"  # in .tilec


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BuildRequest:
    """What is asked of a build.

    Attributes:
        manifest_path: the tilec.toml.
        targets: names of targets or groups; empty takes the manifest's default.
        select: globs over job ids; empty takes everything.
        profile: profile's name.
        workers: worker processes at most.
        emit: what to write; empty takes the manifest's `output.emit`.
        cache_dir: where compiled images are kept between builds, None for nowhere.
        cache_max: most bytes kept there.
        shared_cache: a cache that users share: gives what tilec.lock pins, and takes what is
            compiled; None for none.
        search: where tools are looked for.
        force: compile everything again.
        locked: refuse tools other than those in tilec.lock, and images of other bytes than it pins.
        aside: make a bundle alone, in `.tilec/run`, of the kernels that a target concerns. The
            project's outputs, tilec.lock and what is known of the last build stay as they are.
            Tuning files do not concern it: all variants are in it.
        lineinfo: keep source lines in the code, whatever the profile says; for a build aside, since
            outputs are those of a profile.
    """

    manifest_path: Path
    targets: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    profile: str = "release"
    workers: int = 1
    emit: tuple[str, ...] = ()
    cache_dir: Path | None = None
    cache_max: int = 8 << 30
    shared_cache: Path | None = None
    search: ToolSearch = dataclasses.field(default_factory=ToolSearch)
    force: bool = False
    locked: bool = False
    aside: bool = False
    lineinfo: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BuildResult:
    """What a build did.

    Attributes:
        outputs: what stands in the output directory now.
        info: the bundle's index; None where nothing had to be done.
        jobs, compiled, cached: how many jobs there are, were compiled, came from the cache.
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


def build(request: BuildRequest, observer: Observer) -> BuildResult:
    """Build a project; on any failure its last good outputs stay as they are.

    Raises:
        ManifestError, ToolchainError, BuildError, OutputError: see each; the exit code is theirs.
    """
    started, since = time.monotonic(), time.time_ns()
    project = open_project(request.manifest_path, request.search)
    if request.aside:
        project = _part(project, request.targets)
    work = WorkDir(root := Path(project.manifest.root))
    cache = Cache(
        request.cache_dir,
        max_bytes=request.cache_max,
        note=observer.note,
        shared=request.shared_cache,
    )
    with (
        work.lock(observer.note),
        _pool(project, request, cache, observer, spool=work.spool, kept=work.kept) as pool,
    ):
        declared = declare(project, pool, cache, fresh=request.force, select=request.select)
        lock = _lock(project, declared, request)
        plan = _plan_or_why(project, declared, request)
        if request.aside and not plan.jobs:
            return _nothing_done((), started, jobs=0)
        keyed = _keyed(plan, declared)
        pins = lock.pinned(request.profile, {k.job.id: k.key for k in keyed})
        cache.pins = {k.key: pins[k.job.id].row for k in keyed if k.job.id in pins}
        emit = ("bundle",) if request.aside else request.emit or project.manifest.output.emit
        draft = bundle_info(project, declared, plan, request.profile, outcomes=None)

        def digest_with(images: Mapping[str, Pin]) -> str:
            return fingerprint(
                _states(keyed, {} if request.aside else images), draft, emit, project.manifest
            )

        whole = not declared.unreadable and all(job.cacheable for job in plan.jobs)
        last = (
            unchanged_outputs(cache, digest_with(pins), root)
            if whole and not request.force
            else None
        )
        if last is not None and not stale_outputs(project.manifest, emit, last):
            _settle(
                project,
                declared,
                request,
                observer,
                cache,
                last,
                lock,
                None,
                jobs=len(keyed),
                since=since,
            )
            return _nothing_done(last, started, jobs=len(keyed), notes=plan.notes)
        outcomes = pool.compile(keyed, fresh=request.force, meanwhile=lambda: _prepare(emit))
        done = require_done(plan, outcomes, project.manifest.locate, declared)
        built = {
            k.job.id: Pin.of(k.key, one.info.digest, one.row)
            for k, one in zip(keyed, done, strict=True)
        }
        _require_pinned(lock, request, built, observer)
        info = bundle_info(project, declared, plan, request.profile, outcomes=done)
        from tilec.package.publish import (
            Publication,
            publish,
        )  # an up-to-date build writes nothing and should not wait for the templates

        images = {
            outcome.info.digest: (job, outcome) for job, outcome in zip(keyed, done, strict=True)
        }
        publication = Publication(
            info=info,
            plan=plan,
            done=done,
            read=lambda digest: pool.read(*images[digest]),
            emit=emit,
            manifest=project.manifest,
            scratch=work.path,
            owned=request.aside,
        )

        keys = KeyMaker(tools=declared.tools, inputs=declared.inputs).snapshot(plan.jobs)

        def remember(outputs: Sequence[Output]) -> None:
            work.note_end()
            save_outputs(cache, digest_with(built), root, outputs)
            if not request.aside:
                cache.put_record(stamp.record_key("keys", root), keys)

        outputs = publish(publication, note=observer.note, remember=remember)
        _settle(
            project,
            declared,
            request,
            observer,
            cache,
            outputs,
            lock,
            built,
            jobs=len(done),
            since=since,
        )
    return _result(plan, info, done, outputs, seconds=time.monotonic() - started)


def _result(
    plan: Plan,
    info: BundleInfo,
    done: Sequence[Done],
    outputs: tuple[Output, ...],
    *,
    seconds: float,
) -> BuildResult:
    """The result of a build that wrote its outputs."""
    compiled = sum(not outcome.cached for outcome in done)
    return BuildResult(
        outputs=outputs,
        info=info,
        jobs=len(done),
        compiled=compiled,
        cached=len(done) - compiled,
        seconds=seconds,
        up_to_date=False,
        warnings=tuple(dict.fromkeys(w for outcome in done for w in outcome.warnings)),
        notes=(
            *plan.notes,
            *beyond_min_driver(info),
            *never_compiled(info),
            *not_reproducible(plan.jobs, done),
        ),
    )


def _nothing_done(
    outputs: tuple[Output, ...], started: float, *, jobs: int, notes: tuple[str, ...] = ()
) -> BuildResult:
    """The result of a build whose outputs lie there already, or that has none."""
    seconds = time.monotonic() - started
    return BuildResult(
        outputs=outputs,
        info=None,
        jobs=jobs,
        compiled=0,
        cached=jobs,
        seconds=seconds,
        up_to_date=bool(outputs),
        notes=notes,
    )


def concerned(project: Project, targets: Sequence[str]) -> tuple[str, ...]:
    """Names of the kernels whose language makes something of the targets (names of targets or
    groups; none for the manifest's default).

    Raises:
        UsageError: a name is neither.
    """
    wanted = {target.kind for target in parse_targets(project.manifest, targets)}
    makes = {name: wanted.intersection(facts.kinds) for name, facts in project.languages.items()}
    return tuple(kernel.name for kernel in project.manifest.kernels if makes[kernel.language])


def _part(project: Project, targets: Sequence[str]) -> Project:
    """What a build aside makes of a project: without the other kernels' languages, whose tools may
    be missing.
    """
    names = concerned(project, targets)
    kernels = tuple(kernel for kernel in project.manifest.kernels if kernel.name in names)
    languages = {kernel.language for kernel in kernels}
    output = dataclasses.replace(project.manifest.output, dir=f".tilec/{ASIDE}")
    return dataclasses.replace(
        project,
        manifest=dataclasses.replace(project.manifest, kernels=kernels, output=output),
        frontends={
            name: frontend for name, frontend in project.frontends.items() if name in languages
        },
        classes={name: where for name, where in project.classes.items() if name in languages},
        sources={name: source for name, source in project.sources.items() if name in names},
    )


def _prepare(emit: Sequence[str]) -> None:
    """Load what writing outputs needs: an up-to-date build should not wait for it, any other can do
    it while its last jobs are compiled.
    """
    from tilec.package import publish, render

    if publish.HOLDS_PACKAGE.intersection(emit):
        render.package_templates()


def _lock(project: Project, declared: Declared, request: BuildRequest) -> Lock:
    """The project's tilec.lock; refuses other tools than its own where that was asked for."""
    lock = read_lock(Path(project.manifest.root))
    if request.locked and not request.aside:
        lock.require_tools(declared.tools)
    return lock


def _states(keyed: Sequence[KeyedJob], images: Mapping[str, Pin]) -> list[str]:
    """What each job's image depends on, and its bytes' digest by the lock: outputs are up to date
    with a lock that pins them alone.
    """
    return [f"{k.key} {images[k.job.id].image}" if k.job.id in images else k.key for k in keyed]


def _require_pinned(
    lock: Lock, request: BuildRequest, built: Mapping[str, Pin], observer: Observer
) -> None:
    """Where that was asked for, refuse images of other bytes than the lock pins, and say how many
    it does not pin.
    """
    if not request.locked or request.aside:
        return
    unpinned = lock.require_images(request.profile, built)
    if unpinned:
        jobs = "1 job" if unpinned == 1 else f"{unpinned} jobs"
        observer.note(
            f"tilec.lock pins no image of {jobs} as the sources are now: `tilec build` without --locked pins what it builds"
        )


def _settle(
    project: Project,
    declared: Declared,
    request: BuildRequest,
    observer: Observer,
    cache: Cache,
    outputs: Sequence[Output],
    lock: Lock,
    built: Mapping[str, Pin] | None,
    *,
    jobs: int,
    since: int,
) -> None:
    """Once all outputs are there: record the tools and images, which a build that fails leaves as
    they are, and what it looked at.
    """
    if request.aside:
        return
    if not request.locked:
        profiles = {profile.name for profile in project.manifest.profiles}

        @functools.cache
        def planned() -> frozenset[str]:
            return _every_job(project, declared, request, lock)

        def keep(profile: str, job: str) -> bool:
            return profile in profiles and (job in (built or ()) or job in planned())

        before = stamp.status_of(Path(project.manifest.root))
        lock.renew(
            declared.tools, profile=request.profile, built=built, keep=keep, note=observer.note
        )
    else:
        before = []
    _stamp(project, declared, request, cache, outputs, jobs=jobs, since=since, root_before=before)


def _every_job(
    project: Project, declared: Declared, request: BuildRequest, lock: Lock
) -> frozenset[str]:
    """Every job of the project for the targets that the lock has images of, whatever is selected
    now; all of the lock's in doubt.
    """
    pinned = frozenset(job for rows in lock.pins.values() for job in rows)
    targets = tuple(sorted({job.rpartition("-")[2] for job in pinned}))
    if declared.passed_over:
        return pinned
    try:
        plan = _plan(project, declared, dataclasses.replace(request, targets=targets, select=()))
    except TilecError:
        return pinned
    return frozenset(job.id for job in plan.jobs)


def _stamp(
    project: Project,
    declared: Declared,
    request: BuildRequest,
    cache: Cache,
    outputs: Sequence[Output],
    *,
    jobs: int,
    since: int,
    root_before: Sequence[int],
) -> None:
    """Let the next build see by file status alone that it has nothing to do, where file status says
    everything.
    """
    manifest = project.manifest
    # tilec's own code is looked at anyway.
    inputs = {
        file
        for files in declared.inputs.values()
        for file in files
        if not file.name.startswith(OWN)
    }
    names = {file.name for file in inputs}
    vague = any(file.name[0] == "<" for file in inputs)
    checked = not any(
        dict(source.options).get("unchecked-flags") for source in project.sources.values()
    )
    partial = declared.unreadable or declared.passed_over
    if (
        not checked
        or partial
        or vague
        or project.search.prefer != "wheels"
        or set(project.classes) - set(BUILTIN)
    ):
        return
    root = Path(manifest.root)
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
        cache,
        root,
        asked,
        jobs=jobs,
        since=since,
        read=[
            *(root / name for name in (*own, *names)),
            *(Path(path) for path in tools_used if Path(path).is_file()),
        ],
        searched=[root / folder for folder in include_folders(project)],
        written=[(output.kind, Path(output.path)) for output in outputs],
        kept=[root / NAME],
        output=root / manifest.output.dir,
        root_before=root_before,
    )


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
    project = open_project(request.manifest_path, request.search)
    declared = _declared(project, request, observer, declare)
    declared.require_all()
    return project, _plan(project, declared, request), declared


def _declared(
    project: Project, request: BuildRequest, observer: Observer, look: Callable[..., Declared]
) -> Declared:
    cache = Cache(request.cache_dir, max_bytes=request.cache_max, note=observer.note)
    # Nothing is written into a project that is only looked at: it may be read-only, or be locked by
    # a build.
    with tempfile.TemporaryDirectory(prefix="tilec-") as folder:
        spool, kept = Path(folder, "spool"), Path(folder, "failed")
        with _pool(project, request, cache, observer, spool=spool, kept=kept) as pool:
            return look(project, pool, cache, select=request.select)


def _pool(
    project: Project,
    request: BuildRequest,
    cache: Cache,
    observer: Observer,
    *,
    spool: Path,
    kept: Path,
) -> Pool:
    return Pool(
        frontends=project.classes,
        search=project.search,
        cache=cache,
        workers=request.workers,
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


def _plan_or_why(project: Project, declared: Declared, request: BuildRequest) -> Plan:
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


def _keyed(plan: Plan, declared: Declared) -> tuple[KeyedJob, ...]:
    maker = KeyMaker(tools=declared.tools, inputs=declared.inputs)
    inputs = {name: inputs_digest(files) for name, files in declared.inputs.items()}
    return tuple(
        KeyedJob(job=job, key=maker.key(job), inputs=inputs[job.spec.name]) for job in plan.jobs
    )
