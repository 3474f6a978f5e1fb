"""`tilec check`: the manifest, its sources and the plan, with every problem at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.complete import completes_list, known_targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilec.build import BuildRequest
    from tilec.plan import Plan
    from tilec_runtime.errors import Diagnostic


@click.command(
    short_help="Check the manifest and its sources; report every problem.",
    epilog=examples(
        "tilec check",
        "tilec check --no-exec    # executes nothing of the project",
        "tilec check --json | jq '.problems[].message'",
        "tilec -C ../acme-kernels check",
    )
    + "\n\nExit codes: 0 no problem, 1 a source cannot be read, 2 the manifest and its sources do not fit, 3 a compiler is missing.",
)
@click.option(
    "--targets",
    multiple=True,
    metavar="LIST",
    shell_complete=completes_list(known_targets),
    help="Targets or groups to plan for, by comma (default: [targets] default).",
)
@click.option(
    "--no-exec",
    is_flag=True,
    help="Execute nothing of the project, no plug-in and no tool; says what it leaves out.",
)
@json_option
@click.pass_obj
def command(app: App, targets: tuple[str, ...], no_exec: bool) -> None:
    """Check tilec.toml and what it names: keys, sources, kernels, parameters, expressions, targets,
    references.

    Compiles nothing, but executes Python modules of kernels, as every command does that plans a
    build: a kernel's parameters are known when its module was imported. --no-exec executes nothing,
    for editors and for pull requests of strangers: it checks the manifest, and of sources what
    their text says.

    Every problem is reported at once, as FILE:LINE:COLUMN: key path: what is wrong; did you mean.
    Where the manifest itself is off, its own problems are all that is known, and those of what it
    names come next.
    """
    from tilec.cli.build import make_request
    from tilec.cli.failures import diagnostic_json
    from tilec.cli.tables import plural
    from tilec.compile.events import SilentObserver
    from tilec_runtime.errors import BuildError, ManifestError

    words = tuple(word.strip() for value in targets for word in value.split(",") if word.strip())
    request = make_request(app, targets=words)
    from tilec import build

    plan: Plan | None = None
    kernels, not_checked = 0, tuple[str, ...]()
    try:
        if no_exec:
            from tilec.unexecuted import check_without_executing

            unexecuted = check_without_executing(request)
            kernels, not_checked = unexecuted.kernels, unexecuted.not_checked
        else:
            plan = build.check(request, SilentObserver())
            _require_fitting(plan)
    except (ManifestError, BuildError) as exc:
        if not app.json:
            raise
        problems = [diagnostic_json(problem) for problem in exc.problems]
        app.document("check", _document(request, problems=problems, executed=not no_exec))
        raise click.exceptions.Exit(exc.exit_code) from exc
    if app.json:
        app.document(
            "check", _document(request, plan=plan, executed=not no_exec, not_checked=not_checked)
        )
        return
    if plan is None:
        app.say(
            f"{app.show(request.manifest_path)}: no problems in what needs no execution; {plural(kernels, 'kernel')}"
        )
        for text in not_checked:
            app.say(f"not checked: {text}")
        return
    for text in plan.notes:
        app.note(f"note: {text}")
    kernels = len({job.spec.name for job in plan.jobs})
    app.say(
        f"{app.show(request.manifest_path)}: no problems; {plural(kernels, 'kernel')}, {plural(len(plan.jobs), 'job')}"
    )


def _document(
    request: BuildRequest,
    *,
    plan: Plan | None = None,
    problems: Sequence[Any] = (),
    executed: bool,
    not_checked: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "ok": not problems,
        "manifest": str(request.manifest_path),
        "problems": list(problems),
        "jobs": len(plan.jobs) if plan else 0,
        "notes": list(plan.notes) if plan else [],
        "executed": executed,
        "not_checked": list(not_checked),
    }


def _require_fitting(plan: Plan) -> None:
    """Refuse chains and cases that do not fit the kernels that were planned.

    Raises:
        ManifestError: with every problem of all of them.
    """
    from tilec_runtime.errors import ManifestError

    problems = tuple(_chain_problems(plan))
    if problems:
        raise ManifestError(problems)


def _chain_problems(plan: Plan) -> list[Diagnostic]:
    """Steps of chains that do not fit their kernels; of each chain the first."""
    manifest = plan.manifest
    if not manifest.chains:
        return []
    from tilec.case.chains import chain_cases
    from tilec_runtime.errors import CaseError, Diagnostic

    planned = {kernel.info.name: kernel.info for kernel in plan.kernels}
    problems = []
    for chain in manifest.chains:
        try:
            chain_cases(chain, planned, locate=manifest.locate)
        except CaseError as error:
            excerpt = manifest.locate.excerpt(error.location) if error.location else ""
            problems.append(
                Diagnostic(
                    message=error.what, location=error.location, excerpt=excerpt, hint=error.fix
                )
            )
    return problems
