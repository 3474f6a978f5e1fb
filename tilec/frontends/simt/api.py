"""Calls of numba-cuda: import, kernels, types, compiler up to PTX. Its private names live here, in
`entry` and in `patches`.
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
from tilec.frontends.tools.packages import require_minor
from tilec.simt import Kernel, Options
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.arch import Version

if TYPE_CHECKING:
    from numpy import dtype, void

# The versions that this file was written against: part of what it uses is private, and moves from
# one minor version to the next.
TESTED: Version = (0, 30)
FIX = "pip install 'tilec[simt]'"
_DTYPES = {name: dtype for dtype, name in NAMES.items()} | {
    "bool": "bool",
    "bool_": "bool",
    "__nv_bfloat16": "bf16",
}
DTYPE_NAMES = {name: name for name in (*NAMES, *_DTYPES)}
"""What annotations that are text may call dtypes, beside the names of the module."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CompileRequest:
    """A kernel to compile.

    Attributes:
        function: the kernel, with its constants bound. symbol: name of its entry.
        arguments: of the function, in order.
        line: of its definition, for the entry's line information.
        arch: name of the architecture in libNVVM (`compute_90a`). capability: the same as numbers.
        optimize, lineinfo, bounds: from the profile and the kernel's options.
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
        ptx: the text. modules: the LLVM modules that it was compiled from.
        sources: CUDA C++ with functions that it may call. needs: other files that numba links when
            a kernel is launched.
        cooperative: the grid synchronizes.
        log: warnings of libNVVM.
    """

    ptx: str
    modules: tuple[str, ...]
    sources: tuple[str, ...]
    needs: tuple[str, ...]
    cooperative: bool
    log: str


def environment() -> contextlib.AbstractContextManager[None]:
    """Hide the variables that numba reads: a build depends on its inputs only."""
    return variables_hidden(("NUMBA_",))


def load() -> Any:
    """Import and return `numba.cuda`.

    Raises:
        ToolchainError: it is missing, of an untested version, or replaced by its simulator.
    """
    try:
        with environment(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import numba_cuda
            from numba import cuda
            from numba.cuda.core import config
    except ImportError as exc:
        raise ToolchainError(f"numba-cuda cannot be imported: {exc}", fix=FIX) from exc
    require_minor("numba-cuda", str(numba_cuda.__version__), TESTED, FIX)
    if config.ENABLE_CUDASIM:
        raise ToolchainError(
            "numba's simulator is in the place of its compiler",
            cause="NUMBA_ENABLE_CUDASIM was set when numba was imported in this process",
            fix="unset NUMBA_ENABLE_CUDASIM",
        )
    return cuda


def kernel_of(value: Any) -> Kernel | None:
    """Return the kernel that `@simt.kernel` or `@cuda.jit` made of a module's attribute, or None."""
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


def linked_by(value: Any) -> tuple[str, ...]:
    """Return the files that `@cuda.jit(link=…)` of a kernel names."""
    dispatcher = dispatcher_of(value)
    return (
        tuple(map(str, dispatcher.targetoptions.get("link") or ()))
        if dispatcher is not None
        else ()
    )


def signatures_of(value: object) -> tuple[tuple[object, ...], ...]:
    """Return the types of the parameters in each signature that `@cuda.jit` of a kernel is given."""
    dispatcher = dispatcher_of(value)
    return tuple(dispatcher.overloads) if dispatcher is not None else ()


def disagreement(signatures: Sequence[tuple[object, ...]], arguments: Sequence[Argument]) -> str:
    """Return the arguments of a launch where no signature is for them, or an empty text.

    Arrays agree by dtype and rank: layouts are what the manifest says of strides.
    """
    given = [inner(argument) for argument in arguments]
    if not signatures or any(
        [_alike(kind) for kind in types] == [_alike(kind) for kind in given] for types in signatures
    ):
        return ""
    allowed = " or ".join(f"({', '.join(map(str, types))})" for types in signatures)
    return f"@cuda.jit is given {allowed}, and the manifest passes ({', '.join(map(str, given))})"


def _alike(kind: object) -> object:
    return (getattr(kind, "dtype", None), kind.ndim) if hasattr(kind, "ndim") else kind


def dispatcher_of(value: Any) -> Any:
    """Return the value if it is a dispatcher of `@cuda.jit` for the project's function, or None."""
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
    """Return tilec's name of the dtype that an annotation means, or nothing.

    Dtypes of numba, NumPy and Python are known.
    """
    for kind, means in ((int, "i32"), (float, "f32"), (bool, "bool")):
        # Not by `==`: NumPy's dtypes are equal to the type of Python that they read as.
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
    """Return the structured NumPy dtype that an annotation means, or None.

    numba's records (`xoroshiro128p_type`) are known as well.
    """
    import numpy as np
    from numba.cuda import types
    from numba.cuda.np.numpy_support import as_dtype

    record = as_dtype(annotation) if isinstance(annotation, types.Record) else annotation
    return record if isinstance(record, np.dtype) and record.fields is not None else None


def unknown_field(layout: Any) -> str:
    """Return what numba says of a struct that it has no type for, or nothing.

    Fields of the other byte order are an example.
    """
    from numba.cuda.core.errors import NumbaNotImplementedError
    from numba.cuda.np.numpy_support import from_dtype

    try:
        from_dtype(layout)
    except NumbaNotImplementedError as exc:
        return str(exc)
    return ""


def value(axis_value: Any) -> Any:
    """Return the value of an axis for numba: dtypes become its types."""
    return (
        numba_type(axis_value)
        if isinstance(axis_value, str) and axis_value in NAMES
        else axis_value
    )


@functools.cache
def warm() -> None:
    """Compile a small kernel, once per process: the tables of numba's compiler are filled then.

    A process that is forked from this one for a kernel need not do it: 2.6 s of 2.9 measured.
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
    """Run numba's compiler up to PTX. Its cache, its driver and its linker are not used.

    The process is of no use for another kernel then: functions of numba and variables of modules
    are replaced, and numba numbers the functions of a process, in symbols too.

    Raises:
        Exception: whatever numba raises about a kernel.
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

    # NVRTC calls other versions of debug information an error, numba a warning: a linker refuses
    # code that disagrees on it.
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

    Some errors lost theirs: it is read from local variables of the frames that raised them.
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
    # On its own first: an error of the kernel is then told as one of the kernel, and not of the
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
    """Return LLVM modules, the first one in front and each other one behind one that calls it.

    numba has the modules of called functions in a set. libNVVM takes nothing of a module that no
    module in front of it calls.
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
    """(texts of CUDA C++, names of everything else) of what numba would link."""
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
    """numba's CUDA C++ for `reshape`, which it links by its file's name."""
    from numba.cuda import dispatcher

    return Path(dispatcher.__file__).with_name("reshape_funcs.cu").read_text(encoding="utf-8")
