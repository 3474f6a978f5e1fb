"""Derive argument lists of entry points, and compare them with compiled code."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import EMPTY, Job
from tilec_runtime.bundle.cubin import CubinParam
from tilec_runtime.errors import CompileError, Diagnostic
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import AbiSlot, Param

# Above this alignment the compiler aligns a parameter's address in the constant bank, and the
# bank's start depends on the architecture.
_BANK_ALIGN = 16
_MAX_ALIGN = 256


def derive(params: Sequence[ParamDecl], compiled: Sequence[tuple[int, int]]) -> tuple[AbiSlot, ...]:
    """Return one argument per declared parameter.

    Args:
        params: the parameters, with dtypes of this variant.
        compiled: size and alignment of each compiled parameter; structs take theirs from it.
    """
    slots: list[AbiSlot] = []
    for param, (size, align) in itertools.zip_longest(
        params, compiled[: len(params)], fillvalue=(0, 8)
    ):
        assert isinstance(param, ParamDecl)
        dtype = DTYPES.get(param.dtype)
        if param.kind == "empty":
            slots.append(EMPTY)
            continue
        if param.kind in ("tensor", "ptr"):
            address = f"{param.name}.ptr" if param.kind == "tensor" else param.name
            slot = AbiSlot(type="ptr", expr=address, size=8, align=8)
        elif param.kind == "scalar" and dtype is not None:
            slot = AbiSlot(type=dtype.name, expr=param.name, size=dtype.bytes, align=dtype.bytes)
        else:
            slot = AbiSlot(type="struct", expr=param.name, size=param.size or size, align=align)
        slots.append(slot)
    return tuple(slots)


def from_code(job: Job, compiled: Sequence[CubinParam]) -> tuple[AbiSlot, ...]:
    """Return `args` of the manifest, or one argument per parameter.

    Sizes that neither manifest nor source state come from the compiled code.
    """
    if job.spec.abi:
        return job.spec.abi
    stated, axes = {param.name: param for param in job.spec.params}, dict(job.variant.constants)
    params = [_with_stated(param, stated.get(param.name), axes) for param in job.spec.decl.params]
    ends = [0, *(made.offset + made.size for made in compiled)]
    sizes = [
        (made.size, _align(end, made.offset)) for end, made in zip(ends, compiled, strict=False)
    ]
    return derive(params, sizes)


def _with_stated(
    param: ParamDecl, stated: Param | None, axes: Mapping[str, AxisValue]
) -> ParamDecl:
    if stated is None:
        return param
    dtype, size = str(axes.get(stated.dtype, stated.dtype)), stated.size or param.size
    return dataclasses.replace(param, kind=stated.kind.value, dtype=dtype, size=size)


def _align(end: int, offset: int) -> int:
    """Return the least alignment that fits an offset; code records offsets only."""
    align = 1
    while align < _MAX_ALIGN and _up(end, align) != offset:
        align *= 2
    return align


def laid_out(sizes: Sequence[tuple[int, int]]) -> tuple[CubinParam, ...]:
    """Lay out parameters of the given (size, alignment) pairs in the parameter block."""
    params = []
    end = 0
    for ordinal, (size, align) in enumerate(sizes):
        offset = _up(end, align)
        params.append(CubinParam(ordinal=ordinal, offset=offset, size=size))
        end = offset + size
    return tuple(params)


def check(
    slots: Sequence[AbiSlot], compiled: Sequence[CubinParam], decl: KernelDecl, *, stated: bool
) -> None:
    """Compare the arguments of a launch with the parameters of the compiled image.

    Args:
        slots: the arguments of a launch.
        compiled: the image's parameters.
        decl: the kernel, for its location.
        stated: whether `args` of the manifest gives the slots.

    Raises:
        CompileError: count, offset or size differ; shows both lists.
    """
    passed = _offsets(slots, compiled)
    if [(slot.size, offset) for slot, offset in passed] == [(p.size, p.offset) for p in compiled]:
        return
    says = "`args` of the manifest" if stated else "the source, as tilec reads it"
    table = _side_by_side(passed, compiled, says)
    message = f"{decl.name} takes other parameters than a launch would pass\n{table}"
    fix = (
        "make `args` list what the kernel takes, with a type where it matters, such as i32(x.shape[0])"
        if stated
        else 'list the kernel\'s arguments in the manifest: args = ["x.ptr", "i32(n)", …]'
    )
    raise CompileError(
        message,
        diagnostics=(Diagnostic(message=message, location=decl.location, hint=fix),),
        fix=fix,
    )


def _offsets(slots: Sequence[AbiSlot], compiled: Sequence[CubinParam]) -> list[tuple[AbiSlot, int]]:
    """Return each argument with its offset in the parameter block."""
    passed = []
    end = 0
    for slot, made in itertools.zip_longest(slots, compiled[: len(slots)]):
        offset = _up(end, slot.align)
        if made is not None and slot.align > _BANK_ALIGN and made.offset >= end:
            offset = made.offset
        passed.append((slot, offset))
        end = offset + slot.size
    return passed


def _side_by_side(
    passed: Sequence[tuple[AbiSlot, int]], compiled: Sequence[CubinParam], says: str
) -> str:
    """Return a table of arguments and compiled parameters; `says` is the head of the arguments."""
    rows = []
    for index, (mine, theirs) in enumerate(itertools.zip_longest(passed, compiled)):
        left = right = "-"
        if mine:
            slot, offset = mine
            left = f"{slot.expr} ({slot.type}): {slot.size} bytes at {offset}"
        if theirs:
            right = f"{theirs.size} bytes at {theirs.offset}"
        agree = mine and theirs and (mine[1], mine[0].size) == (theirs.offset, theirs.size)
        rows.append((index, left, right, "" if agree else "  <- differs"))
    width = max(len(says), *(len(left) for _, left, _, _ in rows))
    lines = [f"  {index:>2} {left:<{width}}  {right}{note}" for index, left, right, note in rows]
    return "\n".join([f"     {says:<{width}}  compiled image", *lines])


def _up(offset: int, align: int) -> int:
    return -(-offset // max(1, align)) * max(1, align)
