"""Checks a project without executing anything of it.

Editors use it, and pull requests of strangers.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilec.build import BuildRequest
from tilec.compile.project import look_at_project, pick
from tilec.frontends.base import BUILTIN
from tilec.manifest.files import reference_problems
from tilec.manifest.problems import order_of
from tilec.manifest.types import Kernel, Manifest
from tilec.model.declaration import KernelDecl
from tilec.plan import make_plan
from tilec.plan.targets import parse_targets
from tilec_runtime.errors import Diagnostic, Location, ManifestError, TilecError
from tilec_runtime.model import expr
from tilec_runtime.model.suggest import did_you_mean


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


_DECORATORS = {"tile": "@ct.kernel", "triton": "@triton.jit", "simt": "@cuda.jit"}
_Path = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """What can be said of a kernel: its problems, and why its function was not looked at (empty
    where it was).
    """

    problems: tuple[Diagnostic, ...] = ()
    passed_over: str = ""


def look_at_function(manifest: Manifest, kernel: Kernel) -> Looked:
    """Compare a kernel's table with the function that its source defines: that it is there, is
    decorated, and has these parameters.
    """
    try:
        tree = ast.parse(Path(manifest.root, kernel.source).read_bytes())
    except SyntaxError as exc:
        place = Location(file=kernel.source, line=exc.lineno or 1, column=max(exc.offset or 0, 0))
        return Looked(
            problems=(
                Diagnostic(message=exc.msg, location=place, excerpt=(exc.text or "").rstrip("\n")),
            )
        )
    except (OSError, ValueError, RecursionError) as exc:
        return Looked(passed_over=f"{kernel.source} cannot be parsed: {exc}")
    functions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    bound = set(_bound(tree, functions))
    here = [function for function in functions if function.name == kernel.function]
    if kernel.function in bound or "*" in bound:
        return Looked(
            passed_over=f"{kernel.source} binds {kernel.function!r} otherwise than by one def"
        )
    if not here:
        what = f"{kernel.source} has no kernel {kernel.function!r}{did_you_mean(kernel.function, [f.name for f in functions])}"
        return Looked(problems=(manifest.locate.problem(("kernel", kernel.name, "source"), what),))
    return Looked(
        problems=tuple(
            manifest.locate.problem(path, what) for path, what in _misfits(kernel, here[-1])
        )
    )


def _bound(
    tree: ast.Module, functions: list[ast.FunctionDef | ast.AsyncFunctionDef]
) -> Iterator[str]:
    """Names that a module may bind otherwise than by a def at its top level; `*` for any."""
    inner = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def _misfits(
    kernel: Kernel, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[tuple[_Path, str]]:
    """(place in the manifest, what does not fit)."""
    base = ("kernel", kernel.name)
    if not function.decorator_list:
        decorator = _DECORATORS.get(kernel.language, "a decorator")
        yield (
            (*base, "source"),
            f"{function.name!r} in {kernel.source} is a plain function: {decorator} makes a kernel of it",
        )
        return
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        return
    own = [
        argument.arg
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    ]
    if kernel.args is None:
        for param in kernel.params:
            if param.name not in own:
                what = f"{param.name!r} is no parameter of {function.name}{did_you_mean(param.name, own)}"
                yield (*base, "params", param.name), what
    known = {
        *own,
        *(param.name for param in kernel.params),
        *(axis for axis, _ in (*kernel.matrix.axes, *kernel.let)),
        *expr.DEVICE_FACTS,
    }
    launch = kernel.launch
    rows: list[tuple[_Path, str]] = [((*base, "launch", "shared"), launch.shared)]
    for key, texts in (
        ("requires", launch.requires),
        ("grid", launch.grid),
        ("block", launch.block),
    ):
        rows += [((*base, "launch", key, index), text) for index, text in enumerate(texts)]
    for path, text in rows:
        for name in sorted(expr.parse(text).names - known):
            yield (
                path,
                f"{name!r} is no parameter of {function.name} and no axis{did_you_mean(name, known)}",
            )
