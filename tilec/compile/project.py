"""A project on disk: its manifest, its frontends, its sources and their declarations."""

from __future__ import annotations

import ast
import dataclasses
import errno
import fnmatch
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilec.compile.cache import Cache
from tilec.compile.execute import JobRunner
from tilec.compile.keys import declaration_key
from tilec.frontends.base import (
    BUILTIN,
    SUFFIXES,
    Frontend,
    ToolSearch,
    installed,
    load_frontend,
)
from tilec.frontends.cuda.mangled import unseen
from tilec.frontends.tools.cpp.flags import OptionError
from tilec.frontends.tools.cpp.options import of_tiles, read_options
from tilec.manifest.files import file_problems, source_problem
from tilec.manifest.load import load, load_text
from tilec.manifest.locate import render
from tilec.manifest.tuning_file import read_record
from tilec.manifest.types import Kernel, Manifest
from tilec.model.codec import decode, encode
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Options, Source
from tilec.plan import LanguageFacts
from tilec.plan.tuning import Tuned, kernel_digest
from tilec_runtime.errors import (
    BuildError,
    CompileError,
    Diagnostic,
    ManifestError,
    MissingError,
    TilecError,
    ToolchainError,
    UsageError,
)
from tilec_runtime.model.kernel import ToolInfo
from tilec_runtime.model.suggest import did_you_mean

UNREADABLE = "sources have errors"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A loaded manifest with everything that planning needs except declarations.

    Attributes:
        manifest: the manifest.
        frontends: one instance per language that a kernel uses.
        classes: where each of them is found (`module:Class`), for workers.
        search: where tools are looked for, with the manifest's preferences.
        sources: each kernel's source, by kernel name.
    """

    manifest: Manifest
    frontends: Mapping[str, Frontend]
    classes: Mapping[str, str]
    search: ToolSearch
    sources: Mapping[str, Source]

    @property
    def languages(self) -> dict[str, LanguageFacts]:
        """What each language can make."""
        return {
            name: LanguageFacts(kinds=f.kinds, refuse=f.refuse, simt=f.simt, hints=f.hints)
            for name, f in self.frontends.items()
        }


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """Declarations of sources, input files and tools.

    Attributes:
        kernels: declarations by kernel, without those of unreadable sources.
        inputs: input files by kernel.
        tools: tools by language.
        unreadable: errors of sources that cannot be read.
        passed_over: the same for sources of which no kernel is selected.
        unknown: kernels that their sources do not have.
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
        """Raise if a source cannot be read.

        Raises:
            BuildError: some cannot be read.
        """
        if self.unreadable:
            raise BuildError(self.unreadable, total=self.sources, what=UNREADABLE)


def open_project(manifest_path: Path, search: ToolSearch, text: str = "") -> Project:
    """Load the manifest and check that its sources are there.

    Raises:
        ManifestError: every problem of the manifest, or of the sources that it names.
    """
    project, problems = look_at_project(manifest_path, search, text=text)
    if problems:
        raise ManifestError(problems)
    return project


def look_at_project(
    manifest_path: Path, search: ToolSearch, *, plugins: bool = True, text: str = ""
) -> tuple[Project, tuple[Diagnostic, ...]]:
    """Return the project as far as it is there, and the problems with what it names.

    `Project.sources` lacks kernels whose source is missing, or whose options are refused. Without
    `plugins`, no code of a frontend that a plug-in brings is imported, and `Project.frontends`
    lacks it. With `text`, that is the manifest, and no file is read.

    Raises:
        ManifestError: every problem of the manifest.
    """
    others = installed() if _names_languages(manifest_path) else {}
    classes = {**(others if plugins else {}), **BUILTIN}
    suffixes: dict[str, tuple[str, ...]] = dict.fromkeys(others, ())
    for name in classes.keys() - BUILTIN.keys():
        suffixes[name] = load_frontend(classes[name], name).suffixes
    suffixes |= SUFFIXES
    if text:
        manifest = load_text(text, manifest_path, languages=suffixes, shown=NO_FILE)
    else:
        manifest = load(manifest_path, languages=suffixes)
    search = dataclasses.replace(
        search, prefer=manifest.toolchain.prefer, cuda=manifest.toolchain.cuda
    )
    problems: list[Diagnostic] = []
    options = dict(manifest.frontends)
    sources = {}
    for kernel in manifest.kernels:
        merged = tuple(
            sorted({**dict(options.get(kernel.language, ())), **dict(kernel.options)}.items())
        )
        problem = source_problem(manifest, kernel) or option_problem(manifest, kernel, merged)
        if problem:
            problems.append(problem)
            continue
        sources[kernel.name] = Source(root=manifest.root, path=kernel.source, options=merged)
    problems.extend(file_problems(manifest))
    used = sorted(
        {
            kernel.language
            for kernel in manifest.kernels
            if kernel.name in sources and kernel.language in classes
        }
    )
    project = Project(
        manifest=manifest,
        frontends={name: load_frontend(classes[name], name)(search) for name in used},
        classes={name: classes[name] for name in used},
        search=search,
        sources=sources,
    )
    return project, tuple(dict.fromkeys(problems))  # kernels share the options of their language


