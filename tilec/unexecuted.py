"""Check a project without executing its code, for editors and untrusted pull requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tilec.compile.declare import pick
from tilec.compile.project import look_at_project
from tilec.frontends.base import BUILTIN
from tilec.manifest.files import bound_names, reference_problems
from tilec.manifest.problems import order_of
from tilec.manifest.types import Kernel
from tilec.model.declaration import KernelDecl
from tilec.plan import make_plan
from tilec.plan.targets import parse_targets
from tilec.planning import BuildRequest
from tilec_runtime.errors import Diagnostic, Location, ManifestError, TilecError
from tilec_runtime.model.suggest import did_you_mean

_PYTHON = "what the module does when it is imported, parameters, and the plan"
_REST = "compilers and the toolkit's headers, tuning files, steps of chains, sizes of cases"


def _python_fault(kernel: Kernel, root: str) -> str:
    """Return why a Python module binds no function of the kernel's name, or an empty string."""
    message, names = bound_names(Path(root, kernel.source), kernel.source)
    if names is not None and kernel.function not in names:
        near = did_you_mean(kernel.function, names)
        return f"{kernel.source} has no kernel {kernel.function!r}{near}"
    return message


def check_without_executing(request: BuildRequest) -> tuple[int, tuple[str, ...]]:
    """Check the manifest, C++ kernels by parsing, and the names of Python kernels.

    Returns:
        The number of kernels, and a line for each thing that was not checked.

    Raises:
        ManifestError: with all problems.
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
            frontend = project.frontends[kernel.language]
            try:
                declared[kernel.name] = frontend.declare(project.sources[kernel.name])
            except TilecError as exc:
                unlocated = Diagnostic(message=str(exc), location=Location(file=kernel.source))
                problems += getattr(exc, "diagnostics", ()) or (unlocated,)
        elif kernel.source.endswith(".py") and kernel.language in BUILTIN:
            if fault := _python_fault(kernel, manifest.root):
                problems.append(manifest.locate.problem(("kernel", kernel.name, "source"), fault))
            unread.setdefault(_PYTHON, []).append(kernel.name)
        else:
            why = f"files of language {kernel.language}, which a tool or a plug-in reads"
            unread.setdefault(why, []).append(kernel.name)
    chosen, unknown = pick(manifest, declared, project.sources)
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
        file = manifest.locate.file
        ordered = sorted(dict.fromkeys(problems), key=lambda problem: order_of(problem, file))
        raise ManifestError(tuple(ordered))
    left = (f"{', '.join(names)}: {why}" for why, names in unread.items())
    return len(manifest.kernels), (*left, _REST)
