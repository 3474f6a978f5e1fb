"""Loads and calls references: Python functions over NumPy arrays in files of the project."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from tilec.case.cases import BoundCase
from tilec.case.inputs import Array, Value
from tilec_runtime.errors import CaseError, Location
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES
from tilec_runtime.model.suggest import did_you_mean

Function = Callable[..., Any]

_RESULT = "return one array, or for several outputs a mapping by name or a tuple in launcher order"


class References:
    """The references of one project; each file is loaded once.

    Args:
        root: the project's directory; references are relative to it.
        role: what messages call these functions.
    """

    def __init__(self, root: str, role: str = "reference") -> None:
        self._root = Path(root)
        self._role = role
        self._modules: dict[str, ModuleType] = {}

    def load(self, case: BoundCase) -> Function:
        """Return the function that a case names as `file.py:function`.

        Raises:
            CaseError: there is no such file or function, or the file fails to load.
        """
        file, _, name = case.reference.rpartition(":")
        if not file or not name.isidentifier():
            form = f"{self._role} {case.reference!r} is not of the form file.py:function"
            raise self._error(case, form)
        module = self._modules.get(file) or self._module(case, file)
        self._modules[file] = module
        found = getattr(module, name, None)
        if not callable(found):
            functions = inspect.getmembers(module, inspect.isfunction)
            known = [n for n, each in functions if each.__module__ == module.__name__]
            hint = did_you_mean(name, known) or (f"; it has {', '.join(known)}" if known else "")
            raise self._error(case, f"{file} has no function {name!r}{hint}")
        return found  # type: ignore[no-any-return]

    def expected(self, case: BoundCase, inputs: Mapping[str, Value]) -> dict[str, Array]:
        """Return the results of the case's reference, by name of output.

        The function is called with those inputs, by keyword, that its signature names (all for
        `**kwargs`); arrays are read-only. It returns one array, or for several outputs a mapping by
        name or a tuple in launcher order. Results may be wider than the kernel's dtype.

        Raises:
            CaseError: the signature does not fit, the function raises, or its results are not those
                that the kernel writes.
        """
        function = self.load(case)
        arguments = _arguments(case, function, inputs)
        try:
            result = function(**arguments)
        except (Exception, SystemExit) as error:  # exit status 0 would look like success
            file = case.reference.rpartition(":")[0]
            fix = (
                "return a new array: the inputs are read-only" if "read-only" in str(error) else ""
            )
            raise self._error(
                case,
                f"the reference raised {type(error).__name__}: {error}",
                location=_location(error, self._root / file, file),
                fix=fix,
            ) from error
        return _results(case, result, inputs)

    def _module(self, case: BoundCase, file: str) -> ModuleType:
        path = self._root / file
        if not path.is_file() or path.suffix != ".py":
            raise self._error(
                case,
                f"there is no file {file!r} for the {self._role}",
                fix="name a Python file of the project",
            )
        name = "_tilec_reference_" + "".join(c if c.isalnum() else "_" for c in file)
        loader = _UncachedLoader(name, str(path))
        module = ModuleType(name)
        module.__file__ = str(path)
        try:
            with _importable(path.parent):
                loader.exec_module(module)
        except (Exception, SystemExit) as error:
            what = f"importing the {self._role}'s file raised {type(error).__name__}: {error}"
            location = _location(error, path, file)
            if isinstance(error, SyntaxError):
                what = f"the {self._role}'s file is not valid Python: {error.msg}"
                if error.filename == str(path):
                    location = Location(file=file, line=error.lineno or 0, column=error.offset or 0)
            raise self._error(case, what, location=location) from error
        return module

    def _error(
        self, case: BoundCase, what: str, *, location: Location | None = None, fix: str = ""
    ) -> CaseError:
        location = location or case.place("reference")
        return CaseError(f"{case.name}: {what}", location=location, fix=fix)


class _UncachedLoader(SourceFileLoader):
    """Compiles a file on each load.

    Python's bytecode cache compares size and second, and misses an edit that keeps both.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Compile the file as it is now."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let the reference import modules beside it, without writing their bytecode."""
    write = sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = write


def _location(error: BaseException, path: Path, file: str) -> Location | None:
    """Return the innermost line of the reference's own file in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return Location(file=file, line=lines[-1] or 0) if lines else None


def _arguments(
    case: BoundCase, function: Function, inputs: Mapping[str, Value]
) -> dict[str, Value]:
    values = {name: _read_only(value) for name, value in inputs.items()}
    taken: dict[str, Value] = {}
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return values
        if parameter.kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            what = f"its parameter {name!r} cannot be given by name"
            raise _signature_error(case, function, what)
        if name in values:
            taken[name] = values[name]
        elif parameter.default is inspect.Parameter.empty:
            hint = did_you_mean(name, list(values)) or f"; it has {', '.join(values)}"
            what = f"it takes {name!r}, which is no input of the case{hint}"
            raise _signature_error(case, function, what)
    return taken


def _signature_error(case: BoundCase, function: Function, what: str) -> CaseError:
    file, _, name = case.reference.rpartition(":")
    code = getattr(inspect.unwrap(function), "__code__", None)
    location = Location(file=file, line=code.co_firstlineno) if code else case.place("reference")
    return CaseError(f"{case.name}: reference {name!r} does not fit: {what}", location=location)


def _read_only(value: Value) -> Value:
    if not isinstance(value, np.ndarray):
        return value
    view: Array = value.view()
    view.flags.writeable = False
    return view


def _results(case: BoundCase, result: Any, inputs: Mapping[str, Value]) -> dict[str, Array]:
    outs = case.outs
    if isinstance(result, Mapping):
        named = dict(result)
    elif isinstance(result, tuple | list) and len(outs) != 1:
        if len(result) != len(outs):
            what = f"it returned {len(result)} results; the kernel writes {', '.join(outs)}"
            raise _result_error(case, what)
        named = dict(zip(outs, result, strict=True))
    elif len(outs) == 1:
        named = {outs[0]: result}
    else:
        what = f"it returned one result; the kernel writes {', '.join(outs) or 'nothing'}"
        raise _result_error(case, what)
    if set(named) != set(outs):
        returned = ", ".join(map(str, named)) or "nothing"
        raise _result_error(case, f"it returned {returned}; the kernel writes {', '.join(outs)}")
    return {name: _checked(case, name, named[name], inputs[name]) for name in outs}


def _checked(case: BoundCase, name: str, value: Any, target: Value) -> Array:
    if value is None:
        raise _result_error(case, f"it returned None for {name!r}")
    array = np.asarray(value)
    shape = np.shape(target)
    if array.shape != shape:
        what = f"{name} has shape {list(array.shape)}; the kernel's has {list(shape)}"
        raise _result_error(case, what)
    dtype = DTYPES[case.dtype_of(name)]
    real = array.dtype.kind in "iubf" or array.dtype.name in BY_NUMPY
    if not real or (dtype.kind != "float" and array.dtype.kind not in "iub"):
        what = f"{name} has dtype {array.dtype}; the kernel's has {dtype.numpy}"
        fix = f"give it that dtype, with .astype({dtype.numpy!r})" if real else _RESULT
        raise _result_error(case, what, fix=fix)
    return array


def _result_error(case: BoundCase, what: str, *, fix: str = _RESULT) -> CaseError:
    return CaseError(
        f"{case.name}: reference {case.reference}: {what}",
        location=case.place("reference"),
        fix=fix,
    )
