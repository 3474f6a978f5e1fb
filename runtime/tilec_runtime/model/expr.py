"""The manifest's expression language: small formulas over parameters and axes.

An expression is parsed once and evaluated often, and never executed as Python.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Mapping
from typing import Any

from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.expr_build import INT_BOUND, Builder, FaultError, Run, Symbol
from tilec_runtime.model.expr_tree import parse_tree, refuse_foreign

# Device properties that launch expressions may name; parameters and axes hide them.
DEVICE_FACTS = ("sm_count", "cc", "block_shared", "l2_size")

Value = int | bool | float | str


class Expr:
    """A parsed expression; equal texts are equal expressions.

    Attributes:
        text: source text.
        names: the parameters and axes that it reads.
        uses: (name, attribute) of each use, such as `("x", "stride")`, `("x", "nbytes")` for
            `nbytes(x)`, and `("eps", "")` for a bare name.
        extents: (name, attribute, index) of each element of a shape or stride with a literal
            index, such as `("x", "shape", -1)`.
        kind: kind of its value: `number`, `truth`, `text`, or `any` for a bare name.
        run: computes the value; `evaluate` also turns faults into errors.
        sides: if it is a comparison, these compute what it compares; empty for others.
    """

    __slots__ = ("extents", "kind", "names", "run", "sides", "text", "uses")

    # Not a value class: fields excluded from comparison would import `dataclasses` and `inspect`.
    def __init__(
        self,
        text: str,
        names: frozenset[str],
        uses: frozenset[tuple[str, str]],
        extents: frozenset[tuple[str, str, int]],
        kind: str,
        run: Run,
        sides: tuple[Run, ...] = (),
    ) -> None:
        """Use `parse`."""
        self.text = text
        self.names = names
        self.uses = uses
        self.extents = extents
        self.kind = kind
        self.run = run
        self.sides = sides

    def __eq__(self, other: object) -> bool:
        """Compare by text."""
        return isinstance(other, Expr) and other.text == self.text

    def __hash__(self) -> int:
        """Hash the text."""
        return hash(self.text)

    def __repr__(self) -> str:
        """Such as `Expr('x.shape[0]')`."""
        return f"Expr({self.text!r})"

    def evaluate(self, env: Mapping[str, Any]) -> Value:
        """Compute the value.

        Args:
            env: axes and scalars by name as plain values; tensors as objects with `shape` and
                `stride` (elements), `size`, `ptr`, `dtype` (a dtype's name), and `nbytes`.

        Raises:
            ExpressionError: a name is not in `env`, or a value is invalid (division by zero, no
                such dimension, beyond 64 bits).
        """
        try:
            value = self.run(env)
        except FaultError as fault:
            raise ExpressionError(
                f"{fault} in {self.text!r}{self._with(env)}", column=fault.column
            ) from None
        if value.__class__ is int and not -INT_BOUND < value < INT_BOUND:
            raise ExpressionError(
                f"the value of {self.text!r} is beyond 64 bits{self._with(env)}",
                column=1,
            )
        return value  # type: ignore[no-any-return]

    def values(self, env: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that it reads, by their text in the expression, for messages."""
        values = {}
        for name, attribute in sorted(self.uses):
            if name in env:
                value = getattr(env[name], attribute, None) if attribute else env[name]
                if isinstance(value, int | float | str | tuple | list | Symbol):
                    values[f"{name}{'.' if attribute else ''}{attribute}"] = value
        return values

    def _with(self, env: Mapping[str, Any]) -> str:
        shown = ", ".join(f"{text} = {value!r}" for text, value in self.values(env).items())
        return f" with {shown}" if shown else ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text, since closures cannot be pickled."""
        return (parse, (self.text,))


def parse(text: str, *, names: Collection[str] | None = None) -> Expr:
    """Parse an expression.

    Args:
        text: the expression.
        names: parameters and axes that it may use; None allows any name.

    Raises:
        ExpressionError: the text is not an expression of the language; `column` counts from 1.
    """
    parsed = _parse(text)
    if names is None or parsed.names <= frozenset(names):
        return parsed
    return build(parse_tree(text), text, text, names)  # raises the error of the unknown name


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> Expr:
    return build(parse_tree(text), text, text, None)


def build(node: ast.expr, text: str, own: str, names: Collection[str] | None) -> Expr:
    """Build the expression of a syntax tree.

    Args:
        node: a node of the tree of `text`, from `parse_tree`.
        text: the whole text, for messages.
        own: the node's text.
        names: as for `parse`.

    Raises:
        ExpressionError: the node is not an expression of the language.
    """
    builder = Builder(text, names)
    try:
        kind, run = builder.build(node, 1)
    except ExpressionError:
        refuse_foreign(text)
        raise
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
        builder.sides if isinstance(node, ast.Compare) else (),
    )
