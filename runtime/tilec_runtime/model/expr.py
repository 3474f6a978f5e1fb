"""The manifest's expression language: small formulas over parameters and axes, parsed once and
evaluated often; never run as Python.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Mapping
from typing import Any

from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.dtype import DTYPES, short_name
from tilec_runtime.model.expr_build import INT_BOUND, Builder, FaultError, Run
from tilec_runtime.model.expr_tree import column_of, parse_tree

# In `args`: a tensor that the kernel takes as a tensor descriptor.
DESCRIPTOR = "descriptor"

# Facts of the device that expressions of a launch may name; parameters and axes go before them.
DEVICE_FACTS = ("sm_count", "cc", "block_shared", "l2_size")

Value = int | bool | float | str


class Expr:
    """A parsed expression; equal texts are equal expressions.

    Attributes:
        text: as it was written.
        names: the parameters and axes that it reads.
        uses: (name, attribute) of each use: `("x", "stride")`, `("x", "nbytes")` for `nbytes(x)`,
            `("eps", "")` for a bare name.
        extents: (name, attribute, index) of each part of a shape or stride whose index is written
            out: `("x", "shape", -1)`.
        kind: of its value: `number`, `truth`, `text`, or `any` for a bare name.
        run: computes the value over parameters and axes; `evaluate` adds the errors.
    """

    __slots__ = ("extents", "kind", "names", "run", "text", "uses")

    # A value class with fields that are not compared would import `dataclasses` and `inspect`.
    def __init__(
        self,
        text: str,
        names: frozenset[str],
        uses: frozenset[tuple[str, str]],
        extents: frozenset[tuple[str, str, int]],
        kind: str,
        run: Run,
    ) -> None:
        """Use `parse`."""
        self.text = text
        self.names = names
        self.uses = uses
        self.extents = extents
        self.kind = kind
        self.run = run

    def __eq__(self, other: object) -> bool:
        """Whether it is the same text."""
        return isinstance(other, Expr) and other.text == self.text

    def __hash__(self) -> int:
        """Equal for the same text."""
        return hash(self.text)

    def __repr__(self) -> str:
        """`Expr('x.shape[0]')`."""
        return f"Expr({self.text!r})"

    def evaluate(self, env: Mapping[str, Any]) -> Value:
        """The expression's value.

        Args:
            env: axes and scalars by name as plain values; tensors as anything with `shape` and
                `stride` (elements), `size`, `ptr`, `dtype` (a dtype's name), and `nbytes` or
                `itemsize` (bytes).

        Raises:
            ExpressionError: a name is not in `env`, or a value does not fit (division by zero, no
                such dimension, too large).
        """
        try:
            value = self.run(env)
        except FaultError as fault:
            raise ExpressionError(
                f"{fault} in {self.text!r}{self._values(env)}", text=self.text, column=fault.column
            ) from None
        if value.__class__ is int and not -INT_BOUND < value < INT_BOUND:
            raise ExpressionError(
                f"the value of {self.text!r} is beyond 64 bits{self._values(env)}",
                text=self.text,
                column=1,
            )
        return value  # type: ignore[no-any-return]

    def _values(self, env: Mapping[str, Any]) -> str:
        shown = []
        for name, attribute in sorted(self.uses):
            if name in env:
                value = getattr(env[name], attribute, None) if attribute else env[name]
                if isinstance(value, int | float | str | tuple | list):
                    shown.append(f"{name}{'.' if attribute else ''}{attribute} = {value!r}")
        return f" with {', '.join(shown)}" if shown else ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Closures do not travel between processes: the text does."""
        return (parse, (self.text,))


def parse(text: str, *, names: Collection[str] | None = None) -> Expr:
    """Read an expression.

    Args:
        text: the expression.
        names: parameters and axes that it may use; None leaves names unchecked.

    Raises:
        ExpressionError: it is not of the language; `column` counts from 1 inside `text`.
    """
    found = _parse(text)
    if names is None or found.names <= frozenset(names):
        return found
    return _build(parse_tree(text), text, text, names)  # refuses the name, at its own column


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> Expr:
    return _build(parse_tree(text), text, text, None)


def parse_abi(text: str, *, names: Collection[str] | None = None) -> tuple[str, Expr]:
    """Read one argument of a kernel's entry point: (type, value).

    `y.ptr` gives `("ptr", y.ptr)`, `i32(x.shape[1])` gives `("i32", x.shape[1])`, and a bare
    parameter `eps` gives `("", eps)`: its type is the parameter's. `descriptor(x, BM, BK)` gives
    `("descriptor", x.ptr)`; `parse_box` reads the rest.

    Raises:
        ExpressionError: it is not of the language, or its type cannot be told.
    """
    node = parse_tree(text)
    if isinstance(node, ast.Name):
        return "", _build(node, text, text, names)
    if isinstance(node, ast.Attribute) and node.attr == "ptr":
        return "ptr", _build(node, text, text, names)
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.Call) and short_name(called) in DTYPES:
        if len(node.args) != 1 or node.keywords:
            raise ExpressionError(
                f"the cast {called}() takes one value",
                text=text,
                column=column_of(node, text),
            )
        inner = node.args[0]
        start, end = (
            column_of(inner, text) - 1,
            len(text.encode()[: inner.end_col_offset or 0].decode()),
        )
        return short_name(called), _build(inner, text, text[start:end], names)
    if isinstance(node, ast.Call) and called == DESCRIPTOR:
        return DESCRIPTOR, _described(node, text, names)
    _build(node, text, text, names)  # its own errors come first
    what = f"the argument's type cannot be told: write a cast, such as i32({text.strip()})"
    raise ExpressionError(what, text=text, column=column_of(node, text))


def parse_box(text: str) -> tuple[str, tuple[Expr, ...]]:
    """Tensor and extents of a box of `descriptor(x, BM, BK)`, which `parse_abi` has read."""
    node = parse_tree(text)
    assert isinstance(node, ast.Call)
    tensor, *box = map(ast.unparse, node.args)
    return tensor, tuple(map(parse, box))


def _described(node: ast.Call, text: str, names: Collection[str] | None) -> Expr:
    """The address of a tensor that is passed as a descriptor, of any strides, with all names that
    the descriptor reads.
    """
    if len(node.args) < 2 or node.keywords or not isinstance(node.args[0], ast.Name):
        what = f"{DESCRIPTOR}() takes a tensor and the extents of a box, such as {DESCRIPTOR}(x, BM, BK)"
        raise ExpressionError(what, text=text, column=column_of(node, text))
    tensor = node.args[0].id
    inner = [_build(arg, text, ast.unparse(arg), names) for arg in node.args[1:]]
    _build(node.args[0], text, tensor, names)
    found = parse(f"{tensor}.ptr")
    whole = found.names.union(*(part.names for part in inner))
    uses = found.uses.union({(tensor, "stride")}, *(part.uses for part in inner))
    extents = frozenset[tuple[str, str, int]]().union(*(part.extents for part in inner))
    return Expr(found.text, whole, uses, extents, found.kind, found.run)


def _build(node: ast.expr, text: str, own: str, names: Collection[str] | None) -> Expr:
    builder = Builder(text, names)
    kind, run = builder.build(node, 1)
    if kind == "tuple":
        raise builder.error(
            node, "a whole shape can only be compared: take one extent, such as x.shape[0]"
        )
    return Expr(
        own,
        frozenset(builder.names),
        frozenset(builder.uses),
        frozenset(builder.extents),
        kind,
        run,
    )
