"""Checks of indices in numba-cuda, which has them written and turned off: on for one compile, and what a failed one does."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def checked() -> Iterator[None]:
    """While it lasts, code is made that tells of an index out of bounds and stops the kernel."""
    from numba.cuda import cache_hints, cgutils, cudaimpl, target

    class Checked:
        """`cgutils` as atomics and hinted loads see it: what computes an address for them checks the index, which numba leaves out."""

        get_item_pointer = staticmethod(functools.partial(cgutils.get_item_pointer, boundscheck=True))

        def __getattr__(self, name: str) -> Any:
            return getattr(cgutils, name)

    context: Any = target.CUDATargetContext
    enabled, check = context.enable_boundscheck, cgutils.do_boundscheck
    context.enable_boundscheck = property(lambda _self: True)
    cgutils.do_boundscheck = _check
    cudaimpl.cgutils = cache_hints.cgutils = Checked()
    try:
        yield
    finally:
        context.enable_boundscheck = enabled
        cgutils.do_boundscheck = check
        cudaimpl.cgutils = cache_hints.cgutils = cgutils


def stop_on_error(kernel: Any) -> None:
    """Make an entry (an LLVM function) stop the kernel where it would return an exception's code (`raise`, `assert`)."""
    from llvmlite import ir

    for block in kernel.blocks:
        if isinstance(block.terminator, ir.Ret):
            code = block.terminator.operands[0]
            if isinstance(code, ir.Constant):
                continue
            builder = ir.IRBuilder(block)
            builder.position_before(block.terminator)
            stop = "{ .reg .pred %raised; setp.gt.s32 %raised, $0, 0; @%raised trap; }"
            builder.asm(ir.FunctionType(ir.VoidType(), [code.type]), stop, "r", [code], side_effect=True)


def _check(context: Any, builder: Any, ind: Any, dimlen: Any, axis: int | None = None) -> None:
    """Code for one index: numba calls this with the index (a negative one counted from the end already) and the extent."""
    from numba.cuda import cgutils

    # As numbers without a sign, those below zero are above every extent.
    outside = builder.icmp_unsigned(">=", ind, dimlen)
    with cgutils.if_unlikely(builder, outside):
        _tell(context, builder, ind, dimlen, axis)
        _trap(builder)


def _trap(builder: Any) -> None:
    from llvmlite import ir

    builder.asm(ir.FunctionType(ir.VoidType(), []), "trap;", "", [], side_effect=True)


def _tell(context: Any, builder: Any, ind: Any, dimlen: Any, axis: int | None) -> None:
    """Code that prints index, extent, place in the source, block and thread."""
    from llvmlite import ir
    from numba.cuda import cgutils, nvvmutils

    wide = ir.IntType(64)
    registers = nvvmutils.SRegBuilder(builder)
    blocks, threads = ([read(xyz) for xyz in "xyz"] for read in (registers.ctaid, registers.tid))
    values = [builder.sext(v, wide) if v.type.width < 64 else v for v in (ind, dimlen, *blocks, *threads)]
    where = _place(builder) or f"in {context.fndesc.qualname}"
    of = "" if axis is None else f" of axis {axis}"
    words = f"{where}: index %lld{of} is out of bounds, the extent is %lld; block (%lld, %lld, %lld), thread (%lld, %lld, %lld)\n"
    packed = cgutils.alloca_once_value(builder, cgutils.make_anonymous_struct(builder, values))
    pointer = ir.PointerType(ir.IntType(8))
    said = context.insert_string_const_addrspace(builder, words)
    builder.call(nvvmutils.declare_vprint(builder.module), (said, builder.bitcast(packed, pointer)))


def _place(builder: Any) -> str:
    """`file:line` of the code that is being made, where line information is kept; else empty."""
    at = builder.debug_metadata
    facts = dict(at.operands) if at is not None else {}
    line, scope = facts.get("line"), facts.get("scope")
    while scope is not None and hasattr(scope, "operands"):
        inner = dict(scope.operands)
        if "filename" in inner:
            # numba makes names of files absolute by the working directory.
            return f"{os.path.relpath(os.path.join(inner['directory'], inner['filename']))}:{line}"  # noqa: PTH118
        scope = inner.get("file") or inner.get("scope")
    return ""
