"""What a manifest lacks, with text to paste; `…` stands for the parts that the user knows."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping, Sequence

from tilec.manifest.types import Kernel
from tilec.model.argument import parse_abi
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.plan.points import filled
from tilec_runtime.model import expr

_WORD = re.compile(r"[\w.\[\]]+")  # an operand that needs no parentheses


def computed_constant(constant: ParamDecl, kernel: Kernel, decl: KernelDecl) -> str:
    """Return advice on a constant that the source computes from other parameters.

    An unknown formula is shown as `…`, which is no valid expression.
    """
    name, given = constant.name, [param.name for param in decl.params if param.given]
    read = next((each for each in constant.reads if each in given), "")
    if not read:
        return (
            f", and its heuristic reads {', '.join(constant.reads)}: compute it so, "
            f'such as let.{name} = "{constant.formula or "…"}"'
        )
    values = [parse_abi(text)[1].text for text in kernel.args or given]
    passed = {
        param: value if _WORD.fullmatch(value) else f"({value})"
        for param, value in zip(given, values, strict=False)
    }
    formula = filled(constant.formula, passed)
    if formula and expr.parse(constant.formula).kind != "truth":
        return (
            f", and its heuristic reads {read}, which a launch gives: list its values, such as "
            f'matrix.{name} = [1, 2], and write launch.requires = ["{name} == {formula}"]'
        )
    advice = (
        f", and its heuristic reads {read}, which a launch gives: list its values, each with its condition, "
        f'such as matrix.{name} = [true, false], launch.requires = ["not {name} or {formula or "…"}"], '
        f"dispatch = {{ default = {{ {name} = false }}, rules = [{{ take = {{ {name} = true }} }}] }}"
    )
    return advice if formula else f"{advice}, with the heuristic's own condition for …"


def args_needed(kernel: Kernel, decl: KernelDecl, unknown: Sequence[ParamDecl]) -> str:
    """Return a message with `args` for a Triton kernel whose parameters are unknown."""
    written = {table.name for table in kernel.params}
    tensors = _tensors(kernel, decl)
    entries = [_entry(param, tensors, written) for param in decl.params if param.given]
    shown = ", ".join(f'"{entry}"' for entry in entries)
    missing = [name for name in tensors.values() if name not in written]
    tables = ", ".join(f'{name} = {{ dtype = "f32", rank = … }}' for name in missing)
    names = ", ".join(param.name for param in unknown)
    lacking = f"the source does not say what {names} {'are' if len(unknown) > 1 else 'is'}"
    if not missing:
        return f"{lacking}: write an entry of args for each parameter, args = [{shown}]"
    return (
        f"{lacking}: write the tensors that a caller passes "
        f"and an entry of args for each parameter, params = {{ {tables} }}, args = [{shown}]"
    )


def _tensors(kernel: Kernel, decl: KernelDecl) -> dict[str, str]:
    """Return the launcher's name of each tensor, by its name in the source: `x` for `x_ptr`."""
    written = {table.name for table in kernel.params}
    others = {*dict(kernel.matrix.axes), *(param.name for param in decl.params)}
    names = {}
    for param in decl.params:
        if param.address:
            name = _bare(param.name)
            free = name not in others and not keyword.iskeyword(name)
            names[param.name] = name if free and param.name not in written else param.name
    return names


def _entry(param: ParamDecl, tensors: Mapping[str, str], written: Collection[str]) -> str:
    """Return the entry of `args` for a parameter; `i32(a.stride[…])` for `stride_am`."""
    if param.name in tensors:
        return f"{tensors[param.name]}.ptr"
    if param.type or param.name in written:
        return param.name
    rest = param.name.replace("stride", "").strip("_")
    owners = [name for source, name in tensors.items() if rest.startswith(_bare(source))]
    if "stride" in param.name and owners:
        return f"i32({max(owners, key=len)}.stride[…])"
    return "i32(…)"


def _bare(name: str) -> str:
    return name.removesuffix("_ptr") or name
