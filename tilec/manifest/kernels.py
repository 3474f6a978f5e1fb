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
from tilec.manifest.matrix import read_derived, read_matrix
from tilec.manifest.problems import Problems, Scope
from tilec.manifest.shapes import BAD
from tilec.manifest.types import (
    AssumeSet,
    Budget,
    Kernel,
    Launch,
    Op,
    OpOutput,
    ParamTable,
)
from tilec.model.job import Options
from tilec_runtime.model.operator import BackwardInfo
from tilec_runtime.model.suggest import did_you_mean
from tilec_runtime.model.table import DispatchRule

Languages = Mapping[str, tuple[str, ...]]


def read_kernel(
    name: str, entries: dict[str, Any], path: Path, problems: Problems, languages: Languages
) -> Kernel | None:
    """Return one kernel, or None if its source or language is missing."""
    if message := values.kernel_name_problem(name):
        problems.add(path, message, at_key=True)
    file, function = entries.get("source", ("", ""))
    language = _language(entries, file, path, problems, languages) if file else ""
    table = entries.get("matrix", {})
    table = {"autotune": True} if table == "autotune" else table
    named = tuple(entries.get("let", {}))
    matrix, axes = read_matrix(table, named, (*path, "matrix"), problems)
    let = read_derived(
        entries.get("let", {}), Scope((*path, "let"), axes, problems, open=matrix.autotune)
    )
    scope = Scope(path, axes, problems, named, open=matrix.autotune)
    symbol = entries.get("symbol", "")
    _check_symbol(symbol, function, scope)
    params = tuple(
        _param(param, table, scope) for param, table in entries.get("params", {}).items()
    )
    for param in params:
        if param.name in (*axes, *scope.let):
            problems.add(
                (*path, "params", param.name),
                f"{param.name!r} is an axis of the matrix too",
                at_key=True,
            )
    options = _options(entries, language, path, problems)
    if not file or not language:
        return None
    launch = kernel_keys.LAUNCH.make(entries.get("launch", {}))
    _check_launch(launch, (*path, "launch"), problems)
    return Kernel(
        name=name,
        source=file,
        function=(function or _base(symbol) or name).rpartition("::")[2],
        symbol=symbol,
        language=language,
        matrix=matrix,
        let=let,
        assume=_assume(entries, scope),
        hints=_hints(entries.get("hints", {}), (*path, "hints"), problems),
        params=params,
        args=entries.get("args"),
        launch=launch,
        **_dispatch(entries.get("dispatch", {}), (*path, "dispatch"), scope),
        budget=Budget(**entries.get("budget", {})),
        cases=read_cases(entries, scope),
        options=options,
        checks=entries.get("checks", ""),
        op=_op(entries["op"], (*path, "op"), problems) if "op" in entries else None,
    )


def _op(entries: dict[str, Any], path: Path, problems: Problems) -> Op:
    outputs = []
    for name, table in entries.get("outputs", {}).items():
        at = (*path, "outputs", name)
        if ("like" in table) == ("shape" in table):
            problems.add(at, "say one of like and shape", at_key=True)
        outputs.append(OpOutput(name=name, **table))
    backward = entries.get("backward")
    if isinstance(backward, str):
        backward = {"kernel": backward}
    return Op(
        outputs=tuple(outputs),
        backward=BackwardInfo(
            kernel=backward["kernel"], args=tuple(backward.get("args", {}).items())
        )
        if backward and "kernel" in backward
        else None,
    )


def _language(
    table: dict[str, Any], file: str, path: Path, problems: Problems, languages: Languages
) -> str:
    stated = table.get("language")
    if stated is not None:
        if stated in languages:
            return str(stated)
        problems.unknown((*path, "language"), "language", stated, tuple(languages))
        return ""
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


def _dispatch(table: dict[str, Any], path: Path, scope: Scope) -> dict[str, Any]:
    """Return the fields that choose a variant."""
    if table.get("keep") == "winners" and "table" not in table:
        scope.problems.add(
            (*path, "keep"), 'winners of what? Name the tuning file: table = "tuning/gemm.json"'
        )
    read = {key: table[key] for key in ("table", "sizes", "keep") if table.get(key, BAD) is not BAD}
    return {
        "default": scope.point(table.get("default", {}), (*path, "default")),
        "rules": _rules(table, path, scope),
        **read,
    }


def _rules(table: dict[str, Any], path: Path, scope: Scope) -> tuple[DispatchRule, ...]:
    rules = []
    for index, rule in enumerate(table.get("rules", ())):
        if rule is BAD:
            continue
        here = (*path, "rules", index)
        take = scope.point(rule.get("take", {}), (*here, "take"))
        wrong = any(
            problem.path[: len(here) + 1] == (*here, "take") for problem in scope.problems.collected
        )  # `point` left out wrong values
        if not take and "take" in rule and not wrong:
            scope.problems.add(
                (*here, "take"), "an empty table: say which axis values these launches take"
            )
        when = rule.get("when", "")
        rules.append(DispatchRule(when="" if when is BAD else when, take=take))
    return tuple(rules)


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


