"""Declarations of a project's sources, read in workers or from the cache."""

from __future__ import annotations

import ast
import dataclasses
import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tilec.compile.cache import Cache
from tilec.compile.execute import JobRunner
from tilec.compile.keys import declaration_key
from tilec.compile.project import Project
from tilec.frontends.base import Frontend
from tilec.frontends.cuda.mangled import unseen
from tilec.manifest.types import Kernel, Manifest
from tilec.model.codec import decode, encode
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Source
from tilec.plan.targets import may_match
from tilec_runtime.errors import (
    BuildError,
    CompileError,
    Diagnostic,
    ManifestError,
    MissingError,
    TilecError,
    ToolchainError,
)
from tilec_runtime.model.kernel import ToolInfo
from tilec_runtime.model.suggest import did_you_mean

UNREADABLE = "sources have errors"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """Declarations of sources, input files and tools.

    Attributes:
        kernels: declarations by kernel, without those of unreadable sources.
        inputs: input files by kernel.
        tools: tools by language.
        unreadable: errors of sources that cannot be read.
        passed_over: errors of unreadable sources without a selected kernel.
        unknown: problems of kernels that their sources do not have.
        sources: number of sources.
    """

    kernels: Mapping[str, KernelDecl]
    inputs: Mapping[str, tuple[InputFile, ...]]
    tools: Mapping[str, tuple[ToolInfo, ...]]
    unreadable: tuple[TilecError, ...]
    passed_over: tuple[TilecError, ...]
    unknown: tuple[Diagnostic, ...]
    sources: int

    def require_all(self) -> None:
        """Raise an error if sources cannot be read.

        Raises:
            BuildError: some sources cannot be read.
        """
        if self.unreadable:
            raise BuildError(self.unreadable, total=self.sources, what=UNREADABLE)


def declare(
    project: Project,
    runner: JobRunner,
    cache: Cache,
    *,
    fresh: bool = False,
    select: Sequence[str] = (),
) -> Declared:
    """Return the declaration of every kernel; unchanged sources come from the cache.

    An unreadable source does not prevent the others from being compiled. All sources are read, also
    unselected ones, since groups and notes depend on all of them. With `fresh`, the cache is not
    used.

    Raises:
        MissingError: a tool is missing.
        BuildError: no source can be read.
        ManifestError: a kernel is not in its source.
    """
    declared = look_at_sources(project, runner, cache, fresh=fresh, select=select)
    if declared.unknown:
        declared.require_all()
        raise ManifestError(declared.unknown)
    if not declared.kernels:
        raise BuildError(
            (*declared.unreadable, *declared.passed_over), total=declared.sources, what=UNREADABLE
        )
    return declared


def look_at_sources(
    project: Project,
    runner: JobRunner,
    cache: Cache,
    *,
    fresh: bool = False,
    select: Sequence[str] = (),
) -> Declared:
    """Return the declarations like `declare`, without an error for unreadable sources.

    Raises:
        MissingError: tools are missing; the message names them for all languages.
    """
    tools = _tools(project.frontends)
    languages = {kernel.name: kernel.language for kernel in project.manifest.kernels}
    by_kernel = {name: (languages[name], source) for name, source in project.sources.items()}
    sources = _read_sources(project, set(by_kernel.values()), tools, runner, cache, fresh=fresh)
    selected = {pair for name, pair in by_kernel.items() if may_select(select, name)}
    readable = {name: pair for name, pair in by_kernel.items() if pair in sources.declared}
    kernels, unknown = pick(
        project.manifest,
        {name: sources.declared[pair] for name, pair in readable.items()},
        project.sources,
    )
    refused: dict[str, list[Diagnostic]] = {}
    for name in [name for name, decl in kernels.items() if decl.refused]:
        problems = kernels.pop(name).refused
        if may_select(select, name):
            refused.setdefault(by_kernel[name][1].path, []).extend(problems)
    errors = [
        CompileError(f"{path}: {problems[0].message}", diagnostics=tuple(dict.fromkeys(problems)))
        for path, problems in refused.items()
    ]
    failures = sources.failures
    return Declared(
        kernels=kernels,
        inputs={name: sources.inputs[pair] for name, pair in readable.items()},
        tools=tools,
        unreadable=(*(error for pair, error in failures.items() if pair in selected), *errors),
        passed_over=tuple(error for pair, error in failures.items() if pair not in selected),
        unknown=unknown,
        sources=len(set(by_kernel.values())),
    )


