"""Read the SIMT kernels of an executed module: parameters, stores, axes, docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

from tilec.frontends.simt import api
from tilec.frontends.simt.entry import NAMES
from tilec.frontends.simt.scope import captures, names_read
from tilec.frontends.tools.kernels import captured, definition
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import located, parameter_nodes, written_parameters
from tilec.model.declaration import AxisUse, KernelDecl, ParamDecl
from tilec.simt import Array, Axis, ByValue, Constant, DTypeAxis, Kernel
from tilec_runtime.errors import Diagnostic, Location, TilecError

HELP = "simt.Ref[T], simt.Mut[T, 2], simt.Struct[…], simt.Const[int], or the dtype of a scalar (float32, T)"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SimtKernel:
    """A kernel of a module.

    Attributes:
        kernel: function and options.
        annotations: annotation of each parameter, or None.
        decl: the declaration.
        node: syntax of the function's definition, or None if no project file has it.
        variables: (module, variable, axis) of axes that the kernel or a called function may name.
        captured: (name, axis) of axes that it captures from an enclosing function.
    """

    kernel: Kernel
    annotations: Mapping[str, Any]
    decl: KernelDecl
    node: ast.FunctionDef | None
    variables: tuple[tuple[str, str, Axis], ...]
    captured: tuple[tuple[str, Axis], ...] = ()


def read(module: LoadedModule, name: str, value: object) -> SimtKernel | None:
    """Return the kernel that a module's attribute is, or None.

    `refused` in a declaration has the problems of a kernel that cannot be compiled.
    """
    kernel = api.kernel_of(value)
    if kernel is None:
        return None
    return _Reader(module, name, kernel).read()


class _Reader:
    """Reads one kernel."""

    def __init__(self, module: LoadedModule, name: str, kernel: Kernel) -> None:
        self._texts, self._module, self._name, self._kernel = module.texts, module, name, kernel
        self._node, self._at = definition(module, kernel.function)
        self._problems: list[Diagnostic] = []

    def read(self) -> SimtKernel:
        """Return the kernel with its declaration."""
        function = self._kernel.function
        annotations = {}
        params = []
        written = _written(self._node) if self._node is not None else set()
        locations = written_parameters(self._texts, self._at.file, self._node)
        for name, parameter in self._signature().parameters.items():
            at, text = locations.get(name, (self._at, ""))
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY):
                self._refuse(
                    f"{name!r} is no plain parameter: a kernel takes a fixed number of arguments, by place",
                    at,
                )
            annotation = parameter.annotation
            annotations[name] = annotation = None if annotation is parameter.empty else annotation
            params.append(
                self._param(name, annotation, text, at, parameter.default, name in written)
            )
            if name in written and params[-1].out is False:
                self._refuse(
                    f"{name} is only read ({text}), and the kernel stores to it",
                    at,
                    f"annotate it with simt.Mut: {name}: {text.replace('Ref', 'Mut')}",
                )
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            self._refuse("a kernel runs to its end: it cannot yield or await", self._at)
        variables, axes = tuple(self._variables()), tuple(self._captured())
        decl = KernelDecl(
            name=self._name,
            qualified=self._name,
            location=self._at,
            doc=inspect.cleandoc(function.__doc__ or ""),
            params=tuple(params),
            max_threads=(self._kernel.options.launch_bounds or (0,))[0],
            axes=tuple(self._axes(params, annotations, variables, axes)),
            captures=tuple(captures(function, self._module, self._at)),
            requires=tuple(self._requires(annotations)),
            refused=tuple(self._problems),
        )
        return SimtKernel(
            kernel=self._kernel,
            annotations=annotations,
            decl=decl,
            node=self._node,
            variables=variables,
            captured=axes,
        )

    def _signature(self) -> inspect.Signature:
        """Return the function's signature; string annotations are evaluated in its module."""
        function = self._kernel.function
        try:
            return inspect.signature(
                function,
                eval_str=True,
                globals={**api.DTYPE_NAMES, **function.__globals__},
                locals=captured(function),
            )
        except TilecError as exc:
            self._refuse(exc.what, self._at, exc.fix)
        except Exception as exc:  # noqa: BLE001 - the user's expression may raise anything
            message = f"an annotation cannot be read: {type(exc).__name__}: {exc}"
            self._refuse(message, self._at, HELP)
        plain = inspect.signature(function)
        bare = [each.replace(annotation=each.empty) for each in plain.parameters.values()]
        return plain.replace(parameters=bare)

    def _param(
        self, name: str, annotation: Any, text: str, at: Location, default: Any, written: bool
    ) -> ParamDecl:
        plain = default if isinstance(default, bool | int | float | str) else None
        match annotation:
            case None:
                # The manifest has to declare it.
                return ParamDecl(
                    name=name,
                    kind="tensor",
                    out=True if written else None,
                    default=plain,
                    location=at,
                )
            case Array(written=may_write, dtype=dtype, rank=rank):
                layout = api.layout_of(dtype)
                if layout is None:
                    element = self._dtype(name, dtype, at)
                else:
                    # A launch takes a tensor of bytes, whose last dimension is one struct.
                    self._size(name, layout, at)
                    if not may_write:
                        self._refuse(
                            f"{name}: numba lets kernels store to fields of a struct, so that no array of structs is only read",
                            at,
                            f"annotate it with simt.Mut: {name}: {text.replace('Ref', 'Mut')}",
                        )
                    element, rank, may_write = "u8", rank + 1, True
                return ParamDecl(
                    name=name,
                    type=text,
                    kind="tensor",
                    dtype=element,
                    out=may_write,
                    rank=rank,
                    location=at,
                )
            case Constant():
                return ParamDecl(name=name, type=text, kind="constant", default=plain, location=at)
            case ByValue(layout=layout):
                return ParamDecl(
                    name=name,
                    type=text,
                    kind="struct",
                    size=self._size(name, layout, at),
                    location=at,
                )
        return ParamDecl(
            name=name,
            type=text,
            kind="scalar",
            dtype=self._dtype(name, annotation, at),
            default=plain,
            location=at,
        )

    def _dtype(self, name: str, annotation: Any, at: Location) -> str:
        if isinstance(annotation, DTypeAxis):
            return annotation.name
        dtype = api.dtype_named(annotation)
        if not dtype:
            self._refuse(
                f"{name}: {annotation!r} is no dtype of a SIMT kernel ({', '.join(NAMES)})",
                at,
                HELP,
            )
        return dtype

    def _size(self, name: str, layout: Any, at: Location) -> int:
        """Return the bytes of a struct; record a problem if launches cannot pass it.

        Its fields must be aligned as in C, since launches and C code assume C's layout.
        """
        if getattr(layout, "fields", None) is None:
            self._refuse(
                f'{name}: simt.Struct takes a structured NumPy dtype, such as numpy.dtype([("low", "f4")], align=True)',
                at,
            )
            return 1
        if not _aligned(layout):
            self._refuse(
                f"{name}: a field of {layout} is not aligned, as it would be in C",
                at,
                "make the dtype with align=True, and the structs in it",
            )
        if not layout.itemsize:
            self._refuse(f"{name}: {layout} has no fields: C has no such struct", at)
        elif unknown := api.unknown_field(layout):
            self._refuse(f"{name}: numba has no type for a field of {layout}: {unknown}", at)
        return int(layout.itemsize)

    def _requires(self, annotations: Mapping[str, object]) -> Iterator[str]:
        """Yield preconditions of arrays of structs: their size and alignment."""
        for name, annotation in annotations.items():
            if not isinstance(annotation, Array):
                continue
            layout = api.layout_of(annotation.dtype)
            if layout is not None:
                yield f"{name}.shape[{annotation.rank}] == {layout.itemsize}"
                if alignment_of(layout) > 1:
                    yield f"{name}.ptr % {alignment_of(layout)} == 0"

    def _variables(self) -> Iterator[tuple[str, str, Axis]]:
        """Yield (module, variable, axis) for every axis that the kernel or a callee may name."""
        named = names_read(self._kernel.function, self._module)
        for module, loaded in self._module.modules.items():
            for variable, value in vars(loaded).items():
                if isinstance(value, Axis) and variable in named:
                    yield module, variable, value

    def _captured(self) -> Iterator[tuple[str, Axis]]:
        """Yield (name, axis) for every axis that the kernel captures.

        Other captured values become constants; record a problem for those that cannot.
        """
        for name, value in captured(self._kernel.function).items():
            if isinstance(value, Axis):
                yield name, value
            elif isinstance(value, list | dict | set | bytearray):
                message = f"it captures {name!r}, a {type(value).__name__}, and what a kernel captures is a constant of it"
                self._refuse(
                    message,
                    self._at,
                    "capture a number, a tuple or an array of NumPy; or make it a parameter",
                )
            elif isinstance(value, Kernel) or (
                isinstance(value, FunctionType) and value.__module__ in self._module.modules
            ):
                message = f"it captures {name!r}, which is no device function"
                self._refuse(message, self._at, "put @cuda.jit(device=True) on what it calls")

    def _axes(
        self,
        params: list[ParamDecl],
        annotations: Mapping[str, Any],
        variables: tuple[tuple[str, str, Axis], ...],
        captured: tuple[tuple[str, Axis], ...],
    ) -> Iterator[AxisUse]:
        """Yield every axis that the kernel uses, with its first use."""
        given = [(annotations[param.name], f"{param.name}: {param.type}") for param in params]
        uses = [
            *((a.dtype if isinstance(a, Array) else a, where) for a, where in given),
            *((axis, f"{name}, which it captures") for name, axis in captured),
            *((axis, f"{name} of {module.rpartition('.')[2]}") for module, name, axis in variables),
        ]
        known = set()
        for axis, where in uses:
            if isinstance(axis, Axis) and axis.name not in known:
                known.add(axis.name)
                yield AxisUse(name=axis.name, dtype=isinstance(axis, DTypeAxis), where=where)

    def _refuse(self, fault: str, at: Location, hint: str = "") -> None:
        message = f"kernel {self._name!r}: {fault}"
        self._problems.append(located(self._texts, at, message, hint=hint))