def _assume(entries: dict[str, Any], scope: Scope) -> tuple[AssumeSet, ...]:
    path, problems = (*scope.path, "assume", "sets"), scope.problems
    sets = entries.get("assume", {}).get("sets")
    if sets is None:
        return (AssumeSet(),)
    depth = len(path)
    flawed = {p.path[depth] for p in problems.collected if p.path[:depth] == path != p.path}
    read: list[AssumeSet] = []
    named: set[str] = set()
    for index, table in enumerate(sets):
        if table is BAD or index in flawed:
            continue
        one = _assume_set(table)
        facts = dataclasses.replace(one, name="")
        if any(facts == dataclasses.replace(other, name="") for other in read):
            problems.add((*path, index), "this set is given twice")
        elif facts == AssumeSet() and index < len(sets) - 1:
            problems.add(
                (*path, index),
                "the empty set fits everything, so that no later set is tried: put it last",
            )
        if one.name and one.name in named:
            problems.add((*path, index, "name"), f"{one.name!r} names another set already")
        named.add(one.name)
        read.append(one)
    return tuple(read)


def _assume_set(table: dict[str, Any]) -> AssumeSet:
    aligned, contiguous = table.get("aligned", {}), table.get("contiguous", False)
    return AssumeSet(
        name=table.get("name", ""),
        divisible=tuple(table.get("divisible", {}).items()),
        stride=tuple(table.get("stride", {}).items()),
        aligned=(("", aligned),) if isinstance(aligned, int) else tuple(aligned.items()),
        extent=tuple(
            (param, tuple(None if item == "?" else item for item in items))
            for param, items in table.get("extent", {}).items()
        ),
        contiguous=contiguous if isinstance(contiguous, tuple) else ("",) if contiguous else (),
    )


def _hints(
    table: dict[str, Any], path: Path, problems: Problems
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    plain: list[tuple[str, int]] = []
    by_target = []
    for name, item in table.items():
        if isinstance(item, dict):
            try:
                values.target(name)
            except ValueError as error:
                problems.add((*path, name), str(error), at_key=True)
            by_target.append((name, tuple(item.items())))
        elif values.looks_like_target(name):
            problems.add(
                (*path, name), f"a table of hints is expected, such as {name} = {{ num_ctas = 2 }}"
            )
        else:
            plain.append((name, item))
    return ((("", tuple(plain)),) if plain else ()) + tuple(by_target)


def _param(name: str, table: dict[str, Any], scope: Scope) -> ParamTable:
    path, problems = (*scope.path, "params", name), scope.problems
    if "dtype" in table:
        scope.dtype(table["dtype"], (*path, "dtype"))
    if "stride" in table and table.get("contiguous"):
        problems.add((*path, "contiguous"), "stride says it already: give one of both", at_key=True)
    kind = table.get("kind")
    for wrong, allowed in _KEYS_OF_KIND.items():
        for key in (
            "rank",
            "out",
            "stride",
            "contiguous",
            "optional",
            "divisible",
            "aligned",
            "size",
            "default",
            "list",
        ):
            if kind == wrong and key in table and key not in allowed:
                problems.add((*path, key), f"does not concern a {wrong}", at_key=True)
    fields = dict(table)
    if "stride" in table:
        fields["stride"] = tuple(None if item == "?" else item for item in table["stride"])
    return ParamTable(name=name, **fields)


_KEYS_OF_KIND = {
    "tensor": ("rank", "out", "stride", "contiguous", "optional", "divisible", "aligned", "list"),
    "slice": ("rank", "out", "divisible", "aligned"),
    "scalar": ("default",),
    "ptr": ("aligned", "out"),
    "struct": ("size",),
}


def _check_launch(launch: Launch, path: Path, problems: Problems) -> None:
    block = [int(text) for text in launch.block if text is not BAD and text.isdigit()]
    if math.prod(block) > 1024:
        problems.add(
            (*path, "block"),
            f"a block of {' x '.join(map(str, block))} = {math.prod(block)} threads: the most is 1024",
        )
    elif len(block) == 3 and block[2] > 64:
        problems.add(
            (*path, "block", 2), f"{block[2]} threads in the third dimension: the most is 64"
        )
    cluster = [item for item in launch.cluster if item is not BAD]
    if math.prod(cluster) > 16:
        problems.add(
            (*path, "cluster"), f"a cluster of {math.prod(cluster)} blocks: the most is 16"
        )


def _options(table: dict[str, Any], language: str, path: Path, problems: Problems) -> Options:
    source = table.get("source", ("", ""))[0]
    owners: dict[str, list[str]] = {}
    for owner, options in kernel_keys.OPTIONS.items():
        for key in options:
            owners.setdefault(key.name, []).append(owner)
    read = {name: table[name] for name in owners if name in table}
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
    for name in read.get("files", ()):
        try:
            values.project_path(name)
        except ValueError as error:
            problems.add((*path, "files", name), str(error), at_key=True)
        if name == source:
            problems.add(
                (*path, "files", name), "this is the source: its digest is sha256", at_key=True
            )
    return options_of(read)


def options_of(read: Mapping[str, Any]) -> Options:
    """Return options in the model's form: sorted, with tables as pairs of strings."""
    return tuple(
        (
            name,
            tuple((key, str(item)) for key, item in value.items())
            if isinstance(value, dict)
            else value,
        )
        for name, value in sorted(read.items())
    )
