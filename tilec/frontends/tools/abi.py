"""The entry point's argument list: derived from what the source declares, held against what was
compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from tilec.frontends.tools.ptx import EntryParam
from tilec.model.declaration import KernelDecl
from tilec_runtime.bundle.cubin import CubinParam
from tilec_runtime.errors import CompileError, Diagnostic
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import AbiSlot

# Beyond this the compiler aligns a parameter's address in the constant bank: its offset then
# depends on where an architecture's begin.
_BANK_ALIGN = 16


def derive(
    decl: KernelDecl, bound: Mapping[str, str], compiled: Sequence[EntryParam]
) -> tuple[AbiSlot, ...]:
    """One slot per declared parameter: pointers for tensors, scalars by their dtype, structs by the
    size that was compiled.

    Args:
        decl: the kernel as declared.
        bound: dtype by template parameter.
        compiled: parameters as PTX declares them: what a struct weighs is known from there only.
    """
    slots: list[AbiSlot] = []
    for index, param in enumerate(decl.params):
        made = compiled[index] if index < len(compiled) else None
        dtype = DTYPES.get(bound.get(param.dtype, param.dtype))
        if param.kind == "tensor":
            slot = AbiSlot(type="ptr", expr=f"{param.name}.ptr", size=8, align=8)
        elif param.kind == "scalar" and dtype is not None:
            slot = AbiSlot(type=dtype.name, expr=param.name, size=dtype.bytes, align=dtype.bytes)
        else:
            size = param.size or (made.size if made else 0)
            slot = AbiSlot(
                type="struct", expr=param.name, size=size, align=made.align if made else 8
            )
        slots.append(slot)
    return tuple(slots)


def check(
    slots: Sequence[AbiSlot], compiled: Sequence[CubinParam], decl: KernelDecl, *, stated: bool
) -> None:
    """Hold the argument list against the compiled image.

    Args:
        slots: what a launch will pass.
        compiled: the image's parameters.
        decl: the kernel, for its place.
        stated: whether the manifest's `args` gave the slots.

    Raises:
        CompileError: count, offset or size differ; shows both lists.
    """
    offsets = []
    end = 0
    for slot, made in itertools.zip_longest(slots, compiled[: len(slots)]):
        offset = _up(end, slot.align)
        if made is not None and slot.align > _BANK_ALIGN and made.offset >= end:
            offset = made.offset
        offsets.append(offset)
        end = offset + slot.size
    same = [(o, s.size) for o, s in zip(offsets, slots, strict=True)] == [
        (p.offset, p.size) for p in compiled
    ]
    if same:
        return
    rows = []
    for index, (mine, theirs) in enumerate(
        itertools.zip_longest(zip(slots, offsets, strict=True), compiled)
    ):
        left = (
            f"{mine[0].expr} ({mine[0].type}): {mine[0].size} bytes at {mine[1]}" if mine else "-"
        )
        right = f"{theirs.size} bytes at {theirs.offset}" if theirs else "-"
        agree = mine and theirs and (mine[1], mine[0].size) == (theirs.offset, theirs.size)
        rows.append((f"{index}", left, right, "" if agree else "  <- differs"))
    width = max(len(row[1]) for row in rows) if rows else 0
    says = "`args` of the manifest" if stated else "the source, as tilec reads it"
    width = max(width, len(says))
    table = "\n".join(
        [
            f"     {says:<{width}}  compiled image",
            *(f"  {i:>2} {a:<{width}}  {b}{c}" for i, a, b, c in rows),
        ]
    )
    what = f"{decl.name} takes other parameters than a launch would pass\n{table}"
    fix = (
        "make `args` list what the kernel takes, with a type where it matters, such as i32(x.shape[0])"
        if stated
        else 'list the kernel\'s arguments in the manifest: args = ["x.ptr", "i32(n)", …]'
    )
    raise CompileError(
        what, diagnostics=(Diagnostic(message=what, location=decl.location, hint=fix),), fix=fix
    )


def _up(offset: int, align: int) -> int:
    return -(-offset // max(1, align)) * max(1, align)
