"""Kernels of executed Python modules, and errors with a kernel's name and location."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Generic, Protocol, TypeVar

from tilec.frontends.tools.files import fault
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import function_node, line_of, node_location
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Source
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.dtype import DTYPES, DType
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import Param
from tilec_runtime.model.suggest import suggestion


class DeclaredKernel(Protocol):
    """A kernel that a frontend declared."""

    @property
    def decl(self) -> KernelDecl:
        """The declaration."""


K = TypeVar("K", bound=DeclaredKernel)


class Kernels(Generic[K]):
    """The kernels of one language, cached per module and state of its files."""

    def __init__(
        self,
        word: str,
        decorators: str,
        load: Callable[..., LoadedModule],
        read: Callable[[LoadedModule, str, object], K | None],
    ) -> None:
        """Store the functions that load and read, and names for messages.

        Args:
            word: name of a kernel of this language, such as `SIMT kernel`.
            decorators: the decorators of kernels.
            load: executes a source.
            read: returns the kernel that an attribute of a module is, or None.
        """
        self._word, self._decorators = word, decorators
        self._load, self._kernel = load, read
        self._known: dict[tuple[str, str], tuple[LoadedModule, dict[str, K]]] = {}

    def declare(self, source: Source) -> tuple[KernelDecl, ...]:
        """Execute a module, and return its kernels in order of appearance.

        Raises:
            CompileError: it cannot be executed, or all of its kernels are refused; with the
                user's line.
            ToolchainError: the language's compiler is missing.
        """
        decls = tuple(kernel.decl for kernel in self._read(source, again=True)[1].values())
        if decls and all(decl.refused for decl in decls):
            raise _refusal(source.path, [problem for decl in decls for problem in decl.refused])
        return decls

    def find(self, job: Job) -> tuple[LoadedModule, K]:
        """Return the job's kernel and its module.

        Raises:
            CompileError: the module cannot be executed, or has no such kernel.
            ToolchainError: the language's compiler is missing.
        """
        module, kernels = self._read(job.spec.source, again=False)
        name = job.spec.decl.name
        if name in kernels:
            if kernels[name].decl.refused:
                raise _refusal(module.source.path, kernels[name].decl.refused)
            return module, kernels[name]
        message = f"there is no {self._word} {name!r}; there is {', '.join(kernels) or 'none'}"
        hint = (
            suggestion(name, kernels)
            or f"kernels are functions with the decorator {self._decorators}"
        )
        raise fault(module.source.path, message, line=0, fix=hint)

    def _read(self, source: Source, *, again: bool) -> tuple[LoadedModule, dict[str, K]]:
        module = self._load(source, again=again)
        key = (source.root, source.path)
        known = self._known.get(key)
        if known is None or known[0] is not module:
            with module.active():
                attributes = list(vars(module.main).items())
                read = {name: self._kernel(module, name, value) for name, value in attributes}
            kernels = {name: kernel for name, kernel in read.items() if kernel is not None}
            known = self._known[key] = (module, kernels)
        return known


def definition(
    module: LoadedModule, function: FunctionType
) -> tuple[ast.FunctionDef | None, Location]:
    """Return the syntax and the location of a function; the module's if no project file has it."""
    code = function.__code__
    node = function_node(module.texts.get(code.co_filename, ""), code.co_firstlineno)
    if node is None:
        return None, Location(file=module.source.path, line=1)
    return node, node_location(module.texts, code.co_filename, node, len("def "))[0]


def captured(function: FunctionType) -> dict[str, object]:
    """Return the variables that a function captures from enclosing functions, by name.

    Variables without a value are left out.
    """
    values: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # an empty cell: the compiler reports its use
            continue
    return values