def include_folders(project: Project) -> tuple[str, ...]:
    """Return the include directories of all sources, relative to the project's root."""
    lists = [dict(source.options).get("include", ()) for source in project.sources.values()]
    return tuple(
        sorted(
            {
                folder
                for folders in lists
                if isinstance(folders, tuple)
                for folder in folders
                if isinstance(folder, str)
            }
        )
    )


def tuning_files(
    project: Project, declared: Declared
) -> tuple[dict[str, Tuned], tuple[Diagnostic, ...]]:
    """Return the tuning files that the manifest names, and problems with the others."""
    manifest = project.manifest
    found: dict[str, Tuned] = {}
    problems: list[Diagnostic] = []
    for kernel in manifest.kernels:
        if not kernel.table or kernel.name not in declared.kernels:
            continue
        path, where = (
            Path(manifest.root, kernel.table),
            ("kernel", kernel.name, "dispatch", "table"),
        )
        try:
            record = read_record(_bytes_of(path), kernel.table)
        except OSError as error:
            lacks = f"no such file {kernel.table!r}: `tilec tune {kernel.name}` writes it; leave the key out until then"
            what = (
                lacks
                if isinstance(error, FileNotFoundError)
                else f"{kernel.table!r} cannot be read: {error.strerror}"
            )
            problems.append(manifest.locate.problem(where, what))
        except ManifestError as error:
            problems.extend(
                dataclasses.replace(problem, hint=error.fix) for problem in error.problems
            )
        else:
            digest = digest_of(project, declared, kernel)
            tools = declared.tools[kernel.language]
            found[kernel.name] = Tuned(
                path=kernel.table,
                record=record,
                kernel_digest=digest,
                tools=tools,
            )
    return found, tuple(problems)


def digest_of(project: Project, declared: Declared, kernel: Kernel) -> str:
    """Return the digest by which a tuning record knows a kernel of the manifest."""
    return kernel_digest(kernel, project.sources[kernel.name], declared.inputs[kernel.name])


