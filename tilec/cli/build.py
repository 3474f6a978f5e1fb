"""`tilec build`: compile the kernels, and show the written files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import (
    App,
    StoppedError,
    examples,
    jobs_option,
    json_option,
    refuse,
    split_words,
    words_among,
)
from tilec.cli.complete import completes, kernels_of, profiles_of
from tilec.cli.schedulers import parse_scheduler, scheduler_options
from tilec.cli.settings import TRUST
from tilec.cli.style import style
from tilec.cli.tables import Cell, bytes_text, count_text, plural, seconds_text
from tilec.cli.targets import targets_option
from tilec_runtime.errors import UsageError

if TYPE_CHECKING:
    from tilec.build import BuildResult
    from tilec.compile.keys import Change
    from tilec.compile.remote.access import RemoteChoice
    from tilec.compile.stamp import Untouched
    from tilec.inspection.report import KernelSummary
    from tilec.model.job import Job
    from tilec.package.outputs import Output
    from tilec.planning import BuildRequest

EMIT = ("bundle", "package", "wheel", "sbom", "provenance", "hub", "fatbin", "cubin", "ptx")
WARNINGS_SHOWN = 10


@click.command(
    epilog=examples(
        "tilec build",
        "tilec build --targets ci            # a group of [targets]",
        "tilec build --targets sm_90,compute_80",
        "tilec build --select 'gemm-*' -j 4 --profile debug",
        "tilec build --emit wheel,fatbin",
        "tilec build --list --json           # the plan; nothing is compiled",
        "tilec build --explain gemm-f16-BM128-sm_90",
    )
    + "\n\nExit codes: 0 built, 1 a kernel does not compile or exceeds its budget, 2 error in the command "
    "line or manifest, 3 a compiler is missing, 130 interrupted. Outputs are written only if every job "
    "succeeds.",
)
@targets_option("Targets or groups, separated by commas (default: [targets] default).")
@click.option(
    "--select",
    multiple=True,
    callback=split_words,
    metavar="GLOB",
    shell_complete=completes(kernels_of),
    help="Build only jobs whose id, variant or kernel matches.",
)
@click.option(
    "--profile",
    default="release",
    show_default=True,
    metavar="NAME",
    shell_complete=completes(profiles_of),
    help="Build profile.",
)
@jobs_option
@scheduler_options
@click.option(
    "--emit",
    multiple=True,
    callback=words_among(EMIT),
    metavar="LIST",
    shell_complete=completes(lambda _: EMIT),
    help=f"Outputs to write: {', '.join(EMIT)}.",
)
@click.option("--force", is_flag=True, help="Compile every job, also those in the cache.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
@click.option(
    "--remote-cache",
    metavar="URL",
    help="Also use a remote cache (default: TILEC_REMOTE_CACHE, then [cache] of the manifest, then TILEC_SHARED_CACHE).",
)
@click.option(
    "--remote-mode",
    type=click.Choice(("off", "read", "write", "fill")),
    metavar="MODE",
    help="off; read; write: read, and upload new images; fill: also upload images of the private cache "
    "(default: TILEC_REMOTE_MODE, then read).",
)
@click.option(
    "--remote-trust",
    type=click.Choice(TRUST),
    metavar="WHO",
    help="pinned: use only images that tilec.lock pins; own: use every image, for a remote cache that only "
    "your builds write to (default: TILEC_REMOTE_TRUST, then pinned).",
)
@click.option(
    "--remote-wait",
    type=click.FloatRange(0, 86400),
    metavar="SECS",
    help="Time to wait for uploads at the end, in seconds (default: 60).",
)
@click.option(
    "--locked",
    is_flag=True,
    help="Fail if a tool differs from tilec.lock, or an image from its pin.",
)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="Print the planned jobs and compile nothing. Modules of kernels are imported.",
)
@click.option(
    "--explain",
    metavar="ID",
    help="Print what decides whether a job is compiled again. Modules of kernels are imported.",
)
@json_option
@click.pass_obj
def command(
    app: App,
    targets: tuple[str, ...],
    select: tuple[str, ...],
    profile: str,
    jobs: int | None,
    scheduler: str | None,
    fallback: str | None,
    emit: tuple[str, ...],
    force: bool,
    no_cache: bool,
    remote_cache: str | None,
    remote_mode: str | None,
    remote_trust: str | None,
    remote_wait: float | None,
    locked: bool,
    listing: bool,
    explain: str | None,
) -> None:
    """Compile the kernels of tilec.toml into one bundle and a typed Python package. No GPU is
    needed.

    Only changed jobs are compiled; the images of the others come from the cache. A job is one
    variant for one target, such as gemm-f16-BM128-sm_90.
    """
    plain = not (force or no_cache or locked or listing or explain or app.json or app.verbose)
    if plain:
        last = untouched(app, targets=targets, select=select, profile=profile, emit=emit)
        if last is not None:
            done = style("up to date", fg="green", bold=True)
            app.say(f"{done} ({plural(last.jobs, 'job')}, untouched)")
            return
    refuse((listing and explain, "--list and --explain cannot be combined"))
    request = make_request(
        app,
        targets=targets,
        select=select,
        profile=profile,
        workers=jobs,
        scheduler=scheduler,
        fallback=fallback is not None,
        emit=emit,
        force=force,
        cached=not no_cache,
        remote=app.settings.remote(
            url=remote_cache or "",
            mode=remote_mode or "",
            trust=remote_trust or "",
            wait=remote_wait,
        ),
        locked=locked,
    )
    if listing:
        _list(app, request)
    elif explain:
        _explain(app, request, explain)
    else:
        _build(app, request)


def untouched(
    app: App,
    *,
    targets: tuple[str, ...] = (),
    select: tuple[str, ...] = (),
    profile: str = "release",
    emit: tuple[str, ...] = (),
) -> Untouched | None:
    """Return the last build if it had the same request and no file has changed since.

    It does not import the build pipeline, so that an up-to-date build is fast.
    """
    from tilec.compile import stamp

    manifest, settings = app.manifest_path(), app.settings
    tool_paths = (settings.cuda_home, settings.path)
    question = stamp.question(
        manifest.name, targets=targets, select=select, profile=profile, emit=emit, places=tool_paths
    )
    return stamp.fresh(settings.cache_dir, manifest.parent, question)


def make_request(
    app: App,
    *,
    targets: tuple[str, ...] = (),
    select: tuple[str, ...] = (),
    profile: str = "release",
    workers: int | None = None,
    scheduler: str | None = None,
    fallback: bool = False,
    emit: tuple[str, ...] = (),
    force: bool = False,
    cached: bool = True,
    remote: RemoteChoice | None = None,
    locked: bool = False,
    aside: bool = False,
    again: bool = False,
    lineinfo: bool = False,
) -> BuildRequest:
    """Return a build request for the project at hand.

    Raises:
        UsageError: there is no manifest, or TILEC_CACHE_MAX or the scheduler is invalid.
        MissingError: the scheduler needs Dask, which is not installed.
    """
    if scheduler is None:
        processes, address = parse_scheduler(app.settings.scheduler, name="TILEC_SCHEDULER")
    else:
        processes, address = parse_scheduler(scheduler, name="--scheduler")
        if processes and workers:
            raise UsageError(f"--scheduler {scheduler} and --jobs both say how many compilers run")
    manifest_path, settings = app.manifest_path(), app.settings
    cache_max = settings.cache_bytes
    from tilec.planning import BuildRequest

    search = settings.search
    if locked:  # hash the tools' files, without remembered digests
        search = dataclasses.replace(search, state_dir="", verify=True)
    return BuildRequest(
        manifest_path=manifest_path,
        targets=targets,
        select=select,
        profile=profile,
        workers=workers or processes or settings.cores,
        scheduler=address,
        fallback=fallback,
        emit=emit,
        cache_dir=settings.cache_dir if cached else None,
        cache_max=cache_max,
        remote=(remote or settings.remote()) if cached else None,
        search=search,
        force=force,
        locked=locked,
        aside=aside,
        again=again,
        lineinfo=lineinfo,
    )


def _build(app: App, request: BuildRequest) -> None:
    from tilec import build
    from tilec.cli import progress

    cache = request.cache_dir or "off"
    where = request.scheduler or f"{request.workers} at once"
    app.detail(f"manifest {app.show(request.manifest_path)}, {where}, cache {cache}")
    try:
        result = build.build(request, progress.observer(app))
    except KeyboardInterrupt:
        raise StoppedError("interrupted: a build writes every output, or none") from None
    if app.json:
        app.document("build", _result_json(result))
    else:
        _print_result(app, result)


def _print_result(app: App, result: BuildResult) -> None:
    _print_warnings(app, result)
    for text in result.notes if app.verbose or not result.up_to_date else ():
        app.note(f"note: {text}")
    jobs, seconds = plural(result.jobs, "job"), seconds_text(result.seconds)
    if result.up_to_date:
        app.say(f"{style('up to date', fg='green', bold=True)} ({jobs}, {seconds})")
        return
    from tilec.inspection.report import summarize

    print_kernels(app, map(summarize, result.info.kernels if result.info else ()))
    app.say()
    app.table(("output", "~path", ">size", ""), _output_rows(app, result.outputs))
    app.say()
    local = result.cached - result.remote
    cached = f", {local} cached" if local else ""
    cached += f", {result.remote} from the remote cache" if result.remote else ""
    built = style("built", fg="green", bold=True)
    app.say(f"{built} {jobs}: {result.compiled} compiled{cached}, {seconds}")
    package = next((output for output in result.outputs if output.kind == "package"), None)
    if package is not None:
        _say_how_to_import(app, Path(package.path).parent)


def _say_how_to_import(app: App, package: Path) -> None:
    project = app.manifest_path().parent
    folder, name = package.parent, package.name
    # A package built into a package of the user is a part of it.
    while (folder / "__init__.py").is_file():
        folder, name = folder.parent, f"{folder.name}.{name}"
    path = f"PYTHONPATH={app.show(folder)}"
    if (project / "pyproject.toml").is_file():
        path = f"pip install -e {app.show(project)}, or {path}"
    app.say(f"to import {name}: {path}")


def print_kernels(app: App, kernels: Iterable[KernelSummary]) -> None:
    """Print a table of kernels and their resources, with spills highlighted."""
    rows: list[list[Cell]] = [
        [
            kernel.name,
            str(kernel.variants),
            str(kernel.images),
            count_text(kernel.usage.registers),
            (bytes_text(kernel.usage.spills), "yellow" if kernel.usage.spills else ""),
            bytes_text(kernel.usage.shared),
            bytes_text(kernel.usage.stack),
            bytes_text(kernel.size),
        ]
        for kernel in kernels
    ]
    titles = ("~kernel", ">variants", ">images", ">regs", ">spills", ">shared", ">stack", ">size")
    app.table(titles, rows)


def _output_rows(app: App, outputs: Sequence[Output]) -> list[list[Cell]]:
    """Return a row per kind and directory, with a file's name or the number of files."""
    groups: dict[tuple[str, Path], list[Output]] = {}
    for output in outputs:
        folder = Path(output.path).parent
        if output.kind == "hub":
            folder = next(one for one in Path(output.path).parents if one.name == "build")
        groups.setdefault((output.kind, folder), []).append(output)
    rows: list[list[Cell]] = []
    for (kind, directory), members in groups.items():
        one = len(members) == 1 and kind != "package"
        name = app.show(members[0].path) if one else f"{app.show(directory)}/"
        count = "" if one else plural(len(members), "file")
        state = "" if any(member.changed for member in members) else "unchanged"
        size = bytes_text(sum(member.size for member in members))
        rows.append([kind, name, size, ", ".join(filter(None, (count, state)))])
    return rows


