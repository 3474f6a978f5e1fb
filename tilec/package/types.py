"""Types in generated stubs: what parameters and axes are to a type checker."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

from tilec.package.text import literal
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.model.signature import Param, ParamKind


def is_open(kernel: KernelInfo, axis: str) -> bool:
    """Whether a caller may leave an axis open: there is a default, or a tuning table, rules or the
    tiles of a partition may say.
    """
    return kernel.dispatched or axis in dict(kernel.default) or bool(kernel.tiled_by(axis))


def defaults(kernel: KernelInfo) -> tuple[str, ...]:
    """Return each parameter's default in Python, an empty text where the caller has to give it.

    A parameter without a default cannot follow one that has one: the earlier defaults then hold for
    the launcher only.
    """
    last = max(
        (i for i, p in enumerate(kernel.params) if p.default is None and not p.optional), default=-1
    )
    return tuple(
        literal(param.default) if index > last else "" for index, param in enumerate(kernel.params)
    )


def keywords(values: Iterable[tuple[str, tuple[AxisValue, ...]]], none: str = "") -> list[str]:
    """Return a method's keywords that may all be left out, each with the values it takes; Python's
    keywords are not among them.
    """
    items = [
        f"{name}: {choice_type(each)}{none} = ..."
        for name, each in values
        if not keyword.iskeyword(name) and name != "self"
    ]
    return ["self", "*", *items] if items else ["self"]


def param_type(param: Param) -> str:
    """Return what a launch takes for a parameter."""
    match param.kind:
        case ParamKind.TENSOR:
            return "TensorLike | None" if param.optional else "TensorLike"
        case ParamKind.PTR:
            return "int"
        case ParamKind.STRUCT:
            return "StructLike"
        case ParamKind.SCALAR:
            kind = DTYPES[param.dtype].kind if param.dtype in DTYPES else "float"
            return {"bool": "bool", "int": "int", "uint": "int", "float": "float"}[kind]


def choice_type(values: tuple[AxisValue, ...]) -> str:
    """Return what a caller may give for an axis."""
    if any(isinstance(value, float) for value in values):  # Literal takes no floats
        return "float"
    return f"Literal[{', '.join(map(literal, values))}]"
