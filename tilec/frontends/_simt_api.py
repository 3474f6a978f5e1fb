"""All contact with numba-cuda but for checks of indices: import, kernels, types, compiler up to PTX. Private names live here."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from tilec.errors import ToolchainError
from tilec.frontends import _simt_text as text
from tilec.frontends._ptx import relative_files
from tilec.frontends._simt_bounds import checked, stop_on_error
from tilec.model.arch import Version
from tilec.simt import Kernel, Options

# The versions that this file was written against: part of what it uses is private, and moves from one minor version to the next.
TESTED: Version = (0, 30)
FIX = "pip install 'tilec[simt]'"
NAMES = {
    "bool": "boolean",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}
"""numba's name of a dtype, by tilec's."""
_DTYPES = {name: dtype for dtype, name in NAMES.items()} | {"bool": "bool", "bool_": "bool", "__nv_bfloat16": "bf16"}
_lock = threading.RLock()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """An array that the entry builds of an address, extents, and the strides (in elements) that are not known; None is C-contiguous."""

    dtype: str
    rank: int
    written: bool
    strides: tuple[int | None, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scalar:
    """A value of a dtype."""

    dtype: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Struct:
    """A struct by value, laid out as a structured NumPy dtype; `align` is that of C."""

    layout: Any
    align: int


Argument = View | Scalar | Struct


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is compiled.

    Attributes:
        function: the kernel, its constants bound. symbol: what its entry is called.
        arguments: of the function, in order.
        line: of its definition, which the entry's code is said to be in.
        arch: as libNVVM names it (`compute_90a`). capability: the same as numbers.
        optimize, lineinfo, bounds: as the profile and the kernel say.
        values: variables of modules that hold axes of the matrix, with what they have in this variant.
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
class Made:
    """PTX.

    Attributes:
        ptx: the text.
        sources: CUDA C++ with functions that it may call. needs: other files that numba links when a kernel is launched.
        cooperative: the grid synchronizes.
        log: what libNVVM said.
    """

    ptx: str
    sources: tuple[str, ...]
    needs: tuple[str, ...]
    cooperative: bool
    log: str


@contextlib.contextmanager
def environment() -> Iterator[None]:
    """While it lasts, no variable that numba reads is set, and nobody else compiles: a build depends on its inputs only."""
    with _lock:
        kept = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_")}
        for name in kept:
            del os.environ[name]
        try:
            yield
        finally:
            os.environ.update(kept)


def load() -> Any:
    """The package `numba.cuda`.

    Raises:
        ToolchainError: it is missing, of a version that tilec was not written against, or its simulator is in its place.
    """
    try:
        with environment(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import numba_cuda
            from numba import cuda
            from numba.cuda.core import config
    except ImportError as exc:
        raise ToolchainError(f"numba-cuda cannot be imported: {exc}", fix=FIX) from exc
    require_version(str(numba_cuda.__version__))
    if config.ENABLE_CUDASIM:
        raise ToolchainError(
            "numba's simulator is in the place of its compiler",
            cause="NUMBA_ENABLE_CUDASIM was set when numba was imported in this process",
            fix="unset NUMBA_ENABLE_CUDASIM",
        )
    return cuda


def require_version(version: str) -> None:
    """Refuse a version that tilec was not written against.

    Raises:
        ToolchainError: it is one.
    """
    if tuple(version.split(".")[:2]) != tuple(map(str, TESTED)):
        tested = ".".join(map(str, TESTED))
        raise ToolchainError(
            f"numba-cuda is of version {version}, and tilec compiles with {tested}",
            cause="tilec uses parts of numba-cuda's compiler that change from one version to the next",
            fix=FIX,
        )


def kernel_of(value: Any) -> Kernel | None:
    """The kernel behind an attribute of a module: of `@simt.kernel` or of `@cuda.jit`, None where there is none."""
    if isinstance(value, Kernel):
        return value
    found = dispatcher_of(value)
    if found is None or found.targetoptions.get("device"):
        return None
    said = found.targetoptions
    bounded = said.get("launch_bounds")
    return Kernel(
        found.py_func,
        Options(
            fastmath=bool(said.get("fastmath")),
            launch_bounds=(bounded,) if isinstance(bounded, int) else tuple(bounded or ()),
            max_registers=int(said.get("max_registers") or 0),
        ),
    )


def linked_by(value: Any) -> tuple[str, ...]:
    """Files that `@cuda.jit(link=…)` of a kernel names."""
    found = dispatcher_of(value)
    return tuple(map(str, found.targetoptions.get("link") or ())) if found is not None else ()


def dispatcher_of(value: Any) -> Any:
    """What `@cuda.jit` made of a function of the project; None where the value is something else."""
    if "numba_cuda" not in sys.modules:
        return None
    from numba.cuda.dispatcher import CUDADispatcher

    if not isinstance(value, CUDADispatcher) or value.py_func.__module__.partition(".")[0] in ("numba", "numba_cuda"):
        return None
    return value


def dtype_named(value: Any) -> str:
    """tilec's name of the dtype that an annotation means: one of numba, of NumPy or of Python; empty where it is none."""
    if value in (int, float, bool):
        return {int: "i32", float: "f32", bool: "bool"}[value]
    name = value if isinstance(value, str) else getattr(value, "__name__", None) if isinstance(value, type) else str(value)
    return str(name) if name in NAMES else _DTYPES.get(str(name), "")


