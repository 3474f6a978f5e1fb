"""Make Kernel values from kernel tables, and check rules that concern several keys."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from tilec.manifest import kernel_keys, values
from tilec.manifest.cases import read_cases
from tilec.manifest.locate import Path
from tilec.manifest.matrix import check_derived, read_matrix
from tilec.manifest.problems import Problems, Scope
from tilec.manifest.tables import valid_values
from tilec.manifest.types import (
    AssumeSet,
    Budget,
    Kernel,
    Launch,
    ParamTable,
)
from tilec.model.job import Options
from tilec_runtime.model.suggest import did_you_mean

Languages = Mapping[str, tuple[str, ...]]


def read_kernel(
    name: str, table: dict[str, Any], problems: Problems, languages: Languages
) -> Kernel | None:
    """Return one kernel, and report the problems of several keys.

    Without its source or its axes, nothing else can be checked: return None.
    """
    path: Path = ("kernel", name)
    if message := values.kernel_name_problem(name):
        problems.add(path, message, at_key=True)
    if None in (table.get("source"), table.get("matrix", {}), table.get("let", ())):
        return None
    table = valid_values(table)
    file, function = table["source"]
    language = _language(table.get("language", ""), file, path, problems, languages)
    let = table.get("let", ())
    matrix, axes = read_matrix(table.get("matrix", {}), let, (*path, "matrix"), problems)
    check_derived(let, Scope((*path, "let"), axes, problems, open=matrix.autotune))
    scope = Scope(path, axes, problems, tuple(dict(let)), open=matrix.autotune)
    symbol, params = table.get("symbol", ""), table.get("params", ())
    _check_symbol(symbol, function, scope)
    for param in params:
        _check_param(param, scope)
    launch = table.get("launch", Launch())
    _check_launch(launch, (*path, "launch"), problems)
    op = table.get("op")
    for output in op.outputs if op else ():
        if bool(output.like) == (output.shape is not None):
            at = (*path, "op", "outputs", output.name)
            problems.add(at, "give one of like and shape", at_key=True)
    dispatch = table.get("dispatch", {})
    if dispatch.get("keep") == "winners" and "table" not in dispatch:
        message = 'winners of what? Name the tuning file: table = "tuning/gemm.json"'
        problems.add((*path, "dispatch", "keep"), message)
    return Kernel(
        name=name,
        source=file,
        function=(function or _base(symbol) or name).rpartition("::")[2],
        symbol=symbol,
        language=language,
        matrix=matrix,
        let=let,
        assume=_assume(table.get("assume", {}), (*path, "assume", "sets"), problems),
        hints=_hints(table.get("hints", {}), (*path, "hints"), problems),
        params=params,
        args=table.get("args"),
        launch=launch,
        default=scope.point(dispatch.get("default", ()), (*path, "dispatch", "default")),
        table=dispatch.get("table", ""),
        sizes=dispatch.get("sizes", ()),
        keep=dispatch.get("keep", "all"),
        rules=tuple(
            dataclasses.replace(
                rule, take=scope.point(rule.take, (*path, "dispatch", "rules", index, "take"))
            )
            for index, rule in enumerate(dispatch.get("rules", ()))
        ),
        budget=table.get("budget", Budget()),
        cases=read_cases(table, scope),
        options=_options(table, language, path, problems),
        checks=table.get("checks", ""),
        op=op,
    )


def _language(stated: str, file: str, path: Path, problems: Problems, languages: Languages) -> str:
    """Return the language of a kernel, or an empty string after a report."""
    if stated:
        if stated not in languages:
            problems.unknown((*path, "language"), "language", stated, tuple(languages))
        return stated if stated in languages else ""
    suffix = "." + file.rpartition(".")[2] if "." in file.rpartition("/")[2] else ""
    fits = [language for language, suffixes in languages.items() if suffix in suffixes]
    if len(fits) == 1:
        return fits[0]
    if fits:
        message = f'{suffix} files may be {" or ".join(fits)}: say which, for example language = "{fits[0]}"'
    else:
        known = ", ".join(
            f"{s} ({language})" for language, suffixes in languages.items() for s in suffixes
        )
        message = (
            f"no language has files that end in {suffix!r}: known are {known}"
            if suffix
            else f"the file has no suffix: known are {known}"
        )
    problems.add((*path, "source"), message)
    return ""


def _base(symbol: str) -> str:
    """Return `gemm` of `ns::gemm<{T}>`."""
    return symbol.partition("<")[0].strip().rpartition("::")[2]


def _check_symbol(symbol: str, function: str, scope: Scope) -> None:
    path = (*scope.path, "symbol")
    for match in re.finditer(r"\{([^{}]*)\}|[{}]", symbol):
        name = match[1]
        if name is None:
            scope.problems.add(
                path, f"{match[0]!r} has no partner: an axis is written {{T}}", index=match.start()
            )
        elif name not in (*scope.axes, *scope.let):
            known = did_you_mean(name, scope.axes) or (
                f"; known are {', '.join(scope.axes)}"
                if scope.axes
                else ": the kernel has no matrix"
            )
            scope.problems.add(path, f"unknown axis {name!r}{known}", index=match.start() + 1)
    if symbol and function and _base(symbol) != function.rpartition("::")[2]:
        scope.problems.add(
            path, f"the symbol is {_base(symbol)!r}, but the source says {function!r}"
        )


def _assume(table: dict[str, Any], path: Path, problems: Problems) -> tuple[AssumeSet, ...]:
    sets = tuple(map(_assume_set, table.get("sets", ())))
    facts = [dataclasses.replace(one, name="") for one in sets]
    names = [one.name for one in sets]
    for index, one in enumerate(facts):
        if one in facts[:index]:
            problems.add((*path, index), "this set is given twice")
        elif one == AssumeSet() and index < len(sets) - 1:
            message = "the empty set fits everything, so that no later set is tried: put it last"
            problems.add((*path, index), message)
        if names[index] and names[index] in names[:index]:
            problems.add((*path, index, "name"), f"{names[index]!r} already names another set")
    return sets


def _assume_set(table: dict[str, Any]) -> AssumeSet:
    aligned, contiguous = table.get("aligned", ()), table.get("contiguous", False)
    every = {
        "aligned": (("", aligned),) if isinstance(aligned, int) else aligned,
        "contiguous": contiguous if isinstance(contiguous, tuple) else ("",) if contiguous else (),
    }
    return AssumeSet(**{**table, **every})


def _hints(
    table: dict[str, Any], path: Path, problems: Problems
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    plain: list[tuple[str, int]] = []
    by_target = []
    for name, item in table.items():
        if isinstance(item, tuple):
            try:
                values.target(name)
            except ValueError as error:
                problems.add((*path, name), str(error), at_key=True)
            by_target.append((name, item))
        elif values.looks_like_target(name):
            problems.add(
                (*path, name), f"a table of hints is expected, such as {name} = {{ num_ctas = 2 }}"
            )
        else:
            plain.append((name, item))
    return ((("", tuple(plain)),) if plain else ()) + tuple(by_target)


def _check_param(param: ParamTable, scope: Scope) -> None:
    path, problems = (*scope.path, "params", param.name), scope.problems
    if param.name in (*scope.axes, *scope.let):
        problems.add(path, f"{param.name!r} is an axis of the matrix too", at_key=True)
    if param.dtype is not None:
        scope.dtype(param.dtype, (*path, "dtype"))
    if param.stride is not None and param.contiguous:
        problems.add((*path, "contiguous"), "stride says it already: give one of both", at_key=True)
    allowed = _KEYS_OF_KIND.get(param.kind or "", _KEYS_OF_SOME)
    for key in _KEYS_OF_SOME:
        if key not in allowed and getattr(param, key) != getattr(ParamTable(), key):
            problems.add((*path, key), f"does not concern a {param.kind}", at_key=True)


_KEYS_OF_KIND = {
    "tensor": ("rank", "out", "stride", "contiguous", "optional", "divisible", "aligned", "list"),
    "slice": ("rank", "out", "divisible", "aligned"),
    "scalar": ("default",),
    "ptr": ("aligned", "out"),
    "struct": ("size",),
}
_KEYS_OF_SOME = tuple(dict.fromkeys(key for keys in _KEYS_OF_KIND.values() for key in keys))


def _check_launch(launch: Launch, path: Path, problems: Problems) -> None:
    block = [int(text) for text in launch.block if text.isdigit()]
    if math.prod(block) > 1024:
        problems.add(
            (*path, "block"),
            f"a block of {' x '.join(map(str, block))} = {math.prod(block)} threads: the most is 1024",
        )
    elif len(block) == 3 and block[2] > 64:
        problems.add(
            (*path, "block", 2), f"{block[2]} threads in the third dimension: the most is 64"
        )
    if math.prod(launch.cluster) > 16:
        message = f"a cluster of {math.prod(launch.cluster)} blocks: the most is 16"
        problems.add((*path, "cluster"), message)


def _options(table: dict[str, Any], language: str, path: Path, problems: Problems) -> Options:
    source = table["source"][0]
    owners = {name: _languages_with(name) for name in table}
    read = {name: table[name] for name, languages in owners.items() if languages}
    for name in read:
        meant = f"; did you mean 'matrix.{name}'" if name in kernel_keys.MATRIX.by_name else ""
        if language and language not in owners[name]:
            problems.add(
                (*path, name),
                f"is an option of {owners[name][0]}, the kernel's language is {language}{meant}",
                at_key=True,
            )
        elif language == "tile" and source.endswith(".py") and name != kernel_keys.READ.name:
            problems.add(
                (*path, name),
                f"is an option of C++ sources, this one is Python{meant}",
                at_key=True,
            )
    for index, text in enumerate(read.get("link", ())):
        if text == source:
            problems.add(
                (*path, "link", index),
                "this is the source itself: link the files that define what it declares",
            )
    for name, _ in read.get("files", ()):
        try:
            values.project_path(name)
        except ValueError as error:
            problems.add((*path, "files", name), str(error), at_key=True)
        if name == source:
            problems.add(
                (*path, "files", name), "this is the source: its digest is sha256", at_key=True
            )
    return tuple(sorted(read.items()))


def _languages_with(option: str) -> list[str]:
    """Return the languages that have an option."""
    return [
        language
        for language, keys in kernel_keys.OPTIONS.items()
        if any(key.name == option for key in keys)
    ]
