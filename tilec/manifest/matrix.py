"""The matrix of a kernel: axes, included and excluded points, derived axes."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilec.manifest import kernel_keys, values
from tilec.manifest.locate import Path
from tilec.manifest.problems import Axes, Problems, Scope, shown
from tilec.manifest.types import Exclude, Matrix
from tilec_runtime.model.dtype import DTYPES, short_name
from tilec_runtime.model.kernel import AxisValue

Pairs = tuple[tuple[str, str], ...]
Point = tuple[tuple[str, AxisValue], ...]
# Values of an axis by the name of a target, or `*`.
ByTarget = tuple[tuple[str, tuple[AxisValue, ...]], ...]


def read_matrix(
    table: dict[str, Any] | str, let: Pairs, path: Path, problems: Problems
) -> tuple[Matrix, Axes]:
    """Return the matrix, and its axes with the additional values of included points.

    Args:
        table: the table that was read, or `autotune`.
        let: the derived axes, which excluded points may use.
        path: key path of the table.
        problems: collects problems.
    """
    table = {"autotune": True} if isinstance(table, str) else table
    by_target: dict[str, ByTarget] = {}
    axes: Axes = {}
    for name, items in table.items():
        if name not in kernel_keys.MATRIX.by_name:
            axes[name] = _axis(name, items, by_target, (*path, name), problems)
    whole = table.get("autotune", False)
    include = _include(table.get("include", ()), Scope(path, axes, problems, open=whole))
    scope = Scope(path, _with_points(axes, include), problems, open=whole)
    matrix = Matrix(
        axes=tuple(axes.items()),
        exclude=_exclude(table.get("exclude", ()), scope, {*scope.axes, *dict(let)}),
        include=include,
        by_target=tuple(by_target.items()),
        autotune=whole,
        max_variants=table.get("max-variants", Matrix().max_variants),
    )
    return matrix, scope.axes


def _axis(
    name: str, items: Any, by_target: dict[str, ByTarget], path: Path, problems: Problems
) -> tuple[AxisValue, ...]:
    """Return the values of an axis; values by target are added to `by_target` too."""
    if isinstance(items, dict):
        _check_targets(items, path, problems)
        by_target[name] = tuple((key, _as_dtypes(each)) for key, each in items.items())
        items = tuple(dict.fromkeys(item for each in items.values() for item in each))
    if keyword.iskeyword(name):
        message = f"{name!r} is a keyword of Python: expressions cannot name this axis"
        problems.add(path, message, at_key=True)
    _check_axis(name, items, path, problems)
    return _as_dtypes(items)


def _include(points: Sequence[Point], scope: Scope) -> tuple[Point, ...]:
    include = tuple(
        tuple((name, scope.value(name, value)) for name, value in point) for point in points
    )
    for index, point in enumerate(include):
        _check_point(dict(point), scope, (*scope.path, "include", index))
    return include


def _with_points(axes: Axes, points: Iterable[Iterable[tuple[str, AxisValue]]]) -> Axes:
    """Return the axes extended by the values of points; values of another type are left out."""
    reach = {name: dict.fromkeys(items) for name, items in axes.items()}
    for name, value in itertools.chain.from_iterable(points):
        if axes.get(name) and type(value) is type(axes[name][0]):
            reach[name][value] = None
    return {name: tuple(items) for name, items in reach.items()}


def _exclude(rules: Sequence[dict[str, Any]], scope: Scope, names: set[str]) -> tuple[Exclude, ...]:
    exclude = []
    for index, rule in enumerate(rules):
        path = (*scope.path, "exclude", index)
        when = rule.get("when", "")
        if when:
            scope.expression(when, names, (*path, "when"))
        point = tuple(pair for pair in rule.items() if pair[0] != "when")
        exclude.append(Exclude(when=when, values=scope.point(point, path)))
    return tuple(exclude)


def _check_targets(table: Mapping[str, object], path: Path, problems: Problems) -> None:
    """Report keys of a table of values by target that are no targets."""
    for key in table:
        try:
            key == "*" or values.target(key)
        except ValueError as error:
            problems.add((*path, key), f'{error}; "*" stands for all others', at_key=True)


def check_derived(let: Pairs, scope: Scope) -> None:
    """Check the derived axes: each may use the axes of the matrix and earlier derived ones."""
    known = set(scope.axes)
    for name, text in let:
        path = (*scope.path, name)
        if name in scope.axes or keyword.iskeyword(name):
            message = "an axis of the matrix too" if name in scope.axes else "a keyword of Python"
            scope.problems.add(path, f"{name!r} is {message}", at_key=True)
        scope.expression(text, known, path)
        known.add(name)


def _as_dtypes(items: tuple[AxisValue, ...]) -> tuple[AxisValue, ...]:
    """Return the values of an axis, with short names if all of them are dtypes."""
    short = [short_name(item) if isinstance(item, str) else item for item in items]
    return tuple(dict.fromkeys(short)) if all(item in DTYPES for item in short) else items


def _check_axis(name: str, items: tuple[Any, ...], path: Path, problems: Problems) -> None:
    # "None" of Triton may stand beside values of any type.
    items = tuple(item for item in items if item != "None")
    for index, item in enumerate(items):
        if type(item) is not type(items[0]):
            message = f"{shown(item)} is {_KIND[type(item)]}, {shown(items[0])} is {_KIND[type(items[0])]}: the values of an axis are of one type"
            problems.add((*path, index), message)
            return
    dtypes = any(item in DTYPES for item in items)
    for index, item in enumerate(items):
        if dtypes and short_name(item) not in DTYPES:
            problems.unknown((*path, index), f"dtype on axis {name}:", item, tuple(DTYPES))


_KIND: dict[type, str] = {str: "text", int: "an integer", float: "a float", bool: "a boolean"}


def _check_point(point: dict[str, AxisValue], scope: Scope, path: Path) -> None:
    for name, value in point.items():
        inner, known = (*path, name), scope.axes.get(name)
        if scope.axis(name, inner) and known and type(value) is not type(known[0]):
            message = f"{shown(value)} is {_KIND[type(value)]}, the axis has {_KIND[type(known[0])]} such as {shown(known[0])}"
            scope.problems.add(inner, message)