def _print_warnings(app: App, result: BuildResult) -> None:
    from tilec.cli.failures import diagnostic_text

    different = list(dict.fromkeys(result.warnings))
    shown = different if app.verbose else different[:WARNINGS_SHOWN]
    for warning in shown:
        app.note(diagnostic_text(warning, app.show))
    if len(shown) < len(different):
        more = plural(len(different) - len(shown), "more warning")
        app.note(f"… and {more} (--verbose shows them)")


def _result_json(result: BuildResult) -> dict[str, Any]:
    from tilec.cli.failures import diagnostic_json
    from tilec.inspection.report import kernel_json

    return {
        "ok": True,
        "up_to_date": result.up_to_date,
        "jobs": result.jobs,
        "compiled": result.compiled,
        "cached": result.cached,
        "remote": dataclasses.asdict(result.usage) if result.usage else None,
        "seconds": round(result.seconds, 3),
        "outputs": [
            {"kind": o.kind, "path": str(o.path), "size": o.size, "changed": o.changed}
            for o in result.outputs
        ],
        "kernels": [kernel_json(kernel) for kernel in result.info.kernels] if result.info else None,
        "warnings": [diagnostic_json(warning) for warning in dict.fromkeys(result.warnings)],
        "notes": list(result.notes),
    }


