"""Make project and plan of a request, for builds, checks and `--list`."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tilec.compile import stamp
from tilec.compile.cache import Cache
from tilec.compile.declare import UNREADABLE, Declared, declare, look_at_sources
from tilec.compile.events import Observer
from tilec.compile.execute import JobRunner
from tilec.compile.keys import Change, KeyMaker, explain_change, recall
from tilec.compile.project import Project, look_at_project, open_project
from tilec.compile.remote.access import RemoteChoice
from tilec.compile.remote.session import RemoteCache
from tilec.frontends.base import ToolSearch
from tilec.manifest.files import reference_problems
from tilec.manifest.problems import order_of
from tilec.manifest.tuning_file import read_record
from tilec.manifest.types import Kernel
from tilec.plan import Plan, make_plan, near_job
from tilec.plan.targets import parse_targets
from tilec.plan.tuning import Tuned, kernel_digest
from tilec_runtime.errors import BuildError, Diagnostic, ManifestError, MissingError, UsageError

ASIDE, AGAIN = "run", "verify"  # in .tilec


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BuildRequest:
    """The options of a build.

    Attributes:
        manifest_path: path of tilec.toml.
        targets: names of targets or groups; empty takes the manifest's default.
        select: globs over job ids; empty selects everything.
        profile: name of the profile.
        workers: largest number of worker processes.
        scheduler: address of the Dask scheduler whose workers compile; empty for worker processes.
        fallback: compile on this machine the jobs that fail on the scheduler's workers.
        emit: outputs to write; empty takes the manifest's `output.emit`.
        cache_dir: directory of the cache, or None for no cache.
        cache_max: largest number of bytes in the cache.
        remote: the user's settings of a remote cache; None to ignore the manifest's too.
        search: search settings for tools.
        force: compile everything again.
        locked: refuse tools other than those in tilec.lock, and images with other bytes than
            pinned.
        aside: write only a bundle, in `.tilec/run`, of all variants of the kernels that a target
            concerns; the project's outputs, tilec.lock and records stay unchanged.
        again: write all outputs below `.tilec/verify`; the project stays unchanged as with
            `aside`.
        lineinfo: keep source lines in every profile.
    """

    manifest_path: Path
    targets: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    profile: str = "release"
    workers: int = 1
    scheduler: str = ""
    fallback: bool = False
    emit: tuple[str, ...] = ()
    cache_dir: Path | None = None
    cache_max: int = 8 << 30
    remote: RemoteChoice | None = None
    search: ToolSearch = dataclasses.field(default_factory=ToolSearch)
    force: bool = False
    locked: bool = False
    aside: bool = False
    again: bool = False
    lineinfo: bool = False

    @property
    def outside(self) -> bool:
        """Whether the project's outputs, tilec.lock and records stay unchanged."""
        return self.aside or self.again

    def open_cache(self, note: Callable[[str], None]) -> Cache:
        """Return the cache of the build."""
        return Cache(self.cache_dir, max_bytes=self.cache_max, note=note)


def project_of(request: BuildRequest) -> Project:
    """Return the project of a build, without the parts that the build does not need.

    Raises:
        ManifestError: with all problems of the manifest, or of the sources that it names.
    """
    project = open_project(request.manifest_path, request.search)
    if request.aside:
        return _written_to(_concerned_part(project, request.targets), ASIDE)
    return _written_to(project, AGAIN) if request.again else project


def _concerned_part(project: Project, targets: Sequence[str]) -> Project:
    """Leave out languages that make no code for the targets, whose tools may be missing.

    Raises:
        UsageError: a name is neither a target nor a group.
    """
    wanted = {target.kind for target in parse_targets(project.manifest, targets)}
    facts = project.languages.items()
    return part_of(
        project, {name for name, language in facts if wanted.intersection(language.kinds)}
    )


def part_of(project: Project, languages: Collection[str]) -> Project:
    """Return the project with the kernels of some languages: tools of others may be missing."""
    kernels = tuple(kernel for kernel in project.manifest.kernels if kernel.language in languages)
    names = {kernel.name for kernel in kernels}
    return dataclasses.replace(
        project,
        manifest=dataclasses.replace(project.manifest, kernels=kernels),
        frontends={name: f for name, f in project.frontends.items() if name in languages},
        classes={
            name: import_name for name, import_name in project.classes.items() if name in languages
        },
        sources={name: source for name, source in project.sources.items() if name in names},
    )


def _written_to(project: Project, folder: str) -> Project:
    """Return the project with its outputs in a folder of `.tilec`."""
    output = dataclasses.replace(project.manifest.output, dir=f".tilec/{folder}")
    manifest = dataclasses.replace(project.manifest, output=output)
    return dataclasses.replace(project, manifest=manifest)


def plan_only(request: BuildRequest, observer: Observer) -> Plan:
    """Return the plan of a build; declares sources, and compiles nothing."""
    return _planned(request, observer)[1]


