"""`tilec check`: check manifest, sources and plan, and report every problem."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, examples, json_option
from tilec.cli.tables import listed, plural
from tilec.cli.targets import targets_option

if TYPE_CHECKING:
    from tilec.plan import Plan
    from tilec_runtime.errors import CaseError


@click.command(
    epilog=examples(
        "tilec check",
        "tilec check --no-exec    # executes nothing of the project",
        "tilec check --json | jq '.problems[].message'",
        "tilec -C ../acme-kernels check",
    )
    + "\n\nExit codes: 0 no problem, 1 a source cannot be read, 2 a problem in the manifest or its sources, "
    "3 a compiler is missing.",
)
@targets_option("Targets or groups to plan for, separated by commas (default: [targets] default).")
@click.option(
    "--no-exec",
    is_flag=True,
    help="Execute no code of the project, no plug-in and no tool, and list what is not checked.",
)
@json_option
@click.pass_obj
def command(app: App, targets: tuple[str, ...], no_exec: bool) -> None:
    """Check tilec.toml and the files that it names: keys, sources, kernels, parameters, expressions,
    targets and references.

    Nothing is compiled. Python modules of kernels are imported, because their parameters are
    known only then. With --no-exec, nothing of the project is executed, for editors and for pull
    requests of strangers; parameters of Python kernels are then not checked.

    All problems are reported at once, as FILE:LINE:COLUMN: key: problem. Problems of sources are
    reported only if the manifest itself has none, and those of a kernel's expressions only if all
    of its parameters are known.
    """
    from tilec import planning
    from tilec.cli.build import make_request
    from tilec.cli.failures import diagnostic_json
    from tilec.compile.events import Observer
    from tilec.unexecuted import check_without_executing
    from tilec_runtime.errors import BuildError, ManifestError

    request = make_request(app, targets=targets)
    body: dict[str, Any] = {
        "ok": True,
        "manifest": str(request.manifest_path),
        "problems": [],
        "jobs": 0,
        "notes": [],
        "executed": not no_exec,
        "not_checked": [],
    }
    try:
        if no_exec:
            kernels, body["not_checked"] = check_without_executing(request)
            verdict = "no problems found without execution"
        else:
            plan = planning.check(request, Observer())
            _require_fitting(plan)
            kernels, verdict = len({job.spec.name for job in plan.jobs}), "no problems"
            body |= {
                "jobs": len(plan.jobs),
                "notes": [*plan.notes, *_open_axes(plan), *_uncompared(plan)],
            }
    except (ManifestError, BuildError) as exc:
        if not app.json:
            raise
        body |= {"ok": False, "problems": [diagnostic_json(problem) for problem in exc.problems]}
        app.document("check", body)
        raise click.exceptions.Exit(exc.exit_code) from exc
    if app.json:
        app.document("check", body)
        return
    for text in body["notes"]:
        app.note(f"note: {text}")
    jobs = f", {plural(body['jobs'], 'job')}" if not no_exec else ""
    app.say(f"{app.show(request.manifest_path)}: {verdict}; {plural(kernels, 'kernel')}{jobs}")
    for text in body["not_checked"]:
        app.say(f"not checked: {text}")


def _open_axes(plan: Plan) -> Iterator[str]:
    """Yield a note for each choice of axes that neither table, rules nor default make."""
    from tilec_runtime.model.kernel import VariantInfo
    from tilec_runtime.values import replace

    for kernel in plan.kernels:
        by_target = dict(kernel.manifest.matrix.by_target)
        points = dict.fromkeys(job.variant.axes for job in kernel.jobs)
        variants = tuple(VariantInfo(id="", axes=axes) for axes in points)
        info = replace(kernel.info, variants=variants)
        free = [name for name in info.choices if name not in by_target]
        first = {name: json.dumps(values[0]) for name, values in info.axes}
        for text in () if info.dispatched else info.launch.requires:
            if fixed := [name for name in free if name in _fixed_by(text, first)]:
                free = [name for name in free if name not in fixed]
                yield f"kernel {info.name}: {_rule_for(text, fixed, first)}"
        if axes := [name for name in free if name in info.undecided]:
            given = ", ".join(f"{name} = {first[name]}" for name in axes)
            yield (
                f"kernel {info.name}: a launch must choose {' and '.join(axes)}; "
                f"dispatch.default = {{ {given} }} is a default for launches and cases"
            )


def _rule_for(text: str, axes: Sequence[str], values: Mapping[str, str]) -> str:
    """Return a note with a rule for axes that a requirement of the launch fixes."""
    from tilec.plan.points import filled

    take = ", ".join(f"{name} = {values[name]}" for name in axes)
    rule = f"{{ when = {json.dumps(filled(text, values))}, take = {{ {take} }} }}"
    return f"a launch needs {text}, so let rules choose {' and '.join(axes)}: dispatch.rules = [{rule}, …]"


def _fixed_by(text: str, axes: Collection[str]) -> set[str]:
    """Return the axes on a side of an equation that reads nothing else."""
    from tilec_runtime.model.expr_tree import parse_tree

    tree = parse_tree(text)
    if not isinstance(tree, ast.Compare) or not isinstance(tree.ops[0], ast.Eq):
        return set()
    sides = [
        {node.id for node in ast.walk(side) if isinstance(node, ast.Name)}
        for side in (tree.left, *tree.comparators)
    ]
    return set().union(*(names for names in sides if names.issubset(axes)))


def _uncompared(plan: Plan) -> Iterator[str]:
    """Yield a note for each kernel with cases that compare nothing."""
    for kernel in plan.kernels:
        cases = [case.name for case in kernel.manifest.cases if not case.reference]
        if cases:
            yield (
                f"kernel {kernel.info.name}: cases without a reference: {listed(cases, 3)}; "
                'add reference = "FILE.py:FUNCTION", so that tilec run compares results'
            )


def _require_fitting(plan: Plan) -> None:
    """Refuse chains that do not fit the planned kernels.

    Raises:
        ManifestError: chains have problems; the error has all of them.
    """
    from tilec_runtime.errors import Diagnostic, ManifestError

    problems = tuple(
        Diagnostic(
            message=error.what,
            location=error.location,
            excerpt=plan.manifest.locate.excerpt(error.location) if error.location else "",
            hint=error.fix,
        )
        for error in _chain_errors(plan)
    )
    if problems:
        raise ManifestError(problems)


def _chain_errors(plan: Plan) -> Iterator[CaseError]:
    """Yield the first error of each chain whose steps do not fit their kernels."""
    from tilec.case.chains import chain_cases

    planned = {kernel.info.name: kernel.info for kernel in plan.kernels}
    for chain in plan.manifest.chains:
        cases = chain_cases(chain, planned, locate=plan.manifest.locate)
        yield from [case.error for case in cases if case.error is not None][:1]
