"""`tilec build`: compile, show progress, and say what came of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.complete import completes, completes_list, known_targets, profiles, project_kernels
from tilec.cli.style import style

if TYPE_CHECKING:
    from pathlib import Path

    from tilec.build import BuildRequest
    from tilec.compile.keys import Change
    from tilec.compile.stamp import Untouched
    from tilec.model.job import Job

EMIT = ("bundle", "package", "wheel", "fatbin", "cubin", "ptx")


def _words(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    """`a,b` and repeated options to one tuple, without doubles."""
    return tuple(
        dict.fromkeys(word.strip() for value in values for word in value.split(",") if word.strip())
    )


def _emit(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    words = _words(ctx, param, values)
    for word in words:
        if word not in EMIT:
            from tilec_runtime.model.suggest import did_you_mean

            raise click.BadParameter(
                f"no such output: {word}{did_you_mean(word, EMIT)}; there are {', '.join(EMIT)}",
                ctx,
                param,
            )
    return words


@click.command(
    short_help="Compile the kernels into a bundle and a typed package.",
    epilog=examples(
        "tilec build",
        "tilec build --targets ci                    # a group of [targets], or names: --targets sm_90,compute_80",
        "tilec build --select 'gemm-*' -j 4 --profile debug",
        "tilec build --emit wheel,fatbin",
        "tilec build --list --json                   # the plan; nothing is compiled",
        "tilec build --explain gemm-f16-BM128-sm_90  # what was hashed, what changed since the last build",
    )
    + "\n\nExit codes: 0 built, 1 a kernel does not compile or is over its budget, 2 usage or manifest, 3 a compiler is missing, "
    "130 interrupted. Nothing is written unless every job succeeds.",
)
@click.option(
    "--targets",
    multiple=True,
    callback=_words,
    metavar="LIST",
    shell_complete=completes_list(known_targets),
    help="Targets or groups, by comma (default: [targets] default).",
)
@click.option(
    "--select",
    multiple=True,
    callback=_words,
    metavar="GLOB",
    shell_complete=completes(project_kernels),
    help="Only jobs whose id (or whose variant's or kernel's) matches.",
)
@click.option(
    "--profile",
    default="release",
    show_default=True,
    metavar="NAME",
    shell_complete=completes(profiles),
    help="Profile to build with.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Compilers that run at once (default: all cores).",
)
@click.option(
    "--emit",
    multiple=True,
    callback=_emit,
    metavar="LIST",
    shell_complete=completes_list(lambda _: EMIT),
    help=f"What to write: {', '.join(EMIT)}.",
)
@click.option("--force", is_flag=True, help="Compile everything again, whatever the cache holds.")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
@click.option(
    "--shared-cache",
    metavar="DIR",
    help="Take what tilec.lock pins from a cache that others write to as well, and add to it (default: TILEC_SHARED_CACHE).",
)
@click.option(
    "--locked",
    is_flag=True,
    help="Refuse other tools than those in tilec.lock, and images of other bytes than it pins.",
)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="Print the plan and compile nothing; modules of kernels are executed.",
)
@click.option(
    "--explain",
    metavar="ID",
    help="Print what decides whether one job is compiled again; modules of kernels are executed.",
)
@json_option
@click.pass_obj
def command(
    app: App,
    targets: tuple[str, ...],
    select: tuple[str, ...],
    profile: str,
    jobs: int | None,
    emit: tuple[str, ...],
    force: bool,
    no_cache: bool,
    shared_cache: str | None,
    locked: bool,
    listing: bool,
    explain: str | None,
) -> None:
    """Compile the kernels of tilec.toml into one bundle and a typed Python package. Needs no GPU.

    What did not change is taken from the cache. A job is one variant for one target, such as
    gemm-f16-BM128-sm_90.
    """
    plain = not (force or no_cache or locked or listing or explain or app.json or app.verbose)
    if plain and _untouched(app, targets, select, profile, emit):
        return
    if listing and explain:
        raise click.UsageError(
            "--list and --explain cannot be combined", click.get_current_context()
        )
    request = make_request(
        app,
        targets=targets,
        select=select,
        profile=profile,
        workers=jobs,
        emit=emit,
        force=force,
        cached=not no_cache,
        shared_cache=app.path(shared_cache) if shared_cache else None,
        locked=locked,
    )
    if listing:
        _list(app, request)
    elif explain:
        _explain(app, request, explain)
    else:
        _build(app, request)


def _untouched(
    app: App, targets: tuple[str, ...], select: tuple[str, ...], profile: str, emit: tuple[str, ...]
) -> bool:
    """Whether nothing was touched since the last build was asked for the same; says so. Needs none
    of the build half.
    """
    last = untouched(app, targets=targets, select=select, profile=profile, emit=emit)
    if last is None:
        return False
    from tilec.cli.tables import plural

    app.say(f"{style('up to date', fg='green', bold=True)} ({plural(last.jobs, 'job')}, untouched)")
    return True


def untouched(
    app: App,
    *,
    targets: tuple[str, ...] = (),
    select: tuple[str, ...] = (),
    profile: str = "release",
    emit: tuple[str, ...] = (),
) -> Untouched | None:
    """Return the last build, if it was asked for the same and nothing was touched since."""
    from tilec.compile import stamp

    manifest, settings = app.manifest_path(), app.settings
    places = (settings.cuda_home, settings.path)
    asked = stamp.question(
        manifest.name, targets=targets, select=select, profile=profile, emit=emit, places=places
    )
    return stamp.fresh(settings.cache_dir, manifest.parent, asked)


def make_request(
    app: App,
    *,
    targets: tuple[str, ...] = (),
    select: tuple[str, ...] = (),
    profile: str = "release",
    workers: int | None = None,
    emit: tuple[str, ...] = (),
    force: bool = False,
    cached: bool = True,
    shared_cache: Path | None = None,
    locked: bool = False,
    aside: bool = False,
    lineinfo: bool = False,
) -> BuildRequest:
    """A build of the project at hand, on this machine.

    With `locked` the tools' files are hashed, whatever tables and file lists say of them.

    Raises:
        UsageError: there is no manifest, or TILEC_CACHE_MAX is no size.
    """
    manifest_path, settings = app.manifest_path(), app.settings
    cache_max = settings.cache_bytes
    from tilec.build import BuildRequest

    search = settings.search
    if locked:
        search = dataclasses.replace(search, state_dir="", verify=True)
    return BuildRequest(
        manifest_path=manifest_path,
        targets=targets,
        select=select,
        profile=profile,
        workers=workers or settings.cores,
        emit=emit,
        cache_dir=settings.cache_dir if cached else None,
        cache_max=cache_max,
        shared_cache=(shared_cache or settings.shared_cache) if cached else None,
        search=search,
        force=force,
        locked=locked,
        aside=aside,
        lineinfo=lineinfo,
    )


def _build(app: App, request: BuildRequest) -> None:
    from tilec import build
    from tilec.cli import progress, summary

    app.detail(
        f"manifest {app.show(request.manifest_path)}, {request.workers} at once, cache {request.cache_dir or 'off'}"
    )
    observer, before = progress.make_observer(app), _last_build(request)
    try:
        result = build.build(request, observer)
    except KeyboardInterrupt:
        progress.close(observer)
        done = _last_build(request) != before
        words = (
            "interrupted: every output was in place"
            if done
            else "interrupted: nothing was written, earlier output is as it was"
        )
        app.note(words)
        if app.json:
            from tilec.cli import failures

            failures.print_interrupted(app, words, exit_code=130)
        raise click.exceptions.Exit(130) from None
    finally:
        progress.close(observer)
    if app.json:
        app.document("build", summary.result_json(result))
    else:
        summary.print_summary(app, result)


def _last_build(request: BuildRequest) -> int:
    """When the last build put its outputs in place, in nanoseconds; 0 where none did."""
    from tilec.compile.state import ENDED, NAME

    try:
        return (request.manifest_path.parent / NAME / ENDED).stat().st_mtime_ns
    except OSError:
        return 0


def _list(app: App, request: BuildRequest) -> None:
    from tilec import build
    from tilec.cli import progress
    from tilec.cli.tables import Cell, columns, plural, table, terminal_width
    from tilec.inspection.report import assumption_text

    plan = build.plan_only(request, progress.make_observer(app))
    if app.json:
        app.document(
            "plan", {"jobs": [_job_json(job) for job in plan.jobs], "notes": list(plan.notes)}
        )
        return
    rows: list[list[Cell]] = [
        [job.id, job.spec.language, str(job.target), assumption_text(job.variant.assume) or "-"]
        for job in plan.jobs
    ]
    for line in table(
        columns("~job", "language", "target", "~assumes"), rows, width=terminal_width()
    ):
        app.say(line)
    app.say()
    app.say(f"{plural(len(plan.jobs), 'job')}; nothing was compiled")
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
    from tilec import build
    from tilec.cli import progress

    rows, changes = build.explain(request, job_id, progress.make_observer(app))
    if app.json:
        inputs = [{"label": label, "value": value} for label, value in rows]
        changed = (
            None
            if changes is None
            else [{"label": c.label, "before": c.before, "after": c.after} for c in changes]
        )
        app.document("explain", {"id": job_id, "inputs": inputs, "changes": changed})
        return
    width = max(len(label) for label, _ in rows)
    before = {change.label: change.before for change in changes or ()}
    for label, value in rows:
        if label in before:
            old = "not there" if before[label] is None else before[label]
            app.say(f"{label:<{width}}  {style(f'{value}   was: {old}', fg='yellow')}")
        else:
            app.say(f"{label:<{width}}  {value}")
    for change in changes or ():
        if change.after is None:
            app.say(
                f"{change.label:<{width}}  {style(f'gone   was: {change.before}', fg='yellow')}"
            )
    app.say()
    app.say(f"{job_id}: {_verdict(changes)}")


def _verdict(changes: Sequence[Change] | None) -> str:
    from tilec.cli.tables import plural

    if changes is None:
        return "the last build did not have this job"
    if not changes:
        return "nothing changed since the last build"
    return f"{plural(len(changes), 'input')} changed since the last build, so it is compiled again"
