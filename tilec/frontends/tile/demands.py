"""Read a safe kernel's preconditions, and derive its grid from its outputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from tilec.frontends.tile.safe import OUTPUTS, OWNED, SafeParam
from tilec.frontends.tools.python_errors import characters, line_of
from tilec_runtime.errors import Diagnostic, ExpressionError, Location
from tilec_runtime.model import expr
from tilec_runtime.model.suggest import did_you_mean


def grid_of(params: Sequence[SafeParam]) -> tuple[str, ...]:
    """How many blocks there are: as many as the largest output has tiles; of mapped outputs, at
    most so many. Empty without outputs.
    """
    outputs = [param for param in params if param.access in OUTPUTS]
    if not outputs:
        return ()
    first = max(outputs, key=lambda param: param.rank)
    tiles = tuple(_tiles(first, axis) for axis in range(first.rank))
    return tiles if first.access in OWNED else (" * ".join(tiles),)


def same_grid(params: Sequence[SafeParam]) -> Iterator[str]:
    """That owned outputs have as many tiles along each axis as the grid has blocks: two blocks
    would write one region otherwise.
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


class Demands:
    """Reads a kernel's preconditions."""

    def __init__(
        self,
        params: Sequence[SafeParam],
        node: ast.FunctionDef | None,
        at: Location,
        texts: Mapping[str, str],
    ) -> None:
        self._params = {param.name: param for param in params}
        self._names = {*self._params, *(axis for param in params for axis in param.axes)}
        self._places = _places(node)
        self._at, self._texts = at, texts
        self.problems: list[Diagnostic] = []

    def read(self, conditions: Sequence[str], axes: Sequence[str] = ()) -> tuple[str, ...]:
        """Each condition as the manifest would have it, with `x.shape[k]` for `dim(x, k)`; what is
        wrong goes to `problems`.

        `axes` are names besides those of the signature.
        """
        self._names.update(axes)
        nodes: Sequence[ast.Constant | None] = (
            self._places
            if [node.value for node in self._places] == list(conditions)
            else [None] * len(conditions)
        )
        found = []
        for text, node in zip(conditions, nodes, strict=True):
            try:
                found.append(self._checked(text))
            except ExpressionError as error:
                self.problems.append(self._diagnostic(error, node))
        return tuple(found)

    def _checked(self, text: str) -> str:
        plain = self._plain(text)
        parsed = expr.parse(plain, names=self._names)
        for name, attribute in sorted(parsed.uses):
            array = name in self._params and self._params[name].rank >= 0
            if attribute and not array:
                raise ExpressionError(
                    f"{name} is no array: it has no {attribute}", text=text, column=1
                )
            if not attribute and array:
                raise ExpressionError(
                    f"{name} is an array: say dim({name}, 0), {name}.size or {name}.dtype",
                    text=text,
                    column=1,
                )
        for name, attribute, index in sorted(parsed.extents):
            rank = self._params[name].rank
            if not -rank <= index < rank:
                raise ExpressionError(
                    f"{name} has {rank} dimensions: there is no {attribute} {index}",
                    text=text,
                    column=1,
                )
        if parsed.kind not in ("truth", "any"):
            raise ExpressionError(
                f"{text!r} is no condition: compare it, as in dim(x, 0) == dim(y, 0)",
                text=text,
                column=1,
            )
        return plain

    def _plain(self, text: str) -> str:
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError):
            return text  # the parser of expressions says what is wrong
        plain = text.strip().encode()
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "dim"
        ]
        for call in sorted(calls, key=lambda node: node.col_offset, reverse=True):
            match call.args:
                case [
                    ast.Name(id=name),
                    ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant()) as axis,
                ] if not call.keywords:
                    if name not in self._params:
                        what = f"unknown name {name!r}{did_you_mean(name, self._params)}"
                        raise ExpressionError(what, text=text, column=call.args[0].col_offset + 1)
                    plain = (
                        plain[: call.col_offset]
                        + f"{name}.shape[{ast.unparse(axis)}]".encode()
                        + plain[call.end_col_offset :]
                    )
                case _:
                    raise ExpressionError(
                        "dim takes an array and an axis: dim(x, 1)",
                        text=text,
                        column=call.col_offset + 1,
                    )
        return plain.decode()

    def _diagnostic(self, error: ExpressionError, node: ast.Constant | None) -> Diagnostic:
        at = self._at
        if node is not None:
            line = line_of(self._texts, at.file, node.lineno)
            # Its text begins behind the quote.
            at = Location(
                file=at.file,
                line=node.lineno,
                column=characters(line, node.col_offset) + 1 + max(error.column, 1),
            )
        excerpt = line_of(self._texts, at.file, at.line)
        return Diagnostic(message=f"precondition: {error.what}", location=at, excerpt=excerpt)


def _places(node: ast.FunctionDef | None) -> list[ast.Constant]:
    found: list[ast.Constant] = []
    for decorator in node.decorator_list if node else ():
        if (
            isinstance(decorator, ast.Call)
            and ast.unparse(decorator.func).rpartition(".")[2] == "preconditions"
        ):
            found.extend(arg for arg in decorator.args if isinstance(arg, ast.Constant))
    return found
