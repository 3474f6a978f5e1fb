"""Signatures of generated functions: what parameters and axes are to a type checker, and values as Python text."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable

from tilec.package.text import conditional, literal, tuple_text
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.model.signature import Param, ParamKind


def signature(
    kernel: KernelInfo, params: tuple[str, ...], axes: tuple[str, ...], type_of: Callable[[int, Param], str], *, before: str = ""
) -> list[str]:
    """The parameters of a kernel's function behind `self`: arguments, then by name the axes that a caller chooses.

    Args:
        kernel: the kernel.
        params: its parameters' names in Python.
        axes: its choices' names in Python.
        type_of: the type of a parameter, given its place.
        before: a parameter by name that stands before the axes.
    """
    # A parameter without a default cannot follow one that has one: the earlier defaults then hold for the launcher only.
    last = max((i for i, p in enumerate(kernel.params) if p.default is None and not p.optional), default=-1)
    items = []
    for index, (name, param) in enumerate(zip(params, kernel.params, strict=True)):
        default = f" = {_number(param.default)}" if index > last else ""
        items.append(f"{name}: {type_of(index, param)}{default}")
    if axes or before:
        items += ["*", before] if before else ["*"]
        built = dict(kernel.axes)
        for name, axis in zip(axes, kernel.choices, strict=True):
            items.append(f"{name}: {choice_type(built[axis])}{' | None = None' if is_open(kernel, axis) else ''}")
    return items


def chosen(kernel: KernelInfo, axes: tuple[str, ...], *, indent: int) -> str:
    """What a launch is given of the axes that a caller chooses: nothing where all are left open, which is found out in one test."""
    if not all(is_open(kernel, axis) for axis in kernel.choices):
        return tuple_text(axes, indent=indent)
    return conditional("()", [f"{axis} is None" for axis in axes], axes, indent=indent)


def is_open(kernel: KernelInfo, axis: str) -> bool:
    """Whether a caller may leave an axis open: there is a default, or a tuning table, rules or the tiles of a partition may say."""
    return kernel.dispatched or axis in dict(kernel.default) or bool(kernel.tiled_by(axis))


def keywords(values: Iterable[tuple[str, tuple[AxisValue, ...]]], *, opens: bool = False) -> list[str]:
    """Keywords that may all be left out, each with the values it takes; those that Python has no keyword for are not there.

    Args:
        values: by name.
        opens: None is one of them, and takes back what was said before.
    """
    none = " | None" if opens else ""
    items = [f"{name}: {choice_type(each)}{none} = ..." for name, each in values if not keyword.iskeyword(name) and name != "self"]
    return ["self", "*", *items] if items else ["self"]


def param_type(param: Param) -> str:
    """What a launch takes for a parameter."""
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
    """What a caller may give for an axis."""
    if any(isinstance(value, float) for value in values):  # Literal takes no floats
        return "float"
    return f"Literal[{', '.join(_value(value) for value in values)}]"


def _number(value: float | bool | None) -> str:
    return f'float("{value!r}")' if isinstance(value, float) and repr(value) in ("inf", "-inf", "nan") else repr(value)


def _value(value: AxisValue) -> str:
    return literal(value) if isinstance(value, str) else repr(value)