def numba_type(dtype: str) -> Any:
    """numba's type of a dtype."""
    from numba.cuda import types

    return getattr(types, NAMES[dtype])


def value(held: Any) -> Any:
    """The value of an axis as numba sees it: dtypes become its types."""
    return numba_type(held) if isinstance(held, str) and held in NAMES else held


def compile_ptx(asked: Asked) -> Made:
    """Run numba's compiler up to PTX. Its cache, its driver and its linker are not used.

    Raises:
        Exception: whatever numba raises about a kernel.
    """
    with environment(), warnings.catch_warnings(record=True) as told, _bound(asked.values), _compiling(asked):
        warnings.simplefilter("always")
        library = _lowered(asked)
        irs = text.canonical(library.llvm_strs)
        ptx = _nvvm(irs, asked)
        log = "\n".join(str(item.message) for item in told if item.category.__name__ == "NvvmWarning")
        sources, needs = _linked(library._linking_files)  # noqa: SLF001 - this file's job
        if "numba_attempt_nocopy_reshape" in ptx:
            sources += (_reshape(),)
        # numba makes names of files absolute by the working directory.
        ptx = relative_files(text.without_environments(ptx), ((os.getcwd(), ""),))  # noqa: PTH109 - text, not a path
        return Made(ptx=ptx, sources=sources, needs=needs, cooperative=library.use_cooperative, log=log)


def places_of(exc: BaseException) -> Iterator[tuple[str, int]]:
    """(file, line) of every place that an error of numba has, innermost first; those that it lost are found where it was raised."""
    frames = [frame for frame, _ in traceback.walk_tb(exc.__traceback__)]
    held = [exc, *(frame.f_locals.get(name) for frame in reversed(frames) for name in ("inst", "constraint", "self"))]
    for value in held:
        at = getattr(value, "loc", None)
        file, line = getattr(at, "filename", None), getattr(at, "line", None)
        if isinstance(file, str) and isinstance(line, int) and line > 0:
            yield file, line


# --- compiling --------------------------------------------------------------------------------------------------------------------------


def _lowered(asked: Asked) -> Any:
    """The library of LLVM modules: the entry, the kernel's function, and what that calls."""
    from numba import cuda
    from numba.cuda import compiler, types
    from numba.cuda.cudadrv import nvvm

    options = {"fastmath": asked.options.fastmath, "lineinfo": asked.lineinfo, "opt": asked.optimize}
    device = cuda.jit(device=True, **options)(asked.function)
    # On its own first: an error of the kernel is then told as one of the kernel, and not of the entry that calls it.
    made = device.compile_device(tuple(_inner(argument) for argument in asked.arguments))
    if made.signature.return_type != types.none:
        raise ReturnsError(str(made.signature.return_type))
    entry, arguments = _entry(asked, device)
    compiled = compiler.compile_cuda(
        entry,
        types.void,
        arguments,
        lineinfo=asked.lineinfo,
        fastmath=asked.options.fastmath,
        nvvm_options={},
        cc=asked.capability,
        abi_info={"abi_name": asked.symbol},
    )
    library = compiled.library
    kernel = library.get_function(compiled.fndesc.llvm_func_name)
    if asked.bounds:
        stop_on_error(kernel)
    compiler.kernel_fixup(kernel, False)
    nvvm.set_launch_bounds(kernel, asked.options.launch_bounds or None)
    return library


class ReturnsError(Exception):
    """The kernel returns something."""


def _nvvm(irs: Sequence[str], asked: Asked) -> str:
    from numba.cuda.cudadrv import nvvm

    made: bytes = nvvm.compile_ir(list(irs), arch=asked.arch, opt=3 if asked.optimize else 0, fastmath=asked.options.fastmath)
    return made.decode().strip("\0").strip() + "\n"


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


@contextlib.contextmanager
def _bound(values: Sequence[tuple[dict[str, Any], str, Any]]) -> Iterator[None]:
    """While it lasts, the variables have these values: numba reads globals when it compiles."""
    kept = [(scope, name, scope[name]) for scope, name, _ in values]
    try:
        for scope, name, value in values:
            scope[name] = value
        yield
    finally:
        for scope, name, value in kept:
            scope[name] = value