_Pair = tuple[str, Source]  # a language and a source in it


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    """Input files of sources, and the declarations or the error of each."""

    inputs: Mapping[_Pair, tuple[InputFile, ...]]
    declared: Mapping[_Pair, Sequence[KernelDecl]]
    failures: Mapping[_Pair, TilecError]


def _read_sources(
    project: Project,
    pairs: Collection[_Pair],
    tools: Mapping[str, tuple[ToolInfo, ...]],
    runner: JobRunner,
    cache: Cache,
    *,
    fresh: bool,
) -> _Read:
    """Read declarations from the cache, and the remaining sources in workers.

    Raises:
        MissingError: tools are missing; the message names them for all languages.
    """
    inputs: dict[_Pair, tuple[InputFile, ...]] = {}
    failures: dict[_Pair, TilecError] = {}
    for pair in sorted(pairs, key=lambda pair: (pair[0], pair[1].path, str(pair[1].options))):
        try:
            inputs[pair] = tuple(project.frontends[pair[0]].inputs(pair[1]))
        except MissingError:
            raise  # a missing tool affects every source
        except TilecError as error:
            failures[pair] = error
    keys = {
        pair: declaration_key(pair[0], pair[1], inputs=files, tools=tools[pair[0]])
        for pair, files in inputs.items()
    }
    recalled = {} if fresh else {pair: _recalled(cache, key) for pair, key in keys.items()}
    declared: dict[_Pair, Sequence[KernelDecl]] = {p: d for p, d in recalled.items() if d}
    missing = [pair for pair in keys if pair not in declared]
    lacking: dict[str, MissingError] = {}
    for pair, result in zip(missing, runner.declare(missing), strict=True):
        if isinstance(result, MissingError):
            lacking.setdefault(pair[0], result)
        elif isinstance(result, TilecError):
            failures[pair] = result
        else:
            declared[pair] = result
            # Do not store the declarations of a source that was edited meanwhile under its old key.
            if tuple(project.frontends[pair[0]].inputs(pair[1])) == inputs[pair]:
                cache.put_record(keys[pair], [encode(decl) for decl in result])
    _require_none(lacking)
    return _Read(inputs=inputs, declared=declared, failures=failures)


def _recalled(cache: Cache, key: str) -> tuple[KernelDecl, ...]:
    """Return the cached declarations of an unchanged source, or none on a miss."""
    try:
        return tuple(decode(KernelDecl, row) for row in cache.get_record(key) or ())
    except (ValueError, TypeError):
        return ()


def _tools(frontends: Mapping[str, Frontend]) -> dict[str, tuple[ToolInfo, ...]]:
    tools: dict[str, tuple[ToolInfo, ...]] = {}
    lacking: dict[str, MissingError] = {}
    for language, frontend in frontends.items():
        try:
            tools[language] = tuple(frontend.toolchain())
        except MissingError as error:
            lacking[language] = error
    _require_none(lacking)
    return tools


def _require_none(lacking: Mapping[str, MissingError]) -> None:
    """Raise one error for all languages that lack tools.

    One installation then fixes all.
    """
    errors = list({str(error): error for error in lacking.values()}.values())
    if len(errors) == 1:
        raise errors[0]
    if errors:
        listing = "\n".join(
            f"{error.what}\n  cause: {error.cause}" if error.cause else error.what
            for error in errors
        )
        message = f"kernels of these languages cannot be compiled: {', '.join(lacking)}\n{textwrap.indent(listing, '  ')}"
        raise ToolchainError(
            message, fix="; ".join(dict.fromkeys(error.fix for error in errors if error.fix))
        )


def may_select(select: Sequence[str], kernel: str) -> bool:
    """Return whether `--select` can match a job of a kernel.

    Variants are not known yet.
    """
    return not select or any(may_match(glob, kernel) for glob in select)


