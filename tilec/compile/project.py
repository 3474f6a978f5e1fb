"""A project on disk: manifest, frontends and sources."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from tilec.frontends.base import (
    BUILTIN,
    SUFFIXES,
    Frontend,
    ToolSearch,
    installed,
    load_frontend,
)
from tilec.frontends.tools.cpp.flags import OptionError
from tilec.frontends.tools.cpp.options import of_tiles, read_options
from tilec.manifest.files import file_problems, source_problem
from tilec.manifest.load import load
from tilec.manifest.locate import render
from tilec.manifest.types import Kernel, Manifest
from tilec.model.job import Options, Source
from tilec.plan import LanguageFacts
from tilec_runtime.errors import (
    Diagnostic,
    ManifestError,
    UsageError,
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A loaded manifest with all inputs of planning except declarations.

    Attributes:
        manifest: the manifest.
        frontends: one instance per used language.
        classes: `module:Class` of each frontend, for workers.
        search: places for tools, with the manifest's preferences.
        sources: source of each kernel, by kernel name.
    """

    manifest: Manifest
    frontends: Mapping[str, Frontend]
    classes: Mapping[str, str]
    search: ToolSearch
    sources: Mapping[str, Source]

    @property
    def languages(self) -> dict[str, LanguageFacts]:
        """The capabilities of each language."""
        return {
            name: LanguageFacts(kinds=f.kinds, refuse=f.refuse, simt=f.simt, hints=f.hints)
            for name, f in self.frontends.items()
        }


def open_project(manifest_path: Path, search: ToolSearch) -> Project:
    """Load the manifest and check that its sources exist.

    Raises:
        ManifestError: the manifest or its sources have problems; the error has all of them.
    """
    project, problems = look_at_project(manifest_path, search)
    if problems:
        raise ManifestError(problems)
    return project


def look_at_project(
    manifest_path: Path, search: ToolSearch, *, plugins: bool = True
) -> tuple[Project, tuple[Diagnostic, ...]]:
    """Return the project, and the problems of its sources and options.

    The project may be incomplete: `Project.sources` lacks kernels with a missing source or refused
    options. Without `plugins`, no code of third-party frontends is imported, and
    `Project.frontends` lacks them.

    Raises:
        ManifestError: the manifest has problems; the error has all of them.
    """
    others = installed() if _names_languages(manifest_path) else {}
    classes = {**(others if plugins else {}), **BUILTIN}
    suffixes: dict[str, tuple[str, ...]] = dict.fromkeys(others, ())
    for name in classes.keys() - BUILTIN.keys():
        suffixes[name] = load_frontend(classes[name], name).suffixes
    suffixes |= SUFFIXES
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


def _names_languages(manifest_path: Path) -> bool:
    """Return whether the manifest may name a language.

    Only then third-party frontends are searched, which scans all packages.
    """
    try:
        return b"language" in manifest_path.read_bytes()
    except OSError:
        return False  # the loader reports it


def option_problem(manifest: Manifest, kernel: Kernel, options: Options) -> Diagnostic | None:
    """Return the problem with a kernel's C++ options, or None.

    Flags that run programs or write files are a problem.
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
        location = manifest.locate((*table, *exc.path))
        return Diagnostic(
            message=f"{render(table)}: {exc.what}",
            location=location,
            excerpt=manifest.locate.excerpt(location),
            hint=exc.fix,
        )
    except UsageError:
        return None  # the frontend reports it with the source
    return None
