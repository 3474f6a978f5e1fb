"""Extents that must be equal at a launch, unless the kernel's author requires something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilec_runtime.model.expr import Expr, parse
from tilec_runtime.values import value_class


@value_class(frozen=True, kw_only=True)
class Alike:
    """Two extents that must be equal, because a kernel combines tiles of both arrays.

    A requirement of the author replaces it if it names both extents, or, for a `fixed` tile, the
    first.

    Attributes:
        one, other: array and axis of each extent.
        unless: condition under which they may differ; empty for none.
        fixed: whether tiles of `one` have fixed indices.
    """

    one: tuple[str, int]
    other: tuple[str, int]
    unless: str = ""
    fixed: bool = False

    @property
    def condition(self) -> str:
        """The requirement."""
        (one, axis), (other, at) = self.one, self.other
        equal = f"{one}.shape[{axis}] == {other}.shape[{at}]"
        return f"{self.unless} or {equal}" if self.unless else equal


def unstated(
    alike: Iterable[Alike], requirements: Sequence[str], ranks: Mapping[str, int]
) -> list[Alike]:
    """Return the pairs that no requirement of the author replaces.

    Raises:
        ExpressionError: a requirement cannot be read.
    """
    stated = [parse(text) for text in requirements]

    def names(expression: Expr, extent: tuple[str, int]) -> bool:
        name, axis = extent
        named = {
            index
            for array, attribute, index in expression.extents
            if (array, attribute) == (name, "shape")
        }
        if named:
            return bool(named & {axis, axis - ranks[name]})
        return bool(expression.uses & {(name, "shape"), (name, "size")})

    return [
        same
        for same in alike
        if not any(
            names(text, same.one) and (same.fixed or names(text, same.other)) for text in stated
        )
    ]


def conditions(alike: Sequence[Alike], ranks: Mapping[str, int]) -> tuple[str, ...]:
    """Return the requirements, each once; arrays with equal shapes have one for all axes."""
    shapes: dict[tuple[str, str], set[int]] = {}
    for same in alike:
        (one, axis), (other, at) = same.one, same.other
        if axis == at and not same.unless and ranks[one] == ranks[other]:
            shapes.setdefault((one, other), set()).add(axis)

    def text(same: Alike) -> str:
        (one, axis), (other, at) = same.one, same.other
        whole = len(shapes.get((one, other), ())) == ranks[one]
        return (
            f"{one}.shape == {other}.shape"
            if whole and axis == at and not same.unless
            else same.condition
        )

    return tuple(dict.fromkeys(map(text, alike)))