def alignment_of(layout: Any) -> int:
    """Return C's alignment of a field or struct; a dtype without `align=True` has another."""
    if layout.subdtype is not None:
        return alignment_of(layout.subdtype[0])
    if layout.fields is not None:
        return max((alignment_of(field) for field, *_ in layout.fields.values()), default=1)
    return int(layout.alignment)


def _aligned(layout: Any) -> bool:
    """Whether every field is aligned as in C.

    Nested structs are checked too, since `align=True` does not change them.
    """
    if layout.subdtype is not None:
        return _aligned(layout.subdtype[0])
    inside = (layout.fields or {}).values()
    fits = all(
        offset % alignment_of(field) == 0 and _aligned(field) for field, offset, *_ in inside
    )
    return fits and layout.itemsize % alignment_of(layout) == 0


def _written(node: ast.FunctionDef) -> set[str]:
    """Return the parameters that the body stores to, by an index or an atomic.

    Stores in device functions that it calls are not visible here.
    """
    names = {arg.arg for arg in parameter_nodes(node)}
    written = set()
    for part in ast.walk(node):
        match part:
            case ast.Subscript(ctx=ast.Store(), value=ast.Name(id=name)):
                written.add(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr="atomic") | ast.Name(id="atomic")),
                args=[ast.Name(id=name), *_],
            ):
                written.add(name)
    return written & names
