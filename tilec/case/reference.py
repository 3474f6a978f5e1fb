"""References: plain Python functions over NumPy arrays, loaded from the project and called with a
case's inputs by name.
"""

from __future__ import annotations

import importlib.util
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
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.suggest import did_you_mean

Function = Callable[..., Any]


class References:
    """The references of one project; each file is loaded once.

    Args:
        root: the project's directory; references are relative to it.
        role: what messages call them, where they are functions for something else.
    """

    def __init__(self, root: str, role: str = "reference") -> None:
        self._root = Path(root)
        self._role = role
        self._modules: dict[str, ModuleType] = {}

    def load(self, case: BoundCase) -> Function:
        """The function that a case names as `file.py:function`.

        Raises:
            CaseError: no such file or function, or the file cannot be run; located where the fault
                is.
        """
        file, _, name = case.reference.rpartition(":")
        if not file or not name.isidentifier():
            what = (
                f"{case.name}: {self._role} {case.reference!r} is not of the form file.py:function"
            )
            raise CaseError(what, location=case.place("reference"))
        module = self._modules.get(file) or self._module(case, file)
        self._modules[file] = module
        found = getattr(module, name, None)
        if not callable(found):
            known = [
                n
                for n, v in vars(module).items()
                if inspect.isfunction(v) and v.__module__ == module.__name__
            ]
            hint = did_you_mean(name, known) or (f"; it has {', '.join(known)}" if known else "")
            raise CaseError(
                f"{case.name}: {file} has no function {name!r}{hint}",
                location=case.place("reference"),
            )
        return found  # type: ignore[no-any-return]

    def expected(self, case: BoundCase, inputs: Mapping[str, Value]) -> dict[str, Array]:
        """What the case's reference gives, by name of output.

        The function is called with those inputs, by keyword, that its signature names (all for
        `**kwargs`); arrays are read-only. It returns one array, or for several outputs a mapping by
        name or a tuple in launcher order. Results may be wider than the kernel's dtype.

        Raises:
            CaseError: the signature does not fit, the function raises, or its results are not what
                the kernel writes.
        """
        function = self.load(case)
        arguments = _arguments(case, function, inputs)
        try:
            result = function(**arguments)
        except (
            Exception,
            SystemExit,
        ) as error:  # an exit would end the run, and with 0 it would look like success
            file = case.reference.rpartition(":")[0]
            where = _place(error, self._root / file, file)
            what = f"{case.name}: the reference raised {type(error).__name__}: {error}"
            fix = (
                "return a new array: the inputs are read-only" if "read-only" in str(error) else ""
            )
            raise CaseError(what, location=where or case.place("reference"), fix=fix) from error
        return _results(case, result, inputs)

    def _module(self, case: BoundCase, file: str) -> ModuleType:
        path = self._root / file
        if not path.is_file():
            raise CaseError(
                f"{case.name}: there is no file {file!r} for the {self._role}",
                location=case.place("reference"),
                fix="it is looked for in the project",
            )
        name = "_tilec_reference_" + "".join(c if c.isalnum() else "_" for c in file)
        spec = importlib.util.spec_from_file_location(
            name, path, loader=_AsWritten(name, str(path))
        )
        if path.suffix != ".py" or spec is None or spec.loader is None:
            raise CaseError(
                f"{case.name}: {file} is no Python file",
                location=case.place("reference"),
                fix="name a file that ends in .py",
            )
        module = importlib.util.module_from_spec(spec)
        try:
            with _importable(path.parent):
                spec.loader.exec_module(module)
        except SyntaxError as error:
            inside = error.filename == str(path)
            where = (
                Location(file=file, line=error.lineno or 0, column=error.offset or 0)
                if inside
                else case.place("reference")
            )
            raise CaseError(
                f"{case.name}: the {self._role}'s file is not valid Python: {error.msg}",
                location=where,
            ) from error
        except (Exception, SystemExit) as error:
            what = f"{case.name}: importing the {self._role}'s file raised {type(error).__name__}: {error}"
            raise CaseError(
                what, location=_place(error, path, file) or case.place("reference")
            ) from error
        return module


