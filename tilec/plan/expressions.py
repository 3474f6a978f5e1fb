"""Find the problems of expressions over parameters and axes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.signature import Param, ParamKind


def faults_of(
    text: str,
    params: Sequence[Param],
    *,
    axes: Collection[str] = (),
    facts: Collection[str] = (),
    unknown: Collection[str] = (),
    truth: bool = False,
) -> Iterator[tuple[str, int]]:
    """Yield the problems of an expression, each with its column (from 1) or 0.

    These are unknown names, attributes and extents, and a value of the wrong kind.

    Args:
        text: the expression.
        params: the parameters that it may read.
        axes: names of the axes that it may read.
        facts: facts of the device that it may read.
        unknown: names of which nothing is known: they may have any attribute.
        truth: whether its value must be a condition; otherwise it must be a number.
    """
    tensors = {param.name: param for param in params if param.kind is ParamKind.TENSOR}
    nouns = {param.name: f"a {param.kind.value}" for param in params}
    try:
        parsed = expr.parse(text, names=[*nouns, *axes, *facts, *unknown])
    except ExpressionError as error:
        yield error.what, error.column
        return
    for name, attribute in sorted(parsed.uses):
        if name in unknown or (name in tensors) == bool(attribute):
            continue
        if name in tensors:
            yield f"{name} is a tensor: say {name}.shape[0], {name}.size or {name}.dtype", 0
            return
        yield f"{name}.{attribute}: {name} is {nouns.get(name, 'an axis')}, not a tensor", 0
    for fault in extent_faults(parsed, params):
        yield fault, 0
    if parsed.kind in ("truth" if truth else "number", "any"):
        return
    if truth:
        yield f"{text!r} is not a condition: compare it, as in x.size == y.size", 0
    else:
        noun = "a condition" if parsed.kind == "truth" else "text"
        yield f"{text!r} is {noun} and must be a number", 0


def extent_faults(parsed: expr.Expr, params: Sequence[Param]) -> Iterator[str]:
    """Yield a message for each extent that a tensor of known rank does not have."""
    ranks = {param.name: param.rank for param in params}
    for name, attribute, index in sorted(parsed.extents):
        rank = ranks.get(name, -1)
        if rank >= 0 and not -rank <= index < rank:
            yield f"{name} has rank {rank}: there is no {name}.{attribute}[{index}]"


def optional_faults(text: str, params: Sequence[Param]) -> Iterator[str]:
    """Yield a message for each tensor that an expression reads and that may be None."""
    names = expr.parse(text).names
    for param in params:
        if param.optional and param.name in names:
            yield f"{text!r} reads {param.name}, which may be None: read a tensor that every call gives"
