"""Check that files named by a manifest exist, are readable, and lie inside the project."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tilec.manifest.types import Case, Kernel, Manifest
from tilec.model.inside import contained
from tilec_runtime.errors import Diagnostic, LinkError
from tilec_runtime.model.suggest import did_you_mean

_Key = tuple[str | int, ...]


def file_problems(manifest: Manifest) -> Iterator[Diagnostic]:
    """Yield problems with the files and directories that the manifest names.

    Sources are checked by `source_problem`; files of references may be missing.
    """
    for key, name, kind in _named_paths(manifest):
        if problem := _path_problem(manifest, key, name, kind):
            yield problem


def source_problem(manifest: Manifest, kernel: Kernel) -> Diagnostic | None:
    """Return the problem with a kernel's source file, or None."""
    return _path_problem(manifest, ("kernel", kernel.name, "source"), kernel.source, "file")


def _path_problem(manifest: Manifest, key: _Key, name: str, kind: str) -> Diagnostic | None:
    """Return the problem with a path, or None.

    Args:
        manifest: the manifest, with the directory that the path is in.
        key: the key that names it.
        name: the path.
        kind: `file` or `directory`; empty for a path that may be anything, or missing.
    """
    try:
        contained(manifest.root, name)
    except LinkError as error:
        return manifest.locate.problem(key, error.what, hint=error.fix)
    message = _missing(Path(manifest.root), name, kind) if kind else ""
    return manifest.locate.problem(key, message) if message else None


def reference_problems(manifest: Manifest) -> tuple[Diagnostic, ...]:
    """Return problems with the references of cases.

    A build needs no reference; a run does, often on another machine.
    """
    problems = []
    read: dict[str, tuple[str, frozenset[str] | None]] = {}
    for table, name, cases in _cases(manifest):
        for key, text in (named for case in cases for named in _functions_of(case)):
            file, _, function = text.rpartition(":")
            if file not in read:
                read[file] = bound_names(Path(manifest.root) / file, file)
            message, known = read[file]
            if known is not None and function not in known:
                message = f"{file} has no function {function!r}{did_you_mean(function, known)}"
            if message:
                problems.append(manifest.locate.problem((table, name, "case", *key), message))
    return tuple(problems)


def _functions_of(case: Case) -> Iterator[tuple[_Key, str]]:
    """Yield the functions that a case names, each with its key."""
    if case.reference:
        yield (case.name, "reference"), case.reference
    for item in case.inputs:
        if item.make:
            yield (case.name, "inputs", item.name, "make"), item.make


def bound_names(path: Path, file: str) -> tuple[str, frozenset[str] | None]:
    """Return the problem of a Python file (or ""), and the names that it binds.

    The names are None if only executing the file would show them. `file` is its name in messages.
    """
    if not path.is_file():
        return f"no such file {file!r}", None
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as exc:
        return f"{file} is no Python: {exc.msg}{f', line {exc.lineno}' if exc.lineno else ''}", None
    except (OSError, ValueError) as exc:
        return f"{file} cannot be read: {exc.strerror if isinstance(exc, OSError) else exc}", None
    except RecursionError:
        return "", None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            if node.name == "*":
                return "", None
            names.add((node.asname or node.name).partition(".")[0])
    return "", frozenset(names)


def _missing(root: Path, name: str, kind: str) -> str:
    """Return why a path is not of the required `kind` (file, directory), or an empty string."""
    path = root / name
    if path.is_file() if kind == "file" else path.is_dir():
        return "" if os.access(path, os.R_OK) else f"{name!r} may not be read by this user"
    if path.exists():
        return f"{name!r} is {'a directory' if path.is_dir() else f'no {kind}'}"
    if path.is_symlink():
        return f"{name!r} is a link to {str(path.readlink())!r}, which is not there"
    near = [
        other.relative_to(root).as_posix()
        for other in path.parent.glob("*")
        if other.suffix == path.suffix
    ]
    return f"no such {kind} {name!r}{did_you_mean(name, near)}"


def _named_paths(manifest: Manifest) -> Iterator[tuple[_Key, str, str]]:
    """Yield key, path and expected kind (file, directory, "" for any) of paths except sources."""
    for index, name in enumerate(manifest.package.license_files):
        yield ("package", "license-files", index), name, "file"
    yield ("output", "dir"), f"{manifest.output.dir}/{manifest.package.module}", ""
    for key, options in _option_tables(manifest):
        for word, kind in (("include", "directory"), ("link", "file"), ("reads", "")):
            entries = options.get(word, ())
            for index, entry in enumerate(entries if isinstance(entries, tuple) else ()):
                yield (*key, word, index), str(entry).partition(":")[0], kind
    for kernel in manifest.kernels:
        if kernel.table:
            yield ("kernel", kernel.name, "dispatch", "table"), kernel.table, ""
    for table, name, cases in _cases(manifest):
        for case in cases:
            for inner, text in _functions_of(case):
                yield (table, name, "case", *inner), text.rpartition(":")[0], ""
            for item in case.inputs:
                if item.file:
                    at: _Key = (table, name, "case", case.name, "inputs", item.name, "file")
                    yield at, item.file.partition(":")[0], "file"


def _option_tables(manifest: Manifest) -> list[tuple[tuple[str, ...], Mapping[str, object]]]:
    """Return the options of used languages and of kernels, with their keys."""
    used = {kernel.language for kernel in manifest.kernels}
    tables: list[tuple[tuple[str, ...], Mapping[str, object]]] = [
        (("frontend", language), dict(options))
        for language, options in manifest.frontends
        if language in used
    ]
    tables.extend((("kernel", kernel.name), dict(kernel.options)) for kernel in manifest.kernels)
    return tables


def _cases(manifest: Manifest) -> list[tuple[str, str, tuple[Case, ...]]]:
    """Return the cases of each kernel and chain, with its table and name."""
    kernels = [("kernel", kernel.name, kernel.cases) for kernel in manifest.kernels]
    return [*kernels, *(("chain", chain.name, chain.cases) for chain in manifest.chains)]