def declare(
    project: Project,
    runner: JobRunner,
    cache: Cache,
    *,
    fresh: bool = False,
    select: Sequence[str] = (),
) -> Declared:
    """Return the declaration of every kernel; unchanged sources come from the cache.

    An unreadable source does not keep the others from being compiled. All sources are read,
    whatever `select` says, since groups and notes depend on all of them. With `fresh`, the cache is not asked.

    Raises:
        MissingError: a tool is missing.
        BuildError: no source can be read.
        ManifestError: kernels that their sources do not have.
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
    """Return what `declare` finds, however little.

    Raises:
        MissingError: tools are missing; names those of all languages.
    """
    tools = _tools(project.frontends)
    languages = {kernel.name: kernel.language for kernel in project.manifest.kernels}
    unique = {(languages[name], source) for name, source in project.sources.items()}
    inputs, failures = _inputs(
        project, sorted(unique, key=lambda pair: (pair[0], pair[1].path, str(pair[1].options)))
    )
    keys = {
        pair: declaration_key(pair[0], pair[1], inputs=files, tools=tools[pair[0]])
        for pair, files in inputs.items()
    }
    found: dict[tuple[str, Source], Sequence[KernelDecl]] = {}
    for pair, key in keys.items():
        known = None if fresh else _saved_declarations(cache, key)
        if known is not None:
            found[pair] = known
    missing = [pair for pair in keys if pair not in found]
    lacking: dict[str, MissingError] = {}
    for pair, result in zip(missing, runner.declare(missing) if missing else (), strict=True):
        if isinstance(result, MissingError):
            lacking.setdefault(pair[0], result)
        elif isinstance(result, TilecError):
            failures[pair] = result
        else:
            found[pair] = result
            # A source that was edited meanwhile is not kept under the key of what it was before.
            if tuple(project.frontends[pair[0]].inputs(pair[1])) == inputs[pair]:
                cache.put_record(keys[pair], [encode(decl) for decl in result])
    _require_none(lacking)
    by_kernel = {name: (languages[name], source) for name, source in project.sources.items()}
    asked = {pair for name, pair in by_kernel.items() if may_select(select, name)}
    readable = {name: pair for name, pair in by_kernel.items() if pair in found}
    kernels, unknown = pick(
        project.manifest,
        {name: found[pair] for name, pair in readable.items()},
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
    return Declared(
        kernels=kernels,
        inputs={name: inputs[pair] for name, pair in readable.items()},
        tools=tools,
        unreadable=(*(error for pair, error in failures.items() if pair in asked), *errors),
        passed_over=tuple(error for pair, error in failures.items() if pair not in asked),
        unknown=unknown,
        sources=len(unique),
    )


def _saved_declarations(cache: Cache, key: str) -> tuple[KernelDecl, ...] | None:
    """Return the declarations of a source that was not changed, or None if there are none."""
    record = cache.get_record(key)
    if not isinstance(record, list):
        return None
    try:
        return tuple(decode(KernelDecl, row) for row in record)
    except ValueError:
        return None


def _tools(frontends: Mapping[str, Frontend]) -> dict[str, tuple[ToolInfo, ...]]:
    found: dict[str, tuple[ToolInfo, ...]] = {}
    lacking: dict[str, MissingError] = {}
    for language, frontend in frontends.items():
        try:
            found[language] = tuple(frontend.toolchain())
        except MissingError as error:
            lacking[language] = error
    _require_none(lacking)
    return found


def _require_none(lacking: Mapping[str, MissingError]) -> None:
    """Raise one error for all languages that lack tools, so that one install mends it."""
    errors = list({str(error): error for error in lacking.values()}.values())
    if len(errors) == 1:
        raise errors[0]
    if errors:
        told = "\n".join(
            f"{error.what}\n  cause: {error.cause}" if error.cause else error.what
            for error in errors
        )
        what = f"kernels of these languages cannot be compiled: {', '.join(lacking)}\n{textwrap.indent(told, '  ')}"
        raise ToolchainError(
            what, fix="; ".join(dict.fromkeys(error.fix for error in errors if error.fix))
        )


def may_select(select: Sequence[str], kernel: str) -> bool:
    """Return whether `--select` can match a job of a kernel.

    Variants are not known yet: a job's id is the kernel's name, or begins with it and `-`.
    """
    begins = f"{kernel}-"
    return not select or any(
        fnmatch.fnmatchcase(kernel, glob)
        or any(fnmatch.fnmatchcase(begins, glob[:end]) for end in range(1, len(glob) + 1))
        for glob in select
    )


def _inputs(
    project: Project, pairs: Sequence[tuple[str, Source]]
) -> tuple[dict[tuple[str, Source], tuple[InputFile, ...]], dict[tuple[str, Source], TilecError]]:
    found: dict[tuple[str, Source], tuple[InputFile, ...]] = {}
    failures: dict[tuple[str, Source], TilecError] = {}
    for language, source in pairs:
        try:
            found[language, source] = tuple(project.frontends[language].inputs(source))
        except MissingError:
            raise  # of a tool, which every source needs
        except TilecError as error:
            failures[language, source] = error
    return found, failures


def pick(
    manifest: Manifest,
    declared: Mapping[str, Sequence[KernelDecl]],
    sources: Mapping[str, Source],
) -> tuple[dict[str, KernelDecl], tuple[Diagnostic, ...]]:
    """Return each kernel's declaration in its source, and problems with the names."""
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
    """Return a kernel's declaration in its source, or why there is not exactly one."""
    matching = [d for d in decls if kernel.function in (d.qualified, d.name)]
    named = kernel.symbol.partition("<")[0].strip().removeprefix("::") or kernel.function
    exact = [d for d in matching if d.qualified == named] or [
        d for d in matching if d.qualified.endswith(f"::{named}")
    ]
    candidates = exact or ([] if "::" in named else matching)
    if len(candidates) == 1:
        return candidates[0]
    names = [d.qualified or d.name for d in decls]
    spelled = kernel.language == "cuda" and not candidates and not did_you_mean(named, names)
    plain = spelled and not _mentions(path, "__tile_global__")
    shown = named.startswith("_Z") or _mentions(path, "__global__") or _mentions(path, named)
    if plain and shown and (hidden := unseen(named, kernel.args, source)):
        return hidden
    what = (
        _several(kernel, named, candidates) if candidates else _absent(kernel, named, names, path)
    )
    if plain:
        what += "; one that a macro makes takes `args`, or its compiled name (_Z…)"
    return what


