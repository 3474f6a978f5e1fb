"""Device functions in Python that CUDA C++ calls: their signatures, as annotations say them, and LTO-IR with C linkage."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any, NoReturn

from tilec.frontends.simt import api as api
from tilec.frontends.simt import text as text
from tilec.frontends.simt.declare import Declared, Reader
from tilec.frontends.simt.entry import Argument, Scalar, View
from tilec.frontends.simt.errors import kernel_error
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import line_of
from tilec.simt import Array, Axis, Constant
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.link import Prototype
from tilec_runtime.model.suggest import did_you_mean

_C = {
    "bool": "bool",
    "i8": "signed char",
    "i16": "short",
    "i32": "int",
    "i64": "long long",
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned int",
    "u64": "unsigned long long",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f32": "float",
    "f64": "double",
}
_HALVES = {"f16": "a float", "bf16": "a float", "bool": "an int"}
_ANNOTATE = "annotate every parameter and the result: def relu(x: float32) -> float32; -> None where it returns nothing"
# What libNVVM, libdevice and the driver bring.
_KNOWN = ("llvm.", "__nv_", "___numba_atomic_", "vprintf", "malloc", "free", "__assertfail")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DeviceFunction:
    """A function of a module: what it takes, the dtype that it returns (empty for nothing), and whether it is `fastmath`."""

    declared: Declared
    arguments: tuple[Argument, ...]
    result: str

    @property
    def prototype(self) -> Prototype:
        """What CUDA C++ declares: an array is its address, then its extents."""
        params: list[str] = []
        for argument in self.arguments:
            if isinstance(argument, View):
                const = "" if argument.written else "const "
                params += [f"{const}{_C[argument.dtype]}*", *[_C["i64"]] * argument.rank]
            elif isinstance(argument, Scalar):
                params.append(_C[argument.dtype])
        result = _C[self.result] if self.result else "void"
        return Prototype(name=self.declared.decl.name, result=result, params=tuple(params), location=self.declared.decl.location)


def read(module: LoadedModule, name: str) -> DeviceFunction:
    """The device function that an attribute of a module is.

    Raises:
        CompileError: it is none, or what it takes and returns is not said, or is what C has no argument for.
    """
    found = api.dispatcher_of(getattr(module.main, name, None))
    if found is None or not found.targetoptions.get("device"):
        raise _none(module, name)
    problems: list[Diagnostic] = []
    with module.active():
        reader = Reader(module, name, api.device_kernel(found), problems, "function")
        declared = reader.read(api.linked_by(found))
        result = reader.annotation("return", declared.decl.location)
    if problems:
        raise CompileError(f"{module.source.path}: {problems[0].message}", diagnostics=tuple(problems))
    return _Checks(module, declared).function(result)


class _Checks:
    """What can be said in C of one function."""

    def __init__(self, module: LoadedModule, declared: Declared) -> None:
        self._module, self._declared, self._name = module, declared, declared.decl.name

    def function(self, result: Any) -> DeviceFunction:
        """The function, with what its result is annotated with."""
        decl, at = self._declared.decl, self._declared.decl.location
        if not self._name.isascii():
            self._refuse("C has no such name", at, "give it a name of ASCII letters, digits and underscores")
        if self._declared.linked:
            self._refuse("@cuda.jit(link=…) of a linked function is not linked", at, "call functions of Python only")
        if self._module.reads:
            read = ", ".join(name for name, _ in self._module.reads)
            what = f"its module reads {read} when it is imported, which is no input of the kernel that it is linked with"
            self._refuse(what, at, "write the values into the module, or in one that it imports")
        for _, variable, _ in self._declared.variables:
            self._refuse(f"{variable} is an axis of a matrix, and a linked function has none", at, "write a number, or a dtype")
        for param in decl.params:
            self._check(param.name, self._declared.said[param.name], param.location or at)
        arguments = tuple(self._argument(param.kind, param.dtype, param.rank, param.out) for param in decl.params)
        return DeviceFunction(declared=self._declared, arguments=arguments, result=self._result(result, at))

    def _check(self, name: str, said: Any, at: Location) -> None:
        if said is None:
            self._refuse(f"{name} has no annotation", at, _ANNOTATE)
        if isinstance(said, Axis) or (isinstance(said, Array) and isinstance(said.dtype, Axis)):
            self._refuse(f"{name} is of an axis of a matrix, and a linked function has none", at, "write a dtype: float32")
        if isinstance(said, Constant):
            self._refuse(f"{name} is simt.Const, and C passes values only", at, "take it as a value, or write a constant of the module")
        if not isinstance(said, Array) and not api.dtype_named(said):
            self._refuse(f"{name} is a struct by value, which linked functions do not take", at, "take its fields, one parameter each")
        self._plain(name, "" if isinstance(said, Array) else api.dtype_named(said), at)

    def _argument(self, kind: str, dtype: str | None, rank: int | None, out: bool | None) -> Argument:
        assert dtype is not None
        return View(dtype=dtype, rank=rank or 1, written=bool(out)) if kind == "tensor" else Scalar(dtype=dtype)

    def _result(self, said: Any, at: Location) -> str:
        if said is api.NOT_SAID:
            self._refuse("what it returns has no annotation", at, _ANNOTATE)
        if said is None:
            return ""
        dtype = api.dtype_named(said)
        if not dtype:
            self._refuse(f"its result is annotated {said!r}, which is no dtype", at, "a linked function returns a scalar, or None")
        self._plain("its result", dtype, at)
        return dtype

    def _plain(self, what: str, dtype: str, at: Location) -> None:
        if dtype in _HALVES:
            self._refuse(f"{what} is {dtype}, which C++ and numba pass in different ways", at, f"take or return {_HALVES[dtype]}")

    def _refuse(self, what: str, at: Location, fix: str) -> NoReturn:
        raise refusal(self._module, self._name, what, at, fix)


def refusal(module: LoadedModule, name: str, what: str, at: Location, fix: str) -> CompileError:
    """An error of a device function."""
    said = f"function {name!r}: {what}"
    place = Diagnostic(message=said, location=at, excerpt=line_of(module.texts, at.file, at.line), hint=fix)
    return CompileError(f"{at.file}: {said}", diagnostics=(place,), fix=fix)


def compiled(module: LoadedModule, functions: Sequence[DeviceFunction], arch: str) -> bytes:
    """LTO-IR of functions of a module: each has its own name, and all else that it needs has names of its own.

    Raises:
        CompileError: numba or libNVVM refuses one, or it needs what cannot be linked.
    """
    modules: list[str] = []
    for function in functions:
        modules += _llvm(module, function, arch)
    try:
        return api.ltoir(modules, arch)
    except Exception as exc:
        first = functions[0].declared
        what = f"{module.source.path}: libNVVM refuses its functions for {arch}"
        raise kernel_error(exc, module=module, kernel=first, what=what) from exc


def _llvm(module: LoadedModule, function: DeviceFunction, arch: str) -> list[str]:
    declared = function.declared
    name, at = declared.decl.name, declared.decl.location
    asked = api.Asked(
        function=declared.kernel.function,
        symbol=name,
        arguments=function.arguments,
        line=at.line,
        arch=arch,
        capability=Target.parse(arch).cc,
        optimize=True,
        lineinfo=False,
        debug=False,
        bounds=False,
        options=declared.kernel.options,
    )
    try:
        with module.active():
            made, needs, returned = api.lower_device(asked, function.result)
    except Exception as exc:
        what = f"{module.source.path}: function {name!r} does not compile for {arch}"
        raise kernel_error(exc, module=module, kernel=declared, what=what) from exc
    if returned:
        fix = "convert it in the function, or annotate what it returns"
        raise refusal(module, name, f"it returns {returned}, and is annotated -> {function.result or 'None'}", at, fix)
    missing = sorted(symbol for symbol in text.undefined(made) if not symbol.startswith(_KNOWN))
    if needs or missing:
        what = f"it needs {', '.join((*missing, *needs))}, which is in no Python file"
        raise refusal(module, name, what, at, "f16, bf16, reshape and declare_device are not linked: do without them")
    return text.private(made, name, sha256(f"{module.source.path}:{name}".encode())[:12])


def _none(module: LoadedModule, name: str) -> CompileError:
    known = [key for key, value in vars(module.main).items() if (api.dispatcher_of(value) is not None)]
    path = module.source.path
    value = getattr(module.main, name, None)
    if value is None:
        what = f"{path} has no device function {name!r}{did_you_mean(name, known)}; it has {', '.join(known) or 'none'}"
    elif api.kernel_of(value) is not None:
        what = f"{path}: {name!r} is a kernel, which no kernel can call"
    else:
        what = f"{path}: {name!r} is no device function"
    code = getattr(value, "__code__", None)
    line = code.co_firstlineno if inspect.iscode(code) and code.co_filename == path else 1
    hint = "device functions have the decorator @cuda.jit(device=True)"
    place = Diagnostic(message=what, location=Location(file=path, line=line), excerpt=line_of(module.texts, path, line), hint=hint)
    return CompileError(what, diagnostics=(place,), fix=hint)
