"""Replace functions of numba-cuda that have no hook; checked against numba-cuda 0.30.

Each kernel is compiled in a process of its own, so the replacements end with it.

- Device functions are compiled for the target; numba-cuda would ask the driver for a device.
- Symbols name a struct by its layout; numba-cuda would take a running number of the process.
- `@cuda.jit(signature)` records the types and compiles nothing while a module is imported.
- Atomics on read-only arrays are errors, like other stores to them.
- numba-cuda's index checks, which it disables, are enabled, and a failed check stops the kernel.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from tilec_runtime.model.arch import Version
from tilec_runtime.model.digest import sha256


def install(*, capability: Version, lineinfo: bool, optimize: bool, bounds: bool) -> None:
    """Replace functions of numba-cuda for the rest of this process (one kernel).

    Device functions get the kernel's target and options.
    """
    from numba.cuda import dispatcher, types

    class Device:
        compute_capability = capability

    compile_own: Callable[..., Any] = dispatcher.CUDADispatcher.compile_device

    def compile_device(self: Any, args: Any, return_type: Any = None) -> Any:
        self.targetoptions = {
            **self.targetoptions,
            "lineinfo": lineinfo,
            "debug": False,
            "opt": optimize,
        }
        return compile_own(self, args, return_type)

    dispatcher.CUDADispatcher.compile_device = compile_device
    dispatcher.get_current_device = Device
    types.Record.mangling_args = property(_struct_name)
    _refuse_readonly_atomics()
    if bounds:
        _check_indices()


def _struct_name(record: Any) -> tuple[str, tuple[int]]:
    return "Record", (int(sha256(record.name.encode())[:15], 16),)


@contextlib.contextmanager
def noting_signatures() -> Iterator[None]:
    """Make `@cuda.jit(signature)` record its types only, in a `with`.

    numba would compile the kernel for the current device at once.
    """
    from numba.cuda.dispatcher import CUDADispatcher

    own = CUDADispatcher.compile

    def note(self: CUDADispatcher, types: tuple[object, ...]) -> None:
        self.overloads[types] = None

    CUDADispatcher.compile = note
    try:
        yield
    finally:
        CUDADispatcher.compile = own


def _refuse_readonly_atomics() -> None:
    """Make `cuda.atomic` on a read-only array a typing error, also in device functions."""
    from numba import cuda
    from numba.cuda import types
    from numba.cuda.core.errors import TypingError
    from numba.cuda.typing.context import BaseContext

    atomics = {held: name for name, held in vars(cuda.atomic).items() if isinstance(held, type)}
    own = BaseContext.resolve_function_type

    def resolve(self: Any, func: Any, args: Any, kws: Any) -> Any:
        name = atomics.get(func.typing_key) if isinstance(func, types.Function) else None
        if name and args and isinstance(args[0], types.Array) and not args[0].mutable:
            raise TypingError(f"cuda.atomic.{name} of a read-only array")
        return own(self, func, args, kws)

    BaseContext.resolve_function_type = resolve


def _check_indices() -> None:
    """Generate code that reports an index out of bounds and stops the kernel."""
    from numba.cuda import cache_hints, cgutils, cudaimpl, target

    class Checked:
        """`cgutils` for atomics and hinted loads, with the index checks that numba leaves out."""

        get_item_pointer = staticmethod(
            functools.partial(cgutils.get_item_pointer, boundscheck=True)
        )

        def __getattr__(self, name: str) -> Any:
            return getattr(cgutils, name)

    context: Any = target.CUDATargetContext
    context.enable_boundscheck = property(lambda _self: True)
    cgutils.do_boundscheck = _check
    cudaimpl.cgutils = cache_hints.cgutils = Checked()


def stop_on_error(kernel: Any) -> None:
    """Make an entry (an LLVM function) trap instead of returning the code of an exception.

    `raise` and `assert` return such a code.
    """
    from llvmlite import ir

    for block in kernel.blocks:
        if isinstance(block.terminator, ir.Ret):
            code = block.terminator.operands[0]
            if isinstance(code, ir.Constant):
                continue
            builder = ir.IRBuilder(block)
            builder.position_before(block.terminator)
            stop = "{ .reg .pred %raised; setp.gt.s32 %raised, $0, 0; @%raised trap; }"
            builder.asm(
                ir.FunctionType(ir.VoidType(), [code.type]), stop, "r", [code], side_effect=True
            )


def _check(context: Any, builder: Any, ind: Any, dimlen: Any, axis: int | None = None) -> None:
    """Generate the check of one index; numba calls this with index and extent.

    numba has converted an index that counts from the end.
    """
    from numba.cuda import cgutils

    # A negative index, taken as an unsigned number, is above every extent.
    outside = builder.icmp_unsigned(">=", ind, dimlen)
    with cgutils.if_unlikely(builder, outside):
        file, line = _file_and_line(builder)
        _tell(
            context,
            builder,
            (ind, dimlen),
            axis,
            f"{file}:{line}" if line else f"in {context.fndesc.qualname}",
        )
        _fail(context, builder, f"index{_of(axis)} is in bounds", file, line)


def _of(axis: int | None) -> str:
    return "" if axis is None else f" of axis {axis}"


def _fail(context: Any, builder: Any, condition: str, file: str, line: int) -> None:
    """Generate code that ends the kernel like a failed `assert` of CUDA C++.

    The driver prints condition, location, block and thread.
    """
    from llvmlite import ir
    from numba.cuda import cgutils

    text, i32, i64 = ir.PointerType(ir.IntType(8)), ir.IntType(32), ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [text, text, i32, text, i64])
    function = cgutils.get_or_insert_function(builder.module, kind, "__assertfail")
    condition, file_text, name = (
        _text(builder, word) for word in (condition, file, context.fndesc.qualname)
    )
    builder.call(function, (condition, file_text, i32(line), name, i64(1)))


def _text(builder: Any, words: str) -> Any:
    """Return the address of a string in global memory, as CUDA C++ has for its assertions."""
    from llvmlite import ir
    from numba.cuda import cgutils

    data = cgutils.make_bytearray(words.encode() + b"\0")
    held = cgutils.add_global_variable(builder.module, data.type, "tilec_text", addrspace=1)
    held.linkage, held.global_constant, held.initializer = "internal", True, data
    return builder.addrspacecast(
        builder.bitcast(held, ir.PointerType(ir.IntType(8), addrspace=1)),
        ir.PointerType(ir.IntType(8)),
    )


def _tell(
    context: Any, builder: Any, numbers: tuple[Any, Any], axis: int | None, where: str
) -> None:
    """Generate code that prints index and extent, which a failed assertion cannot.

    Location, block and thread are printed too.
    """
    from llvmlite import ir
    from numba.cuda import cgutils, nvvmutils

    wide = ir.IntType(64)
    registers = nvvmutils.SRegBuilder(builder)
    blocks, threads = ([read(xyz) for xyz in "xyz"] for read in (registers.ctaid, registers.tid))
    values = [
        builder.sext(v, wide) if v.type.width < 64 else v for v in (*numbers, *blocks, *threads)
    ]
    message = f"{where}: index %lld{_of(axis)} is out of bounds, the extent is %lld; block (%lld, %lld, %lld), thread (%lld, %lld, %lld)\n"
    packed = cgutils.alloca_once_value(builder, cgutils.make_anonymous_struct(builder, values))
    format_ = context.insert_string_const_addrspace(builder, message)
    builder.call(
        nvvmutils.declare_vprint(builder.module),
        (format_, builder.bitcast(packed, ir.PointerType(ir.IntType(8)))),
    )


def _file_and_line(builder: Any) -> tuple[str, int]:
    """Return file and line of the current code, or ("", 0) without line information."""
    at = builder.debug_metadata
    facts = dict(at.operands) if at is not None else {}
    line, scope = facts.get("line"), facts.get("scope")
    while scope is not None and hasattr(scope, "operands"):
        inner = dict(scope.operands)
        if "filename" in inner and isinstance(line, int):
            # numba makes file names absolute with the working directory.
            return os.path.relpath(os.path.join(inner["directory"], inner["filename"])), line  # noqa: PTH118
        scope = inner.get("file") or inner.get("scope")
    return "", 0