def _several(kernel: Kernel, named: str, candidates: Sequence[KernelDecl]) -> str:
    """Return a message about a name that several kernels of a source have."""
    known = [decl.qualified for decl in candidates]
    what = f"{kernel.source} has {len(known)} kernels named {named!r}: {', '.join(known)}"
    unique = len(set(known)) == len(known)
    return f'{what}; say which: symbol = "{known[0]}"' if unique else what


def _absent(kernel: Kernel, named: str, names: Sequence[str], path: Path) -> str:
    """Return a message about a name that no kernel of a source has."""
    hint = did_you_mean(named, names) or f"; it has {', '.join(names)}"
    what = f"{kernel.source} has no kernel " + (f"{named!r}{hint}" if names else "at all")
    spoken, decorator = _python_language(path, named)
    if spoken and spoken != kernel.language:
        return f'{what}: it is a @{decorator} function, so say language = "{spoken}"'
    if kernel.language == "cuda" and _mentions(path, "__tile_global__"):
        return f'{what} of language cuda: for its __tile_global__ functions say language = "tile"'
    if not names and kernel.language == "tile" and path.suffix == ".py":
        return f"{what}: a kernel is a function with @tl.kernel (import tilec.lang as tl)"
    return what


def _mentions(path: Path, word: str) -> bool:
    """Return whether a C++ source has a word: of tile kernels, or of what its macros make."""
    try:
        return word.encode() in path.read_bytes()
    except OSError:
        return False


def language_of(path: Path, name: str) -> str:
    """Return the language of a kernel in a file of its own, by the file's text."""
    if path.suffix == ".py":
        return _python_language(path, name)[0] or "tile"
    fits = [language for language, suffixes in SUFFIXES.items() if path.suffix in suffixes]
    return (
        "tile"
        if fits == ["cuda"] and _mentions(path, "__tile_global__")
        else fits[0]
        if fits
        else "cuda"
    )


NO_FILE = "(in place of tilec.toml)"  # what a manifest that is no file is called in messages
_DECORATORS = {"triton.jit": "triton", "simt.kernel": "simt", "cuda.jit": "simt"}


def _python_language(path: Path, name: str) -> tuple[str, str]:
    """Return (language, decorator) of a Python function by its text, or empty texts."""
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


def _names_languages(manifest_path: Path) -> bool:
    """Return whether the manifest names a language itself.

    Only then are third-party frontends looked for, which scans all packages.
    """
    try:
        return b"language" in manifest_path.read_bytes()
    except OSError:
        return False  # the loader reports it


def _bytes_of(path: Path) -> bytes:
    """Return the contents of a file. Reading a pipe would wait for ever."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file")
    return path.read_bytes()


def option_problem(manifest: Manifest, kernel: Kernel, options: Options) -> Diagnostic | None:
    """Return the problem with a kernel's C++ options, or None.

    Flags that run programs or write files are refused here.
    """
    if kernel.language not in ("cuda", "tile") or not kernel.source.endswith((".cu", ".cuh")):
        return None
    try:
        read_options(options if kernel.language == "cuda" else of_tiles(options))
    except OptionError as exc:
        table = (
            ("kernel", kernel.name)
            if exc.path[0] in dict(kernel.options)
            else ("frontend", kernel.language)
        )
        place = manifest.locate((*table, *exc.path))
        return Diagnostic(
            message=f"{render(table)}: {exc.what}",
            location=place,
            excerpt=manifest.locate.excerpt(place),
            hint=exc.fix,
        )
    except UsageError:
        return None  # which the frontend says of the source
    return None
