"""Read a safe kernel's preconditions, and derive its grid from its outputs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from tilec.frontends.tile.safe import OUTPUTS, OWNED, SafeParam
from tilec.frontends.tools.python_errors import characters, line_of, located
from tilec_runtime.errors import Diagnostic, ExpressionError, Location
from tilec_runtime.model import expr

_DIM = re.compile(r"\bdim\(\s*(\w+)\s*,\s*(-?\d+)\s*\)")


def grid_of(params: Sequence[SafeParam]) -> tuple[str, ...]:
    """Return the expression of the grid: the tile count of the largest output, a maximum for mapped
    outputs; empty without outputs.
    """
    outputs = [param for param in params if param.access in OUTPUTS]
    if not outputs:
        return ()
    first = max(outputs, key=lambda param: param.rank)
    tiles = tuple(_tiles(first, axis) for axis in range(first.rank))
    return tiles if first.access in OWNED else (" * ".join(tiles),)


def same_grid(params: Sequence[SafeParam]) -> Iterator[str]:
    """Return the conditions that owned outputs have as many tiles along each axis as the grid has
    blocks: otherwise two blocks would write one region.
    """
    outputs = [param for param in params if param.access in OWNED]
    first = max(outputs, key=lambda param: param.rank, default=None)
    for param in outputs:
        if first is None or param is first:
            continue
        for axis in range(first.rank):
            mine = _tiles(param, axis) if axis < param.rank else "1"
            if mine != _tiles(first, axis):
                yield f"{mine} == {_tiles(first, axis)}"


def _tiles(param: SafeParam, axis: int) -> str:
    return "1" if axis == param.axis else f"cdiv({param.name}.shape[{axis}], {param.tile[axis]})"


def preconditions(
    conditions: Sequence[str],
    params: Sequence[SafeParam],
    axes: Sequence[str],
    node: ast.FunctionDef,
    at: Location,
    texts: Mapping[str, str],
) -> tuple[tuple[str, ...], list[Diagnostic]]:
    """Read a kernel's preconditions.

    Args:
        conditions: as written.
        params: its parameters.
        axes: axes that its code names, besides those of the signature.
        node: its definition.
        at: the location of its name.
        texts: of the project's files.

    Returns:
        Each condition in the syntax of the manifest, with `x.shape[k]` for `dim(x, k)`, and an
        error for each that is invalid.
    """
    arrays = {param.name: param for param in params if param.rank >= 0}
    names = {axis for param in params for axis in (param.name, *param.axes)}.union(axes)
    written = _written(node)
    if [constant.value for constant in written] != list(conditions):
        written = []  # made by an expression
    found, problems = [], []
    for place, text in enumerate(conditions):
        plain = _DIM.sub(r"\1.shape[\2]", text)
        try:
            _check(text, expr.parse(plain, names=names), arrays)
        except ExpressionError as error:
            where = at
            if written:
                line = line_of(texts, at.file, written[place].lineno)
                # The text begins behind the quote.
                column = characters(line, written[place].col_offset) + 2
                where = Location(file=at.file, line=written[place].lineno, column=column)
            problems.append(located(texts, where, f"precondition: {error.what}"))
        found.append(plain)
    return tuple(found), problems


def _check(text: str, parsed: expr.Expr, arrays: Mapping[str, SafeParam]) -> None:
    for name, attribute in sorted(parsed.uses):
        if attribute and name not in arrays:
            raise ExpressionError(f"{name} is no array: it has no {attribute}")
        if not attribute and name in arrays:
            raise ExpressionError(
                f"{name} is an array: say dim({name}, 0), {name}.size or {name}.dtype"
            )
    for name, attribute, index in sorted(parsed.extents):
        rank = arrays[name].rank
        if not -rank <= index < rank:
            raise ExpressionError(f"{name} has {rank} dimensions: there is no {attribute} {index}")
    if parsed.kind not in ("truth", "any"):
        what = f"{text!r} is not a condition: compare it, as in dim(x, 0) == dim(y, 0)"
        raise ExpressionError(what)


def _written(node: ast.FunctionDef) -> list[ast.Constant]:
    """Return the texts in the decorators `@tl.preconditions(…)` of a function."""
    return [
        argument
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func).rpartition(".")[2] == "preconditions"
        for argument in decorator.args
        if isinstance(argument, ast.Constant)
    ]
