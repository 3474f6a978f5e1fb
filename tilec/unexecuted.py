"""Checks a project without executing anything of it: for editors, and for pull requests of
strangers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilec.build import BuildRequest
from tilec.compile.project import look_at_project, pick
from tilec.frontends.base import BUILTIN
from tilec.manifest.files import reference_problems
from tilec.manifest.problems import order_of
from tilec.model.declaration import KernelDecl
from tilec.plan import make_plan
from tilec.plan.syntax import look_at_function
from tilec.plan.targets import parse_targets
from tilec_runtime.errors import Diagnostic, Location, ManifestError, TilecError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Unexecuted:
    """The result of a check that executes nothing: the number of kernels, and what it could not
    check.
    """

    kernels: int
    not_checked: tuple[str, ...]


def check_without_executing(request: BuildRequest) -> Unexecuted:
    """Check what needs no code of the project, no plug-in and no tool: the manifest, and what the
    texts of its sources say.

    Raises:
        ManifestError: every problem.
    """
    project, lacking = look_at_project(request.manifest_path, request.search, plugins=False)
    manifest = project.manifest
    problems = [*lacking, *reference_problems(manifest)]
    parse_targets(manifest, request.targets)
    unread: dict[str, list[str]] = {}
    declared: dict[str, Sequence[KernelDecl]] = {}
    for kernel in manifest.kernels:
        if kernel.name not in project.sources:
            continue
        if kernel.language in ("cuda", "tile") and not kernel.source.endswith(".py"):
            try:
                declared[kernel.name] = project.frontends[kernel.language].declare(
                    project.sources[kernel.name]
                )  # by its tokens
            except TilecError as exc:
                problems += getattr(exc, "diagnostics", ()) or (
                    Diagnostic(message=str(exc), location=Location(file=kernel.source)),
                )
        elif kernel.source.endswith(".py") and kernel.language in BUILTIN:
            looked = look_at_function(manifest, kernel)
            problems += looked.problems
            why = (
                looked.passed_over
                or "what the module does when it is imported, types of parameters, and the plan"
            )
            unread.setdefault(why, []).append(kernel.name)
        else:
            unread.setdefault(
                f"files of language {kernel.language}, which a tool or a plug-in reads", []
            ).append(kernel.name)
    chosen, unknown = pick(manifest, declared)
    problems += unknown
    kernels = tuple(
        dataclasses.replace(kernel, table="")
        for kernel in manifest.kernels
        if kernel.name in chosen
    )
    try:
        make_plan(
            dataclasses.replace(manifest, kernels=kernels),
            chosen,
            project.languages,
            project.sources,
            targets=request.targets or ("default",),
        )
    except ManifestError as exc:
        problems += exc.problems
    if problems:
        raise ManifestError(
            tuple(
                sorted(
                    dict.fromkeys(problems),
                    key=lambda problem: order_of(problem, manifest.locate.file),
                )
            )
        )
    rest = (
        "compilers and the toolkit's headers",
        "tuning files",
        "steps of chains",
        "sizes of cases",
    )
    return Unexecuted(
        kernels=len(manifest.kernels),
        not_checked=(
            *(f"{', '.join(names)}: {why}" for why, names in unread.items()),
            ", ".join(rest),
        ),
    )