def pick(
    manifest: Manifest,
    declared: Mapping[str, Sequence[KernelDecl]],
    sources: Mapping[str, Source],
) -> tuple[dict[str, KernelDecl], tuple[Diagnostic, ...]]:
    """Return each kernel's declaration, and problems with the names of kernels."""
    chosen: dict[str, KernelDecl] = {}
    problems = []
    for kernel in manifest.kernels:
        if kernel.name not in declared:
            continue
        choice = _pick_one(
            kernel,
            declared[kernel.name],
            sources[kernel.name],
            Path(manifest.root, kernel.source),
        )
        if isinstance(choice, KernelDecl):
            chosen[kernel.name] = choice
            continue
        key = "symbol" if kernel.symbol else "source"
        problems.append(manifest.locate.problem(("kernel", kernel.name, key), choice))
    return chosen, tuple(problems)


def _pick_one(
    kernel: Kernel, decls: Sequence[KernelDecl], source: Source, path: Path
) -> KernelDecl | str:
    """Return a kernel's declaration, or the problem if there is not exactly one."""
    named = kernel.symbol.partition("<")[0].strip().removeprefix("::") or kernel.function
    candidates = _candidates(named, kernel.function, decls)
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        return _several(kernel, named, candidates)
    names = [d.qualified or d.name for d in decls]
    message = _absent(kernel, named, names, path)
    if (
        kernel.language != "cuda"
        or did_you_mean(named, names)
        or _mentions(path, "__tile_global__")
    ):
        return message
    shown = named.startswith("_Z") or _mentions(path, "__global__") or _mentions(path, named)
    if shown and (hidden := unseen(named, kernel.args, source)):
        return hidden
    return f"{message}; one that a macro makes takes `args`, or its compiled name (_Z…)"


def _candidates(named: str, function: str, decls: Sequence[KernelDecl]) -> list[KernelDecl]:
    """Return the declarations of a name.

    Those of exactly its scope are preferred to those that end in it.
    """
    matching = [d for d in decls if function in (d.qualified, d.name)]
    exact = [d for d in matching if d.qualified == named]
    ending = [d for d in matching if d.qualified.endswith(f"::{named}")]
    return exact or ending or ([] if "::" in named else matching)


def _several(kernel: Kernel, named: str, candidates: Sequence[KernelDecl]) -> str:
    """Return a message about a name that several kernels of a source have."""
    known = [decl.qualified for decl in candidates]
    message = f"{kernel.source} has {len(known)} kernels named {named!r}: {', '.join(known)}"
    unique = len(set(known)) == len(known)
    return f'{message}; say which: symbol = "{known[0]}"' if unique else message


def _absent(kernel: Kernel, named: str, names: Sequence[str], path: Path) -> str:
    """Return a message about a name that no kernel of a source has."""
    hint = did_you_mean(named, names) or f"; it has {', '.join(names)}"
    message = f"{kernel.source} has no kernel " + (f"{named!r}{hint}" if names else "at all")
    spoken, decorator = _python_language(path, named)
    if spoken and spoken != kernel.language:
        return f'{message}: it is a @{decorator} function, so say language = "{spoken}"'
    if kernel.language == "cuda" and _mentions(path, "__tile_global__"):
        return (
            f'{message} of language cuda: for its __tile_global__ functions say language = "tile"'
        )
    if not names and kernel.language == "tile" and path.suffix == ".py":
        return f"{message}: a kernel is a function with @tl.kernel (import tilec.lang as tl)"
    return message


def _mentions(path: Path, word: str) -> bool:
    """Return whether a C++ source contains a word."""
    try:
        return word.encode() in path.read_bytes()
    except OSError:
        return False


_DECORATORS = {"triton.jit": "triton", "simt.kernel": "simt", "cuda.jit": "simt"}


def _python_language(path: Path, name: str) -> tuple[str, str]:
    """Guess language and decorator of a Python function; empty if unknown."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return "", ""
    functions = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    texts = [ast.unparse(decorator) for node in functions for decorator in node.decorator_list]
    return next(
        (
            (language, known)
            for known, language in _DECORATORS.items()
            if any(t.startswith(known) for t in texts)
        ),
        ("", ""),
    )
