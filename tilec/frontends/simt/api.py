"""Calls of numba-cuda: import, kernels, types, compiler up to PTX.

Only this module, `entry` and `patches` use private names of numba-cuda.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tilec.frontends.simt.entry import NAMES, Argument, entry, inner, numba_type
from tilec.frontends.simt.patches import install, stop_on_error
from tilec.frontends.simt.patches import noting_signatures as noting_signatures
from tilec.frontends.tools.environment import variables_hidden
from tilec.simt import Kernel, Options
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.arch import Version

if TYPE_CHECKING:
    from numpy import dtype, void

# The tested version: this file uses private parts, which change between minor versions.
TESTED: Version = (0, 30)
FIX = "pip install 'tilec[simt]'"
_DTYPES = {name: dtype for dtype, name in NAMES.items()} | {
    "bool": "bool",
    "bool_": "bool",
    "__nv_bfloat16": "bf16",
}
DTYPE_NAMES = {name: name for name in (*NAMES, *_DTYPES)}
"""Names of dtypes that string annotations may use beside the names of their module."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CompileRequest:
    """A kernel to compile.

    Attributes:
        function: the kernel's function, with its constants bound.
        symbol: name of the entry point.
        arguments: arguments of the function, in order.
        line: line of its definition, for the entry's line information.
        arch: architecture as libNVVM names it (`compute_90a`).
        capability: compute capability of the architecture.
        optimize: whether to optimize.
        lineinfo: whether to keep source lines.
        bounds: whether to check indices.
        options: options of the kernel's decorator.
        values: (scope, name, value) of module variables that hold axes of the matrix.
    """

    function: FunctionType
    symbol: str
    arguments: tuple[Argument, ...]
    line: int
    arch: str
    capability: Version
    optimize: bool
    lineinfo: bool
    bounds: bool
    options: Options
    values: Sequence[tuple[dict[str, Any], str, Any]] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A compiled kernel.

    Attributes:
        ptx: the PTX text.
        modules: the LLVM modules that it was compiled from.
        sources: texts of CUDA C++ with functions that it may call.
        needs: names of other files that numba would link at a launch.
        cooperative: whether the kernel synchronizes its grid.
        log: warnings of libNVVM.
    """

    ptx: str
    modules: tuple[str, ...]
    sources: tuple[str, ...]
    needs: tuple[str, ...]
    cooperative: bool
    log: str


def environment() -> contextlib.AbstractContextManager[None]:
    """Hide the environment variables that numba reads: a build depends on its inputs only."""
    return variables_hidden(("NUMBA_",))


def load() -> Any:
    """Import and return `numba.cuda`.

    Raises:
        ToolchainError: it is missing, of an untested version, or replaced by its simulator.
    """
    try:
        with environment(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from numba import cuda
            from numba.cuda.core import config
    except ImportError as exc:
        raise ToolchainError(f"numba-cuda cannot be imported: {exc}", fix=FIX) from exc
    if config.ENABLE_CUDASIM:
        raise ToolchainError(
            "numba's simulator is in the place of its compiler",
            cause="NUMBA_ENABLE_CUDASIM was set when numba was imported in this process",
            fix="unset NUMBA_ENABLE_CUDASIM",
        )
    return cuda


def kernel_of(value: Any) -> Kernel | None:
    """Return the kernel of `@simt.kernel` or `@cuda.jit` that a value is, or None."""
    if isinstance(value, Kernel):
        return value
    dispatcher = dispatcher_of(value)
    return (
        None
        if dispatcher is None or dispatcher.targetoptions.get("device")
        else _kernel(dispatcher)
    )


def _kernel(dispatcher: Any) -> Kernel:
    options = dispatcher.targetoptions
    bounded = options.get("launch_bounds")
    return Kernel(
        dispatcher.py_func,
        Options(
            fastmath=bool(options.get("fastmath")),
            launch_bounds=(bounded,) if isinstance(bounded, int) else tuple(bounded or ()),
            max_registers=int(options.get("max_registers") or 0),
        ),
    )


def dispatcher_of(value: Any) -> Any:
    """Return a `@cuda.jit` dispatcher of a function outside numba, or None."""
    if "numba_cuda" not in sys.modules:
        return None
    from numba.cuda.dispatcher import CUDADispatcher

    if not isinstance(value, CUDADispatcher) or value.py_func.__module__.partition(".")[0] in (
        "numba",
        "numba_cuda",
    ):
        return None
    return value


def dtype_named(value: Any) -> str:
    """Return tilec's dtype of an annotation, or an empty string.

    The annotation may be a dtype of numba or NumPy, or Python's int, float or bool.
    """
    for kind, means in ((int, "i32"), (float, "f32"), (bool, "bool")):
        # Not by `==`: a NumPy dtype is equal to the Python type that it converts to.
        if value is kind:
            return means
    name = (
        value
        if isinstance(value, str)
        else getattr(value, "__name__", None)
        if isinstance(value, type)
        else str(value)
    )
    return str(name) if name in NAMES else _DTYPES.get(str(name), "")


def layout_of(annotation: object) -> dtype[void] | None:
    """Return the structured NumPy dtype of an annotation, or None.

    The annotation may also be a record type of numba (`xoroshiro128p_type`).
    """
    import numpy as np
    from numba.cuda import types
    from numba.cuda.np.numpy_support import as_dtype

    record = as_dtype(annotation) if isinstance(annotation, types.Record) else annotation
    return record if isinstance(record, np.dtype) and record.fields is not None else None


def unknown_field(layout: Any) -> str:
    """Return numba's message if it has no type for a struct, or an empty string.

    A field with foreign byte order is an example.
    """
    from numba.cuda.core.errors import NumbaNotImplementedError
    from numba.cuda.np.numpy_support import from_dtype

    try:
        from_dtype(layout)
    except NumbaNotImplementedError as exc:
        return str(exc)
    return ""


def value(axis_value: Any) -> Any:
    """Return the value of an axis for numba; the name of a dtype becomes numba's type."""
    return (
        numba_type(axis_value)
        if isinstance(axis_value, str) and axis_value in NAMES
        else axis_value
    )


