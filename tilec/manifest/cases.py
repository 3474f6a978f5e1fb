"""Case tables: named inputs, reference, tolerance and work of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilec.manifest import keys
from tilec.manifest.scan import Path
from tilec.manifest.scope import Scope
from tilec.manifest.shapes import BAD
from tilec.manifest.types import Case, Input, Tolerance
from tilec_runtime.model.expr import parse


def read_cases(found: Mapping[str, dict[str, Any]], scope: Scope) -> tuple[Case, ...]:
    """The cases of one kernel."""
    return tuple(
        _case(name, table, (*scope.path, "case", name), scope) for name, table in found.items()
    )


def _case(name: str, found: dict[str, Any], path: Path, scope: Scope) -> Case:
    inputs = []
    # A shape may use the inputs before it: names that come later are not there yet when it is
    # worked out.
    names, later = set(scope.axes), set(found.get("inputs", {}))
    for parameter, item in found.get("inputs", {}).items():
        inputs.append(_input(parameter, item, names, later, (*path, "inputs", parameter), scope))
        later.discard(parameter)
        names.add(parameter)
    file, function = found.get("reference", ("", ""))
    return Case(
        name=name,
        inputs=tuple(inputs),
        reference=f"{file}:{function}" if file else "",
        tolerance=_tolerance(found.get("tolerance", {})),
        axes=scope.point(found.get("axes", {}), (*path, "axes")),
        bench=keys.BENCH.make(found["bench"]) if found.get("bench") else None,
    )


def _input(
    name: str, item: Any, names: set[str], later: set[str], path: Path, scope: Scope
) -> Input:
    if not isinstance(item, dict):
        return Input(name=name, value=item)
    if "dtype" in item:
        scope.dtype(item["dtype"], (*path, "dtype"))
    for key in ("shape", "small"):
        _extents(name, key, item.get(key, ()), names, later, path, scope)
    shape, small = item.get("shape", ()), item.get("small", BAD)
    if small is not BAD and shape is not BAD and len(small) != len(shape):
        scope.problems.add(
            (*path, "small"),
            f"the number of extents is {len(small)}, and that of shape {len(shape)}",
        )
    bounded = item.get("dist") in ("uniform", "integers")
    reported = {
        p.path[len(path)]
        for p in scope.problems.found
        if p.path[: len(path)] == path and len(p.path) > len(path)
    }
    unread = (
        "dist" in reported or reported - keys.INPUT.by_name.keys()
    )  # a wrong key may have been meant for `dist`
    for key in ("low", "high"):
        if key in item and not bounded and not unread:
            scope.problems.add(
                (*path, key),
                f"bounds uniform and integers only, dist is {item.get('dist', Input(name='').dist)}",
                at_key=True,
            )
    if bounded and item.get("low", 0.0) >= item.get("high", float("inf")):
        scope.problems.add(
            (*path, "high"), f"{item['high']} is not above low = {item.get('low', 0.0)}"
        )
    return Input(name=name, **item)


def _extents(
    name: str, key: str, extents: Any, names: set[str], later: set[str], path: Path, scope: Scope
) -> None:
    """Check what the extents of an input use."""
    for index, text in enumerate(() if extents is BAD else extents):
        if text is BAD or text.isdigit():
            continue
        ahead = sorted(parse(text).names & later - names)
        if ahead:
            what = (
                "itself"
                if ahead[0] == name
                else f"{ahead[0]!r}, which comes after it: put {ahead[0]} first"
            )
            scope.problems.add((*path, key, index), f"uses {what}")
        else:
            scope.expression(text, names, (*path, key, index))


def _tolerance(found: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    plain = {key: value for key, value in found.items() if not isinstance(value, dict)}
    by_dtype = tuple(
        Tolerance(dtype=dtype, **table) for dtype, table in found.items() if isinstance(table, dict)
    )
    return ((Tolerance(**plain),) if plain else ()) + by_dtype
