"""Enumerate the points of a matrix, and evaluate derived axes at them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from tilec.manifest.types import Exclude, Kernel
from tilec.model.declaration import KernelDecl
from tilec.model.job import Variant
from tilec.plan.report import Report
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.suggest import did_you_mean
from tilec_runtime.model.table import same_point

Point = tuple[tuple[str, AxisValue], ...]


def axis_values(kernel: Kernel, name: str) -> list[AxisValue]:
    """Return the values of an axis, with those of included points; empty for another name."""
    included = [value for point in kernel.matrix.include for axis, value in point if axis == name]
    return [*dict(kernel.matrix.axes).get(name, ()), *included]


# A name, or a quoted string, whose words are no names.
_NAME = re.compile(r"""'[^']*'|"[^"]*"|(?<![\w.])[^\W\d]\w*""")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MatrixPoint:
    """A point of a matrix: the values of its axes, and those of the derived axes."""

    axes: Point
    let: Point = ()


def with_points(
    kernel: Kernel, decl: KernelDecl, report: Report
) -> tuple[Kernel, tuple[MatrixPoint, ...]]:
    """Return the points of a kernel's matrix, and the kernel with the axes that they add.

    These are the axes of the source's configurations, and the derived axes. The first point that
    agrees with the manifest's default completes the default.
    """
    matrix, default = kernel.matrix, dict(kernel.default)
    configs = _configs(kernel, decl, report) if matrix.autotune else ((),)
    points = tuple(_points(kernel, configs, report))
    added: dict[str, dict[AxisValue, None]] = {}
    for name in (*dict(configs[0]), *dict(kernel.let)):
        added[name] = {}
    first = next((point.axes for point in points if same_point(point.axes, default)), ())
    default.update(pair for pair in first if pair[0] in added and pair[0] not in default)
    for point in points:
        for name, value in (*point.axes, *point.let):
            if name in added:
                added[name][value] = None
    axes = (*matrix.axes, *((name, tuple(values)) for name, values in added.items()))
    matrix = dataclasses.replace(matrix, axes=axes)
    return dataclasses.replace(kernel, matrix=matrix, default=tuple(default.items())), points


def _configs(kernel: Kernel, decl: KernelDecl, report: Report) -> Sequence[Point]:
    """Return the configurations of the source, without axes that the manifest gives."""
    own = dict(kernel.matrix.axes)
    stated = {*own, *dict(kernel.let)}
    configs = tuple(
        dict.fromkeys(
            tuple(pair for pair in config if pair[0] not in stated) for config in decl.configs
        )
    )
    fault = ""
    names = [{name for name, _ in config} for config in configs]
    if not any(names):
        fault = f"{decl.name} has no @triton.autotune whose configurations could be taken"
    elif odd := names[0].union(*names) - names[0].intersection(*names):
        fault = f"some configurations of {decl.name} say nothing of {', '.join(sorted(odd))}: make it an axis of the matrix"
    if fault:
        report(fault, "matrix")
        return ((),)
    for param in decl.params:
        replaced = [name for name in param.reads if name in own]
        if replaced and param.name in dict(configs[0]):
            report(
                f"{decl.name} computes {param.name} from {replaced[0]} by a heuristic, and the matrix gives "
                f'{replaced[0]} other values: compute it too, such as let.{param.name} = "…"',
                "matrix",
            )
    return configs


def _points(kernel: Kernel, configs: Sequence[Point], report: Report) -> Iterator[MatrixPoint]:
    """Yield the points of a matrix in order, each with every configuration."""
    matrix = kernel.matrix
    names = [*dict(matrix.axes), *dict(configs[0])]
    total = math.prod(len(values) for _, values in matrix.axes) * len(configs)
    if total > 1_000_000:
        report(f"the matrix is a product of {total} points: that is no build", "matrix")
        return
    products = itertools.product(*([(n, value) for value in values] for n, values in matrix.axes))
    points = [(*pairs, *config) for pairs, config in itertools.product(products, configs)]
    for index, rule in enumerate(matrix.exclude):
        try:
            when = expr.parse(inlined(kernel, rule.when) or "True", names=names)
            points = [point for point in points if not _excludes(rule, when, point)]
        except ExpressionError as error:
            report(error.what, "matrix", "exclude", index, "when", column=error.column)
    for index, included in enumerate(matrix.include):
        given, at = dict(included), report.at("matrix", "include", index)
        strange = [name for name in given if name not in names]
        for name in strange:
            at(f"unknown axis {name!r}{did_you_mean(name, names)}", name)
        if missing := ", ".join(name for name in names if name not in given):
            at(f"an included point gives every axis, and lacks {missing}")
        elif not strange:
            points.append(tuple((name, given[name]) for name in names))
    for point in dict.fromkeys(points):
        yield MatrixPoint(axes=point, let=tuple(derived_at(kernel, point, report)))


def _excludes(rule: Exclude, when: expr.Expr, point: Point) -> bool:
    """Return whether a rule leaves out a point; `when` is its parsed condition."""
    axes = dict(point)
    fits = all(axes.get(name) == value for name, value in rule.values)
    return fits and bool(when.evaluate(axes))


def is_for(kernel: Kernel, point: Point, target: Target) -> bool:
    """Whether a point is built for a target: axes may have different values by target."""
    at = dict(point)
    for name, by_target in kernel.matrix.by_target:
        values = dict(by_target)
        own = values.get(str(target), values.get("*", ()))
        if at[name] not in own and any(at[name] in each for each in values.values()):
            return False
    return True


def for_targets(
    kernel: Kernel, variants: tuple[Variant, ...], targets: Sequence[Target]
) -> tuple[Variant, ...]:
    """Return the variants whose points are built for any of the targets."""
    if not kernel.matrix.by_target:
        return variants
    return tuple(v for v in variants if any(is_for(kernel, v.axes, target) for target in targets))


def derived_at(
    kernel: Kernel, point: Point, report: Report | None = None
) -> Iterator[tuple[str, AxisValue]]:
    """Yield the derived axes with their values at a point, in order.

    An axis that cannot be evaluated ends the result with a report; without `report` it is skipped.
    """
    env = dict(point)
    for name, text in kernel.let:
        try:
            env[name] = expr.parse(text).evaluate(env)
        except ExpressionError as error:
            if report is None:
                continue
            report(error.what, "let", name, column=error.column)
            return
        yield name, env[name]


def inlined(kernel: Kernel, text: str) -> str:
    """Return a launch expression with derived axes replaced by their formulas."""
    formulas: dict[str, str] = {}
    for name, formula in kernel.let:
        formulas[name] = f"({filled(formula, formulas)})"
    return filled(text, formulas)


def filled(text: str, names: Mapping[str, object]) -> str:
    """Return an expression with names replaced by values or formulas."""
    return _NAME.sub(lambda match: str(names.get(match[0], match[0])), text) if names else text
