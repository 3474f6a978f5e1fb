"""Compare a launch with the types of parameters in an entry's mangled name."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from tilec.frontends.tools.cpp.declare import together
from tilec.frontends.tools.cpp.host import note, with_compiler
from tilec.frontends.tools.cpp.symbol import parameter_types
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import Source
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import AbiSlot, Param

_POINTER = re.compile(r"\s*(\w+)\.ptr\s*")


def unseen(symbol: str, args: Sequence[str] | None, source: Source) -> KernelDecl | None:
    """Return the declaration of a kernel that the parser does not see, such as a macro's.

    Parameters come from the mangled symbol, or from the number of `args` if there is no mangled
    symbol (`extern "C"`). The result is None without both.
    """
    types = parameter_types(symbol) if symbol.startswith("_Z") else None
    if types is None and args is None:
        return None
    unknown = [ParamDecl(name="", kind="")] * len(args or ())
    params = [
        dataclasses.replace(param, name=f"param_{index}")
        for index, param in enumerate(types or unknown)
    ]
    return KernelDecl(
        name=symbol,
        qualified=symbol,
        location=Location(file=source.path, line=1),
        params=tuple(params),
        named=False,
        note=note(source),
        together=together(with_compiler(source)),
        typed=True,
    )


def pointed(abi: Sequence[AbiSlot], symbol: str) -> dict[str, ParamDecl]:
    """Return the pointer types of the tensors that an entry takes, by the tensors' names."""
    types: dict[str, ParamDecl] = {}
    for slot, type_ in zip(abi, parameter_types(symbol) or (), strict=False):
        name = _tensor(slot)
        if name and type_.kind == "tensor":
            types.setdefault(name, type_)
    return types


def check(
    abi: Sequence[AbiSlot],
    symbol: str,
    params: Sequence[Param],
    axes: Mapping[str, AxisValue],
    decl: KernelDecl,
) -> None:
    """Compare the dtypes of a launch with the compiled types.

    Args:
        abi: the arguments of a launch.
        symbol: symbol of the entry in the image.
        params: parameters of the launcher; the dtype may be empty.
        axes: axis values of the variant.
        decl: the kernel, for its location.

    Raises:
        CompileError: they contradict each other, or a dtype is unknown.
    """
    types, passed = pointed(abi, symbol), set(map(_tensor, abi))
    for param in params:
        if param.name in passed:
            stated = str(axes.get(param.dtype, param.dtype))
            _check_tensor(param.name, stated, types.get(param.name), symbol, decl)
    for slot, type_ in zip(abi, parameter_types(symbol) or (), strict=False):
        mine, theirs = DTYPES.get(slot.type), DTYPES.get(type_.dtype)
        floats = {dtype.kind == "float" for dtype in (mine, theirs) if dtype is not None}
        if mine and type_.kind != "tensor" and len(floats) == 2:
            message = f"{slot.expr} is passed as {slot.type}, and the compiled kernel takes {type_.type} ({type_.dtype})"
            raise _error(message, f"pass it as {type_.dtype}", decl, slot.expr)


def _check_tensor(
    name: str, stated: str, compiled: ParamDecl | None, symbol: str, decl: KernelDecl
) -> None:
    dtype = compiled.dtype if compiled else ""
    if not stated and not dtype:
        why = "the source does not show it"
        if compiled:
            why = f"the compiled kernel takes {compiled.type}, which is no dtype"
        elif parameter_types(symbol) is None:
            why = 'its compiled name holds no types, as of extern "C"'
        message = f"nothing says the dtype of {name!r}: {why}"
        raise _error(message, f"write it as params.{name}.dtype", decl, name)
    visible = any(param.name == name and param.dtype for param in decl.params)
    if stated and compiled and dtype and not _agree(stated, dtype, visible=visible):
        message = f"dtype {stated!r} of {name!r} is not what the compiled kernel takes, {compiled.type} ({dtype})"
        fix = f'params.{name}.dtype = "{dtype}", or leave it out: the compiled name says it'
        raise _error(message, fix, decl, name)


def _tensor(slot: AbiSlot) -> str:
    """Return the tensor whose address an argument passes, or an empty string."""
    match = _POINTER.fullmatch(slot.expr) if slot.type == "ptr" else None
    return match[1] if match else ""


def _agree(stated: str, compiled: str, *, visible: bool) -> bool:
    """Whether a kernel that takes one dtype may be passed memory of another.

    That is the same dtype. If the source does not show the dtype, an unsigned integer also matches
    a small float of the same size, since a typedef may store such floats as bits.
    """
    mine, theirs = DTYPES.get(stated), DTYPES[compiled]
    small = mine is not None and mine.kind == "float" and mine.bits <= 16
    bits = small and mine is not None and theirs.kind == "uint" and mine.bytes == theirs.bytes
    return stated == compiled or (bits and not visible)


def _error(message: str, fix: str, decl: KernelDecl, name: str) -> CompileError:
    locations = (param.location for param in decl.params if param.name == name)
    at = next(filter(None, locations), decl.location)
    diagnostic = Diagnostic(message=message, location=at, hint=fix)
    return CompileError(f"{decl.name}: {message}", diagnostics=(diagnostic,), fix=fix)