def _list(app: App, request: BuildRequest) -> None:
    from tilec import planning
    from tilec.cli import progress
    from tilec.package.doc import assumption_text

    plan = planning.plan_only(request, progress.observer(app))
    if app.json:
        jobs = [_job_json(job) for job in plan.jobs]
        app.document("plan", {"jobs": jobs, "notes": list(plan.notes)})
        return
    rows = [
        [job.id, job.spec.language, str(job.target), assumption_text(job.variant.assume) or "-"]
        for job in plan.jobs
    ]
    app.table(("~job", "language", "target", "~assumes"), rows)
    app.say(f"\n{plural(len(plan.jobs), 'job')}; nothing was compiled")
    for text in plan.notes:
        app.note(f"note: {text}")


def _job_json(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "kernel": job.spec.name,
        "variant": job.variant.id,
        "language": job.spec.language,
        "source": job.spec.source.path,
        "target": str(job.target),
        "axes": dict(job.variant.axes),
        "assume": [dataclasses.asdict(one) for one in job.variant.assume],
        "hints": dict(job.hints),
    }


def _explain(app: App, request: BuildRequest, job_id: str) -> None:
    from tilec import planning
    from tilec.cli import progress

    rows, changes = planning.explain(request, job_id, progress.observer(app))
    if app.json:
        inputs = [{"label": label, "value": value} for label, value in rows]
        changed = None if changes is None else [dataclasses.asdict(one) for one in changes]
        app.document("explain", {"id": job_id, "inputs": inputs, "changes": changed})
        return
    before = {change.label: change.before for change in changes or ()}
    gone = [(change.label, "gone") for change in changes or () if change.after is None]
    width = max(len(label) for label, _ in rows)
    for label, value in (*rows, *gone):
        text = value
        if label in before:
            was = "not there" if before[label] is None else before[label]
            text = style(f"{value}   was: {was}", fg="yellow")
        app.say(f"{label:<{width}}  {text}", wrap=False)
    app.say(f"\n{job_id}: {_verdict(changes)}")


def _verdict(changes: Sequence[Change] | None) -> str:
    if changes is None:
        return "the last build did not have this job"
    if not changes:
        return "nothing changed since the last build"
    return f"{plural(len(changes), 'input')} changed since the last build, so it is compiled again"
