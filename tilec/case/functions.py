"""Functions of a project that cases name as `file.py:function`: loaded once, called by name."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

from tilec.case.cases import BoundCase
from tilec_runtime.errors import CaseError, Location
from tilec_runtime.model.suggest import did_you_mean

Function = Callable[..., Any]
Key = tuple[str | int, ...]
T = TypeVar("T")


class Functions:
    """Functions in files of one project; each file is loaded once.

    Args:
        root: the project's directory; files are relative to it.
    """

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._modules: dict[str, ModuleType] = {}

    def load(self, case: BoundCase, text: str, key: Key) -> Function:
        """Return the function that a key of a case names as `file.py:function`.

        Raises:
            CaseError: there is no such file or function, or the file fails to load.
        """
        file, _, name = text.rpartition(":")
        if not file or not name.isidentifier():
            form = f"{_role(key)} {text!r} is not of the form file.py:function"
            raise self._error(case, key, form)
        module = self._modules.get(file) or self._module(case, file, key)
        self._modules[file] = module
        function = getattr(module, name, None)
        if not callable(function):
            functions = inspect.getmembers(module, inspect.isfunction)
            known = [n for n, each in functions if each.__module__ == module.__name__]
            hint = did_you_mean(name, known) or (f"; it has {', '.join(known)}" if known else "")
            raise self._error(case, key, f"{file} has no function {name!r}{hint}")
        return function  # type: ignore[no-any-return]

    def call(
        self,
        case: BoundCase,
        text: str,
        key: Key,
        values: Mapping[str, object],
        more: Mapping[str, object],
    ) -> object:
        """Call a function with those values, by keyword, that its signature names.

        Args:
            case: names the function.
            text: `file.py:function`.
            key: of the case, for messages.
            values: what `**kwargs` takes too.
            more: what is given to parameters of these names alone.

        Raises:
            CaseError: it cannot be loaded, its signature does not fit, or it raises.
        """
        function = self.load(case, text, key)
        arguments = self.arguments(case, text, key, values, more)
        try:
            return function(**arguments)
        except (Exception, SystemExit) as error:  # exit status 0 would look like success
            file = text.rpartition(":")[0]
            fix = (
                "return a new array: the inputs are read-only" if "read-only" in str(error) else ""
            )
            raise self._error(
                case,
                key,
                f"the {_role(key)} raised {type(error).__name__}: {error}",
                location=_location(error, self._root / file, file),
                fix=fix,
            ) from error

    def arguments(
        self,
        case: BoundCase,
        text: str,
        key: Key,
        values: Mapping[str, T],
        more: Mapping[str, T],
    ) -> dict[str, T]:
        """Return the values that a function's signature names, by parameter.

        A parameter `**kwargs` takes all of `values`, and none of `more`.

        Raises:
            CaseError: as `call`.
        """
        function = self.load(case, text, key)
        taken: dict[str, T] = {}
        known = {**values, **more, **values}  # inputs first, also for messages
        for parameter in inspect.signature(function).parameters.values():
            name = parameter.name
            message = ""
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                taken.update(values)
            elif parameter.kind in (
                inspect.Parameter.POSITIONAL_ONLY,
                inspect.Parameter.VAR_POSITIONAL,
            ):
                message = f"its parameter {name!r} cannot be given by name"
            elif name in known:
                taken[name] = known[name]
            elif parameter.default is inspect.Parameter.empty:
                hint = did_you_mean(name, list(known)) or f"; it has {', '.join(known)}"
                message = f"it takes {name!r}, which is no input of the case and no axis{hint}"
            if message:
                file, _, shown = text.rpartition(":")
                code = getattr(inspect.unwrap(function), "__code__", None)
                location = Location(file=file, line=code.co_firstlineno) if code else None
                message = f"{_role(key)} {shown!r} does not fit: {message}"
                raise self._error(case, key, message, location=location)
        return taken

    def _module(self, case: BoundCase, file: str, key: Key) -> ModuleType:
        path, role = self._root / file, _role(key)
        if not path.is_file() or path.suffix != ".py":
            raise self._error(
                case,
                key,
                f"there is no file {file!r} for the {role}",
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
            message = f"importing the {role}'s file raised {type(error).__name__}: {error}"
            location = _location(error, path, file)
            if isinstance(error, SyntaxError):
                message = f"the {role}'s file is not valid Python: {error.msg}"
                if error.filename == str(path):
                    location = Location(file=file, line=error.lineno or 0, column=error.offset or 0)
            raise self._error(case, key, message, location=location) from error
        return module

    def _error(
        self,
        case: BoundCase,
        key: Key,
        message: str,
        *,
        location: Location | None = None,
        fix: str = "",
    ) -> CaseError:
        location = location or case.location_of(*key)
        return CaseError(f"{case.name}: {message}", location=location, fix=fix)


def _role(key: Key) -> str:
    """Return what messages call the function that a key names."""
    return {"reference": "reference", "bench": "rival"}.get(str(key[0]), "function")


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
