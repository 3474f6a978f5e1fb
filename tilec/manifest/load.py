"""Load tilec.toml into a Manifest, and report all problems at once."""

from __future__ import annotations

import dataclasses
import graphlib
import re
import stat
from pathlib import Path
from typing import Any

from tilec.manifest import keys, values
from tilec.manifest.cases import read_chains
from tilec.manifest.kernels import Languages, read_kernel
from tilec.manifest.locate import Locator
from tilec.manifest.problems import Problems, shown_int
from tilec.manifest.tables import valid_values
from tilec.manifest.types import (
    Manifest,
    Output,
    Override,
    Package,
    Profile,
    RemoteTable,
    Targets,
    Toolchain,
)
from tilec.model.job import Options
from tilec.model.toml import tomllib
from tilec_runtime.errors import Diagnostic, Location, ManifestError

SIZE_LIMIT = 16 * 2**20
BUILT_IN_PROFILES: dict[str, dict[str, Any]] = {
    "release": {},
    "debug": {"inherits": "release", "lineinfo": True, "debug": True, "bounds": True},
}


def load(path: Path, *, languages: Languages, shown: str = "") -> Manifest:
    """Load a manifest.

    Args:
        path: the file.
        languages: the suffixes of each language that a frontend reads, such as `{"tile": (".py",),
            "cuda": (".cu",)}`.
        shown: the file's name in messages; `path` by default.

    Raises:
        ManifestError: with all problems, each at its line and column.
    """
    shown = shown or str(path)
    try:
        facts = path.stat()
        # Reading a pipe or a device could block.
        if not stat.S_ISREG(facts.st_mode) and not stat.S_ISDIR(facts.st_mode):
            raise _one("the manifest is no regular file", Location(file=shown))
        if facts.st_size > SIZE_LIMIT:
            raise _one(f"the manifest is larger than {SIZE_LIMIT >> 20} MiB", Location(file=shown))
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, shown, error) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        start = data.rfind(b"\n", 0, error.start) + 1
        column = len(data[start : error.start].decode("utf-8", "replace")) + 1
        message = f"the manifest is not UTF-8: byte 0x{data[error.start]:02x} cannot be read"
        raise _one(
            message, Location(file=shown, line=line, column=column), fix="save the file as UTF-8"
        ) from error
    return load_text(text, path, languages=languages, shown=shown)


def load_text(text: str, path: Path, *, languages: Languages, shown: str = "") -> Manifest:
    """Load a manifest from its text; `path` is not read.

    Raises:
        ManifestError: as `load`.
    """
    text = text.replace("\r\n", "\n")
    locator = Locator(text, shown or str(path), str(path.absolute().parent))
    data = _parse(text, locator)
    problems = Problems()
    manifest = _read(data, path, locator, problems, languages)
    if manifest is None or problems.collected:
        raise problems.error(locator)
    return manifest


def _parse(text: str, locator: Locator) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax(str(error), locator) from error
    except RecursionError as error:
        raise _one("values are nested too deeply", Location(file=locator.file)) from error
    except ValueError as error:
        raise _one(f"a value cannot be read: {error}", Location(file=locator.file)) from error


def _syntax(message: str, locator: Locator) -> ManifestError:
    match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    reason = message[: match.start()] if match else message
    if match and match[1]:
        location = Location(file=locator.file, line=int(match[1]), column=int(match[2]))
    else:
        location = locator.location(len(locator.text.rstrip()))
    twice = locator.repeated(location) if reason.startswith(_TWICE) else None
    if twice is not None:
        key, again, first = twice
        return _one(
            f"{key} is given twice, first in line {first.line}: keep one of them", again, locator
        )
    hint = next((hint for start, hint in _SYNTAX_HINTS.items() if reason.startswith(start)), "")
    if reason.startswith(_IN_A_KEY) and _breaks_inline_table(locator.text, location):
        hint = "an inline table stays on one line: write a longer one as a table of its own, such as [kernel.NAME.params]"
    return _one(
        f"the TOML cannot be read: {reason[:1].lower()}{reason[1:]}", location, locator, hint=hint
    )


def _breaks_inline_table(text: str, location: Location) -> bool:
    """Whether a line breaks at a location where an inline table expects its next key."""
    line = text.split("\n")[location.line - 1]
    before, after = line[: location.column - 1].rstrip(), line[location.column - 1 :].lstrip()
    return not before.endswith(("[", ".")) and after[:1] in ("", "#")


_IN_A_KEY = ("Invalid initial character for a key part", "Unclosed inline table")
_TWICE = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Cannot redefine", "Duplicate")
_SYNTAX_HINTS = {
    "Invalid value": "text stands in quotes; true and false are written small",
    "Illegal character '\\n'": "a text that is opened in this line is not closed in it",
    "Expected '=' after a key": "a line is a key, = and a value; names with other characters than letters, digits, - and _ stand in quotes",
}