@contextlib.contextmanager
def _compiling(asked: Asked) -> Iterator[None]:
    """While it lasts, device functions are compiled for the target, anew, and as the kernel is; no driver is asked for a device."""
    from numba.cuda import dispatcher

    class Device:
        compute_capability = asked.capability

    made: list[tuple[Any, Any]] = []
    own: Callable[..., Any] = dispatcher.CUDADispatcher.compile_device
    asks = dispatcher.get_current_device

    def compile_device(self: Any, args: Any, return_type: Any = None) -> Any:
        made.append((self, args))
        said = self.targetoptions
        self.targetoptions = {**said, "lineinfo": asked.lineinfo, "debug": False, "opt": asked.optimize}
        try:
            return own(self, args, return_type)
        finally:
            self.targetoptions = said

    dispatcher.CUDADispatcher.compile_device = compile_device
    dispatcher.get_current_device = Device
    try:
        with checked() if asked.bounds else contextlib.nullcontext():
            yield
    finally:
        dispatcher.CUDADispatcher.compile_device = own
        dispatcher.get_current_device = asks
        # What is kept would be taken by the next compile, which may be for other values of globals, or with checks.
        for function, args in made:
            function.overloads.pop(args, None)


def _inner(argument: Argument) -> Any:
    """The type of an argument inside of the kernel."""
    from numba.cuda import types
    from numba.cuda.np.numpy_support import from_dtype

    if isinstance(argument, View):
        layout = "C" if argument.strides is None else "A"
        return types.Array(numba_type(argument.dtype), argument.rank, layout, readonly=not argument.written)
    return numba_type(argument.dtype) if isinstance(argument, Scalar) else from_dtype(argument.layout)


def _entry(asked: Asked, device: Any) -> tuple[FunctionType, tuple[Any, ...]]:
    """The function that is launched, with its parameters: it puts the arguments together, and calls the kernel's."""
    from numba.cuda import types

    scope: dict[str, Any] = {"kernel": device, "record": _parts().record}
    names: list[str] = []
    params: list[Any] = []
    passed: list[str] = []
    for index, argument in enumerate(asked.arguments):
        name = f"a{index}"
        names.append(name)
        if isinstance(argument, View):
            params.append(types.CPointer(numba_type(argument.dtype)))
            extents = [f"{name}n{axis}" for axis in range(argument.rank)]
            strides, extra = _strides(name, argument, extents)
            names += [*extents, *extra]
            params += [types.int64] * (argument.rank + len(extra))
            scope[f"view{index}"] = _parts().view(_inner(argument))
            passed.append(f"view{index}({name}, ({', '.join(extents)},), ({', '.join(strides)},))")
        elif isinstance(argument, Struct):
            params.append(_parts().by_value(_inner(argument), argument.layout.itemsize, argument.align))
            passed.append(f"record({name})")
        else:
            params.append(numba_type(argument.dtype))
            passed.append(name)
    source = f"def entry({', '.join(names)}): kernel({', '.join(passed)})"
    file = asked.function.__code__.co_filename
    exec(compile("\n" * (asked.line - 1) + source, file, "exec"), scope)  # noqa: S102 - three kinds of words, all of them made above
    made: FunctionType = scope["entry"]
    return made, tuple(params)


def _strides(name: str, view: View, extents: Sequence[str]) -> tuple[list[str], list[str]]:
    """(strides as expressions, parameters that they need)."""
    if view.strides is None:
        return [" * ".join(extents[axis + 1 :]) or "1" for axis in range(view.rank)], []
    given = [f"{name}s{axis}" if fixed is None else str(fixed) for axis, fixed in enumerate(view.strides)]
    return given, [text for text, fixed in zip(given, view.strides, strict=True) if fixed is None]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """What entries are made of: a view's intrinsic by its type, a struct's parameter, and the intrinsic that reads one as a record."""

    view: Callable[[Any], Any]
    by_value: Callable[[Any, int, int], Any]
    record: Any


@functools.cache
def _parts() -> _Parts:
    from llvmlite import ir
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic, models, register_model
    from numba.cuda.np import arrayobj

    class ByValue(types.Type):  # type: ignore[misc]
        """One parameter of a struct's size and alignment; its padding travels along."""

        def __init__(self, record: Any, size: int, align: int) -> None:
            self.record, self.size, self.align = record, size, align
            super().__init__(f"ByValue({record.name})")

    @register_model(ByValue)
    class ByValueModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, ir.ArrayType(ir.IntType(8 * kind.align), kind.size // kind.align))

    @intrinsic
    def record(_typing: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            slot = cgutils.alloca_once_value(builder, args[0])
            return builder.bitcast(slot, context.get_value_type(signature.return_type))

        return value.record(value), build

    def view(kind: Any) -> Any:
        @intrinsic
        def make(_typing: Any, address: Any, shape: Any, strides: Any) -> Any:
            def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                array = arrayobj.make_array(signature.return_type)(context, builder)
                item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
                # Arrays are in global memory: said here, loads and stores need not find out at run time.
                outer = ir.PointerType(array.data.type.pointee, addrspace=1)
                data = builder.addrspacecast(builder.addrspacecast(args[0], outer), array.data.type)
                arrayobj.populate_array(
                    array,
                    data=data,
                    shape=cgutils.unpack_tuple(builder, args[1]),
                    strides=[builder.mul(stride, item) for stride in cgutils.unpack_tuple(builder, args[2])],
                    itemsize=item,
                    meminfo=None,
                )
                return array._getvalue()  # noqa: SLF001 - how a proxy gives its value

            return kind(address, shape, strides), build

        return make

    return _Parts(view=view, by_value=ByValue, record=record)