def check(request: BuildRequest, observer: Observer) -> Plan:
    """Return the plan if the project, with references of cases, has no problems.

    All problems are reported together. Only problems of the manifest's text hide the others.

    Raises:
        ManifestError, BuildError: with all problems.
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
        plan = plan_of(project, declared, request) if declared.kernels else None
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
    """Return the rows of a job's cache key, and the changes since the last build.

    The changes are None if the last build did not have the job.

    Raises:
        UsageError: there is no such job.
    """
    project, plan, declared = _planned(request, observer)
    for job in plan.jobs:
        if job.id == job_id:
            new = KeyMaker(tools=declared.tools, inputs=declared.inputs).explain(job)
            record = stamp.record_key("keys", Path(project.manifest.root))
            old = recall(request.open_cache(observer.note).get_record(record), job_id)
            return new, None if old is None else explain_change(old, new)
    raise UsageError(
        f"no job {job_id!r}{near_job(job_id, plan)}", fix="`tilec build --list` prints the ids"
    )


def _planned(request: BuildRequest, observer: Observer) -> tuple[Project, Plan, Declared]:
    project = open_project(request.manifest_path, request.search)
    declared = _declared(project, request, observer, declare)
    declared.require_all()
    return project, plan_of(project, declared, request), declared


def _declared(
    project: Project, request: BuildRequest, observer: Observer, look: Callable[..., Declared]
) -> Declared:
    cache = request.open_cache(observer.note)
    # Do not write into the project: it may be read-only, or locked by a build.
    with tempfile.TemporaryDirectory(prefix="tilec-") as folder:
        spool, kept = Path(folder, "spool"), Path(folder, "failed")
        with runner_of(project, request, cache, observer, spool, kept) as runner:
            return look(project, runner, cache, select=request.select)


def runner_of(
    project: Project,
    request: BuildRequest,
    cache: Cache,
    observer: Observer,
    spool: Path,
    kept: Path,
    remote: RemoteCache | None = None,
) -> JobRunner:
    """Return the workers of a build; the last three are those of `JobRunner`."""
    return JobRunner(
        frontends=project.classes,
        search=project.search,
        cache=cache,
        workers=request.workers,
        scheduler=request.scheduler,
        fallback=request.fallback,
        remote=remote,
        observer=observer,
        spool=spool,
        kept=kept,
        timeout=project.manifest.toolchain.timeout,
    )


def plan_of(project: Project, declared: Declared, request: BuildRequest) -> Plan:
    """Return the plan of every kernel whose source can be read.

    Raises:
        ManifestError: with all problems of all kernels.
        UsageError: a target, profile or selection is unknown.
        BuildError: the same, and an unreadable source may be the cause.
    """
    manifest, targets = project.manifest, request.targets
    if request.lineinfo:
        profiles = tuple(dataclasses.replace(one, lineinfo=True) for one in manifest.profiles)
        manifest = dataclasses.replace(manifest, profiles=profiles)
    readable = tuple(kernel for kernel in manifest.kernels if kernel.name in declared.kernels)
    if readable != manifest.kernels:
        # With named targets, unmatched overrides are not noted: they may match a kernel whose
        # source cannot be read.
        targets = targets or ("default",)
        manifest = dataclasses.replace(manifest, kernels=readable)
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
            select=request.select,
            profile=request.profile,
            tuned=tuned,
            shipped=not request.aside,
        )
    except ManifestError as exc:
        raise ManifestError((*exc.problems, *lacking), fix=exc.fix) from exc
    except UsageError:
        declared.require_all()
        raise
    if lacking:
        raise ManifestError(lacking)
    passed = [
        f"{error.what}: passed over, since --select takes none of its kernels"
        for error in declared.passed_over
    ]
    return dataclasses.replace(plan, notes=(*plan.notes, *passed))


def tuning_files(
    project: Project, declared: Declared
) -> tuple[dict[str, Tuned], tuple[Diagnostic, ...]]:
    """Return the valid tuning files of the manifest, and the problems of the others."""
    manifest = project.manifest
    tuned: dict[str, Tuned] = {}
    problems: list[Diagnostic] = []
    for kernel in manifest.kernels:
        if not kernel.table or kernel.name not in declared.kernels:
            continue
        try:
            record = read_record(Path(manifest.root, kernel.table).read_bytes(), kernel.table)
        except OSError as error:
            message = f"{kernel.table!r} cannot be read: {error.strerror}"
            if isinstance(error, FileNotFoundError):
                message = f"no such file {kernel.table!r}: `tilec tune {kernel.name}` writes it; leave the key out until then"
            where = ("kernel", kernel.name, "dispatch", "table")
            problems.append(manifest.locate.problem(where, message))
        except ManifestError as error:
            problems.extend(
                dataclasses.replace(problem, hint=error.fix) for problem in error.problems
            )
        else:
            tuned[kernel.name] = Tuned(
                path=kernel.table,
                record=record,
                kernel_digest=digest_of(project, declared, kernel),
                tools=declared.tools[kernel.language],
            )
    return tuned, tuple(problems)


def digest_of(project: Project, declared: Declared, kernel: Kernel) -> str:
    """Return the digest that identifies a kernel of the manifest in a tuning record."""
    return kernel_digest(kernel, project.sources[kernel.name], declared.inputs[kernel.name])