def _one(
    message: str,
    location: Location,
    locator: Locator | None = None,
    *,
    fix: str = "",
    hint: str = "",
) -> ManifestError:
    excerpt = locator.excerpt(location) if locator else ""
    return ManifestError(
        (Diagnostic(message=message, location=location, excerpt=excerpt, hint=hint),), fix=fix
    )


def _unreadable(path: Path, shown: str, error: OSError) -> ManifestError:
    if isinstance(error, FileNotFoundError):
        return _one(
            "there is no such manifest",
            Location(file=shown),
            fix="start a project with `tilec new NAME`, or go to one with `tilec -C DIR`",
        )
    if isinstance(error, IsADirectoryError) or path.is_dir():
        return _one(
            "the manifest is a directory",
            Location(file=shown),
            fix=f"name the file in it: {shown.rstrip('/')}/tilec.toml",
        )
    return _one(f"the manifest cannot be read: {error.strerror or error}", Location(file=shown))


def _read(
    data: dict[str, Any], path: Path, locator: Locator, problems: Problems, languages: Languages
) -> Manifest | None:
    edition: Any = data.get("edition")
    if type(edition) is int and edition > keys.EDITION:
        message = f"edition {shown_int(edition)} is newer than this tilec, which reads edition {keys.EDITION}: update tilec"
        problems.add(("edition",), message)
        return None
    tables = keys.MANIFEST.read(data, (), problems)
    document = valid_values(tables)
    kernels = document.get("kernel", {})
    read = [
        read_kernel(name, table, problems, languages)
        for name, table in valid_values(kernels).items()
    ]
    chains = read_chains(document.get("chain", {}), kernels, problems)
    package = _package(document["package"], problems) if "package" in document else None
    targets = document.get("targets", Targets())
    _check_groups(targets, problems)
    profiles = _profiles(document.get("profile", {}), problems)
    frontends = _frontends(document.get("frontend", {}), problems, languages)
    overrides = document.get("override", ())
    _check_overrides(overrides, problems)
    if problems.collected or package is None:
        return None
    where = path.absolute()
    return Manifest(
        path=str(where),
        root=str(where.parent),
        package=package,
        targets=targets,
        profiles=profiles,
        toolchain=document.get("toolchain", Toolchain()),
        frontends=frontends,
        kernels=tuple(kernel for kernel in read if kernel is not None),
        chains=chains,
        overrides=overrides,
        output=document.get("output", Output()),
        cache=document.get("cache", RemoteTable()),
        locate=locator,
    )


def _package(package: Package, problems: Problems) -> Package:
    """Return the package with a module; by default, the name gives it."""
    module = package.module or re.sub(r"[-.]+", "_", package.name)
    try:
        values.module_name(module)
    except ValueError as error:
        problems.add(("package", "name"), f"{error}, or say by package.module how it is imported")
    return dataclasses.replace(package, module=module)


def _check_groups(targets: Targets, problems: Problems) -> None:
    for name, _ in targets.groups:
        if values.looks_like_target(name):
            message = f"{name!r} is a target's name: call the group otherwise"
            problems.add(("targets", "groups", name), message, at_key=True)


def _profiles(entries: dict[str, Any], problems: Problems) -> tuple[Profile, ...]:
    tables = {
        name: {**BUILT_IN_PROFILES.get(name, {}), **entries.get(name, {})}
        for name in (*BUILT_IN_PROFILES, *entries)
    }
    parents = {
        name: table.pop("inherits", "" if name == "release" else "release")
        for name, table in tables.items()
    }
    for name, parent in parents.items():
        if parent and parent not in tables:
            problems.unknown(("profile", name, "inherits"), "profile", parent, tuple(tables))
    graph = {name: {parent} & tables.keys() for name, parent in parents.items()}
    try:
        order = [*graphlib.TopologicalSorter(graph).static_order()]
    except graphlib.CycleError as error:
        circle = error.args[1][::-1]
        problems.add(
            ("profile", next(name for name in circle if name in entries), "inherits"),
            f"profiles inherit in a circle: {' -> '.join(circle)}",
        )
        return ()
    merged: dict[str, dict[str, Any]] = {"": {}}
    for name in order:
        merged[name] = {**merged.get(parents[name], {}), **tables[name]}
    return tuple(Profile(name=name, **merged[name]) for name in tables)


def _frontends(
    table: dict[str, Any], problems: Problems, languages: Languages
) -> tuple[tuple[str, Options], ...]:
    for name in table:
        if name not in languages:
            problems.unknown(("frontend", name), "language", name, tuple(languages), at_key=True)
    return tuple((name, tuple(sorted(options.items()))) for name, options in sorted(table.items()))


def _check_overrides(overrides: tuple[Override, ...], problems: Problems) -> None:
    for index, override in enumerate(overrides):
        if not override.hints and override.targets is None:
            problems.add(("override", index), "changes nothing: give hints or targets")


__all__ = ["BUILT_IN_PROFILES", "load", "load_text"]