class _AsWritten(SourceFileLoader):
    """Reads a file each time: Python's cache of bytecode takes one for unchanged that is as long as
    a second ago, whatever it says.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The code of what is written there now."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Modules next to the reference can be imported by it; nothing is left in that cache of them."""
    write = sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = write


def _place(error: BaseException, path: Path, file: str) -> Location | None:
    """The innermost line of the reference's own file that the error passed through."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    return Location(file=file, line=lines[-1] or 0) if lines else None


def _arguments(
    case: BoundCase, function: Function, inputs: Mapping[str, Value]
) -> dict[str, Value]:
    values = {name: _read_only(value) for name, value in inputs.items()}
    taken: dict[str, Value] = {}
    for parameter in inspect.signature(function).parameters.values():
        match parameter.kind:
            case inspect.Parameter.VAR_KEYWORD:
                return values
            case inspect.Parameter.POSITIONAL_ONLY | inspect.Parameter.VAR_POSITIONAL:
                raise _signature_error(
                    case, function, f"its parameter {parameter.name!r} cannot be given by name"
                )
            case _ if parameter.name in values:
                taken[parameter.name] = values[parameter.name]
            case _ if parameter.default is inspect.Parameter.empty:
                hint = did_you_mean(parameter.name, list(values)) or f"; it has {', '.join(values)}"
                raise _signature_error(
                    case,
                    function,
                    f"it takes {parameter.name!r}, which is no input of the case{hint}",
                )
    return taken


def _signature_error(case: BoundCase, function: Function, what: str) -> CaseError:
    file, _, name = case.reference.rpartition(":")
    code = getattr(inspect.unwrap(function), "__code__", None)
    where = Location(file=file, line=code.co_firstlineno) if code else case.place("reference")
    return CaseError(f"{case.name}: reference {name!r} does not fit: {what}", location=where)


def _read_only(value: Value) -> Value:
    if not isinstance(value, np.ndarray):
        return value
    view: Array = value.view()
    view.flags.writeable = False
    return view


def _results(case: BoundCase, result: Any, inputs: Mapping[str, Value]) -> dict[str, Array]:
    outs = case.outs
    if isinstance(result, Mapping):
        if set(result) != set(outs):
            raise _result_error(
                case,
                f"it returned {', '.join(map(str, result)) or 'nothing'}; the kernel writes {', '.join(outs)}",
            )
        named = {name: result[name] for name in outs}
    elif isinstance(result, tuple | list) and len(outs) != 1:
        if len(result) != len(outs):
            raise _result_error(
                case, f"it returned {len(result)} results; the kernel writes {', '.join(outs)}"
            )
        named = dict(zip(outs, result, strict=True))
    elif len(outs) == 1:
        named = {outs[0]: result}
    else:
        raise _result_error(
            case, f"it returned one result; the kernel writes {', '.join(outs) or 'nothing'}"
        )
    return {name: _checked(case, name, value, inputs[name]) for name, value in named.items()}


def _checked(case: BoundCase, name: str, value: Any, target: Value) -> Array:
    if value is None:
        raise _result_error(case, f"it returned None for {name!r}")
    array = np.asarray(value)
    shape = target.shape if isinstance(target, np.ndarray) else ()
    if array.shape != shape:
        raise _result_error(
            case, f"{name} has shape {list(array.shape)}; the kernel's has {list(shape)}"
        )
    dtype = DTYPES[next(p.dtype for p in case.params if p.name == name)]
    real = array.dtype.kind in "iubf" or array.dtype.name in {row.numpy for row in DTYPES.values()}
    if not real or (dtype.kind != "float" and array.dtype.kind not in "iub"):
        what = f"{name} has dtype {array.dtype}; the kernel's has {dtype.numpy}"
        raise _result_error(
            case,
            what,
            fix=f"give it that dtype, with .astype({dtype.numpy!r})" if real else _RESULT,
        )
    return array


_RESULT = "return one array, or for several outputs a mapping by name or a tuple in launcher order"


def _result_error(case: BoundCase, what: str, *, fix: str = _RESULT) -> CaseError:
    return CaseError(
        f"{case.name}: reference {case.reference}: {what}",
        location=case.place("reference"),
        fix=fix,
    )