@contextlib.contextmanager
def placing(job: Job, texts: Mapping[str, str]) -> Iterator[None]:
    """Add the kernel's location to errors without one, and lines of `texts`, the sources."""
    try:
        yield
    except CompileError as exc:
        found = []
        for each in exc.diagnostics or (Diagnostic(message=exc.what, hint=exc.fix),):
            at = each.location or job.spec.decl.location
            line = each.excerpt or line_of(texts, at.file, at.line)
            found.append(dataclasses.replace(each, location=at, excerpt=line))
        exc.diagnostics = tuple(found)
        raise


class MismatchError(Exception):
    """A parameter of a kernel contradicts the manifest."""

    def __init__(self, what: str, hint: str = "") -> None:
        """Store the message and a hint at the fix."""
        super().__init__(what)
        self.what = what
        self.hint = hint


class Mismatches:
    """Collects the mismatches of a job's parameters, to report them all at once."""

    def __init__(self, job: Job) -> None:
        """Start without mismatches; errors name the job."""
        self._job = job
        self._diagnostics: list[Diagnostic] = []

    @contextlib.contextmanager
    def at(self, location: Location) -> Iterator[None]:
        """Catch a `MismatchError` of the body, and record it at a parameter's location."""
        try:
            yield
        except MismatchError as exc:
            self._diagnostics.append(Diagnostic(message=exc.what, location=location, hint=exc.hint))

    def check(self) -> None:
        """Raise one error with every recorded mismatch.

        Raises:
            CompileError: at least one mismatch was recorded.
        """
        if self._diagnostics:
            first = self._diagnostics[0]
            raise CompileError(
                f"kernel {self._job.spec.decl.name!r} and the manifest do not fit together: {first.message}",
                diagnostics=tuple(self._diagnostics),
                fix=first.hint,
            )


class ParameterBinder:
    """Base of binders: axes, `params` and `args` of a job, as the manifest gives them."""

    def __init__(self, job: Job) -> None:
        """Read axes, `params` and `args` of the job."""
        self._table = f"kernel.{job.spec.name}"
        self._axes: dict[str, AxisValue] = dict(job.variant.constants)
        self._params = {param.name: param for param in job.spec.params}
        self._args = list(job.spec.abi)

    def _stated(self, name: str, how: str, parameter: str = "") -> Param:
        """Return the entry of `params` for a launch parameter.

        Args:
            name: name of the launch parameter.
            how: another way to declare it, such as an annotation; for the message.
            parameter: name of the function's parameter, if it differs.

        Raises:
            MismatchError: `params` has no such entry.
        """
        if name in self._params:
            return self._params[name]
        parameter = parameter or name
        message = f"neither params nor an axis of the matrix says what parameter {parameter!r} is"
        close = suggestion(parameter, [*self._params, *self._axes])
        raise MismatchError(message, close or f"say it in [{self._table}.params], or {how}")

    def _dtype_named(
        self, parameter: str, given: str, known: Collection[str], compiler: str
    ) -> DType:
        """Return the dtype of a parameter, given by its name or by an axis.

        Raises:
            MismatchError: it is none of the dtypes that the compiler knows.
        """
        name = str(self._axes.get(given, given))
        if name not in known:
            what = f": {compiler} has no dtype {name}" if name else " has no dtype"
            raise MismatchError(
                f"parameter {parameter!r}{what}",
                f"give {self._table}.params.{parameter}.dtype: one of {', '.join(known)}, or an axis",
            )
        return DTYPES[name]

    def _refuse_stated(self, name: str) -> None:
        """Refuse a constant that is also a launch parameter.

        Raises:
            MismatchError: `params` has an entry of this name.
        """
        if name in self._params:
            message = f"{name!r} is a compile-time constant in the kernel and a launch parameter in the manifest"
            fix = f"take it out of [{self._table}.params], and make it an axis of [{self._table}.matrix]"
            raise MismatchError(message, fix)


def _refusal(path: str, problems: Sequence[Diagnostic]) -> CompileError:
    unique = tuple(dict.fromkeys(problems))
    return CompileError(f"{path}: {unique[0].message}", diagnostics=unique)