@functools.cache
def warm() -> None:
    """Compile a small kernel, once per process, to fill the tables of numba's compiler.

    A process forked from this one for a kernel then saves 2.6 s of 2.9 s (measured).
    """
    from numba.cuda import compiler, grid, types

    def small(x: Any) -> None:
        i = grid(1)
        if i < x.size:
            x[i] = x[i] * 2 + 1

    with environment(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = types.Array(types.float32, 1, "C")
        compiler.compile_cuda(small, types.void, (array,), cc=(8, 0))


def compile_ptx(request: CompileRequest) -> Compiled:
    """Run numba's compiler up to PTX, without its cache, driver and linker.

    Call it once per process: it replaces functions of numba and variables of modules, and numba
    puts a running number of the process into symbols.

    Raises:
        Exception: any error of numba about the kernel.
    """
    install(
        capability=request.capability,
        lineinfo=request.lineinfo,
        optimize=request.optimize,
        bounds=request.bounds,
    )
    # numba reads globals when it compiles.
    for scope, name, held in request.values:
        scope[name] = held
    with environment(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        library = _lowered(request)
        modules = tuple(map(str, _callers_first(library.modules)))
        ptx = _nvvm(modules, request)
        log = "\n".join(
            str(item.message) for item in caught if item.category.__name__ == "NvvmWarning"
        )
    sources, needs = _linked(library._linking_files)  # noqa: SLF001 - this file's job
    if "numba_attempt_nocopy_reshape" in ptx:
        sources += (_reshape(),)
    return Compiled(
        ptx=ptx,
        modules=modules,
        sources=sources,
        needs=needs,
        cooperative=library.use_cooperative,
        log=log,
    )


def ltoir(modules: Sequence[str], arch: str, *, optimize: bool = True) -> bytes:
    """Compile LLVM modules to LTO-IR for an architecture (`compute_90a`)."""
    from numba.cuda.cudadrv import nvvm

    # Mismatched versions of debug information are an error for NVRTC (1) and a warning for numba
    # (2). A linker refuses modules that differ in this flag.
    modules = [
        module.replace('!{ i32 2, !"Debug Info Version"', '!{ i32 1, !"Debug Info Version"')
        for module in modules
    ]
    with environment(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code: bytes = nvvm.compile_ir(
            modules, arch=arch, opt=3 if optimize else 0, **{"gen-lto": None}
        )
        return code


def places_of(exc: BaseException) -> Iterator[tuple[str, int]]:
    """Yield (file, line) of every location of an error of numba, innermost first.

    Some errors carry no location; local variables of the frames that raised them have it.
    """
    frames = [frame for frame, _ in traceback.walk_tb(exc.__traceback__)]
    held = [
        exc,
        *(
            frame.f_locals.get(name)
            for frame in reversed(frames)
            for name in ("inst", "constraint", "self")
        ),
    ]
    for value in held:
        at = getattr(value, "loc", None)
        file, line = getattr(at, "filename", None), getattr(at, "line", None)
        if isinstance(file, str) and isinstance(line, int) and line > 0:
            yield file, line


def _lowered(request: CompileRequest) -> Any:
    """Return the library of LLVM modules: the entry, the kernel's function, and its callees."""
    from numba import cuda
    from numba.cuda import compiler, types
    from numba.cuda.cudadrv import nvvm

    options = {
        "fastmath": request.options.fastmath,
        "lineinfo": request.lineinfo,
        "opt": request.optimize,
    }
    device = cuda.jit(device=True, **options)(request.function)
    # Compile the kernel's function alone first: an error is then reported in the kernel, not in the
    # entry that calls it.
    compiled = device.compile_device(tuple(inner(argument) for argument in request.arguments))
    if compiled.signature.return_type != types.none:
        raise ReturnsError(str(compiled.signature.return_type))
    launched, packed = entry(request.function, request.arguments, request.line, device)
    compiled = compiler.compile_cuda(
        launched,
        types.void,
        (packed,),
        debug=False,
        lineinfo=request.lineinfo,
        fastmath=request.options.fastmath,
        nvvm_options={},
        cc=request.capability,
        abi_info={"abi_name": request.symbol},
    )
    library = compiled.library
    kernel = library.get_function(compiled.fndesc.llvm_func_name)
    if request.bounds:
        stop_on_error(kernel)
    compiler.kernel_fixup(kernel, False)
    nvvm.set_launch_bounds(kernel, request.options.launch_bounds or None)
    return library


def _callers_first(modules: Sequence[Any]) -> list[Any]:
    """Sort LLVM modules so that each follows a module that calls it; the first stays first.

    numba keeps the modules of called functions in a set. libNVVM takes nothing from a module that
    no module before it calls.
    """
    makers = {
        function.name: module
        for module in modules
        for function in module.functions
        if not function.is_declaration
    }
    ordered: dict[Any, None] = {}
    stack = [modules[0]]
    while stack:
        module = stack.pop()
        if module in ordered:
            continue
        ordered[module] = None
        called = [function.name for function in module.functions if function.is_declaration]
        stack += [makers[name] for name in reversed(called) if name in makers]
    return list(ordered)


class ReturnsError(Exception):
    """The kernel returns a value."""


def _nvvm(irs: Sequence[str], request: CompileRequest) -> str:
    from numba.cuda.cudadrv import nvvm

    ptx: bytes = nvvm.compile_ir(
        list(irs),
        arch=request.arch,
        opt=3 if request.optimize else 0,
        fastmath=request.options.fastmath,
    )
    return ptx.decode().strip("\0").strip() + "\n"


def _linked(files: Iterable[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the texts of CUDA C++ and the names of other files that numba would link."""
    from numba.cuda.cudadrv.linkable_code import CUSource

    texts, others = [], []
    for file in files:
        if isinstance(file, CUSource) and not getattr(file, "nrt", False):
            data = file.data
            texts.append(data.decode() if isinstance(data, bytes) else str(data))
        else:
            others.append(str(getattr(file, "name", file)))
    return tuple(sorted(texts)), tuple(sorted(others))


def _reshape() -> str:
    """Return numba's CUDA C++ source for `reshape`, which numba itself links by file name."""
    from numba.cuda import dispatcher

    return Path(dispatcher.__file__).with_name("reshape_funcs.cu").read_text(encoding="utf-8")
