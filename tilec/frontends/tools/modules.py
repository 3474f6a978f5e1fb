"""Execute a project's Python module and the project modules that it imports.

File names in their code are relative to the project's directory, so that compiled code does not
depend on its location.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import linecache
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import ExecutionLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from tilec.frontends.tools.environment import is_environment, is_installed
from tilec.frontends.tools.files import read, within
from tilec.frontends.tools.inputs import KEPT, closure, is_unchanged, module_files, search_bases
from tilec.frontends.tools.python_errors import import_error
from tilec.model.job import InputFile, Source
from tilec_runtime.errors import UsageError

_lock = threading.RLock()
_loaded: dict[tuple[str, str], LoadedModule] = {}
_MOST = 256


@dataclasses.dataclass(kw_only=True, slots=True)
class LoadedModule:
    """A source that was executed, with the project modules it imported.

    Attributes:
        source: the source.
        inputs: every file that it could import, with digests.
        main: the module object.
        modules: project modules by name, `main` included.
        texts: text of every executed project file by its relative name.
    """

    source: Source
    inputs: tuple[InputFile, ...]
    main: ModuleType
    modules: dict[str, ModuleType]
    texts: dict[str, str]

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Make imports find the project's modules, and tracebacks their source lines, in a `with`.

        cuda.tile reads source lines in the same way as tracebacks.
        """
        with _activated(self.source, self.modules, self.texts):
            yield

    @property
    def is_current(self) -> bool:
        """Whether no file has changed since it was executed."""
        return all(is_unchanged(self.source.root, item) for item in self.inputs)


def load(source: Source, *, again: bool = True) -> LoadedModule:
    """Execute a source, once per process and state of its files.

    Args:
        source: the source.
        again: search for new files too; otherwise a loaded module is valid while its known files
            are unchanged.

    Raises:
        CompileError: it cannot be read, is no valid Python, or raises an exception when it is
            imported; with the user's lines.
    """
    key = (source.root, source.path)
    with _lock:
        known = _loaded.get(key)
        if known is not None and not again and known.is_current:
            return known
        inputs = closure(source)
        if known is not None and known.inputs == inputs:
            return known
        loaded = _execute(source, inputs)
        while len(_loaded) >= _MOST:
            del _loaded[next(iter(_loaded))]
        _loaded[key] = loaded
        return loaded


def _execute(source: Source, inputs: tuple[InputFile, ...]) -> LoadedModule:
    path = within(source.root, source.path)
    name = _module_name(path)
    modules: dict[str, ModuleType] = {}
    texts: dict[str, str] = {}
    output = io.StringIO()
    with _activated(source, modules, texts):
        finder = _Finder(source, texts)
        spec = finder.spec_of(name, path)
        main = importlib.util.module_from_spec(spec)
        sys.modules[name] = main
        # Output that a module prints on import must not mix with a build's output.
        try:
            with contextlib.redirect_stdout(output), _declared_reads(source, inputs):
                finder.exec_module(main)
        except KeyboardInterrupt:
            raise
        except BaseException as exc:  # noqa: BLE001 - a SystemExit of the module is its error
            raise import_error(exc, source, texts, output.getvalue()) from None
    return LoadedModule(source=source, inputs=inputs, main=main, modules=modules, texts=texts)


_executing: list[tuple[Path, frozenset[str]]] = []
_hooked: list[bool] = []


@contextlib.contextmanager
def _declared_reads(source: Source, inputs: Sequence[InputFile]) -> Iterator[None]:
    """Refuse, in a `with`, to open a project's file that is no input.

    An edit of such a file would not change the cache key.
    """
    if not _hooked:
        sys.addaudithook(_on_open)  # an audit hook cannot be removed
        _hooked.append(True)
    _executing.append((Path(source.root).resolve(), frozenset(item.name for item in inputs)))
    try:
        yield
    finally:
        _executing.pop()


def _on_open(event: str, args: tuple[Any, ...]) -> None:
    if (
        not _executing
        or event != "open"
        or not isinstance(args[0], str | bytes | os.PathLike)
        or (args[2] or 0) & os.O_ACCMODE
    ):
        return
    root, known = _executing[-1]
    path = Path(os.path.realpath(os.fsdecode(args[0])))
    if path.is_relative_to(root) and not is_installed(str(path)) and not is_environment(str(path)):
        if path.suffix == ".pyc" and path.parent.name == "__pycache__":
            path = Path(importlib.util.source_from_cache(str(path)))
        name = path.relative_to(root).as_posix()
        if name not in known and not any(part.startswith(".") for part in name.split("/")):
            message = (
                f"the module reads {name} when it is executed, and the manifest does not say so"
            )
            raise UsageError(message, fix=f'reads = ["{name}"] beside the kernel\'s source')


def _module_name(path: str) -> str:
    """Return the dotted name of a file in the root.

    A prefix keeps it apart from modules of the standard library and from `KEPT`.
    """
    parts = [p.replace(".", "_") for p in path.removesuffix(".py").split("/")]
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    if parts[0] in sys.stdlib_module_names or parts[0] in KEPT:
        parts[0] = f"_project_{parts[0]}"
    return ".".join(parts)


def _is_ours(module: ModuleType, root: str, *, new: bool) -> bool:
    """Whether a module belongs to the project.

    That is a module executed here, or a new package without `__init__.py`, found through sys.path.
    """
    if isinstance(getattr(module, "__loader__", None), _Finder):
        return True
    return (new and getattr(module, "__file__", None) is None) and any(
        Path(p).is_relative_to(root) and not is_installed(p)
        for p in getattr(module, "__path__", ())
    )


@contextlib.contextmanager
def _activated(
    source: Source, modules: dict[str, ModuleType], texts: dict[str, str]
) -> Iterator[None]:
    """Install the project's modules and texts in a `with`.

    The end of it removes them again, and adds newly imported modules of the project to `modules`.
    """
    finder = _Finder(source, texts)
    with _lock:
        own = _own_names(source)
        stashed = {
            n: m for n, m in sys.modules.items() if n in modules or n.partition(".")[0] in own
        }
        for name in stashed:
            del sys.modules[name]
        before = set(sys.modules)
        sys.modules.update(modules)
        lines = {name: linecache.cache.pop(name, None) for name in texts}
        for name, text in texts.items():
            _register(name, text)
        path, write = list(sys.path), sys.dont_write_bytecode
        sys.dont_write_bytecode = True
        sys.meta_path.insert(0, finder)
        # Python finds directories without `__init__.py` there, after everything else.
        sys.path += [str(Path(source.root, base)) for base in search_bases(source)]
        try:
            yield
        finally:
            sys.meta_path[:] = [each for each in sys.meta_path if each is not finder]
            sys.path[:], sys.dont_write_bytecode = path, write
            # List all before removing the first: computing the path of a namespace package imports
            # its parent.
            ours = [
                name
                for name, module in list(sys.modules.items())
                if _is_ours(module, source.root, new=name not in before)
            ]
            for name in ours:
                modules[name] = sys.modules.pop(name)
            sys.modules.update(stashed)
            for name in texts:
                linecache.cache.pop(name, None)
            linecache.cache.update(
                {name: entry for name, entry in lines.items() if entry is not None}
            )


def _own_names(source: Source) -> set[str]:
    """Return the top-level names that refer to the project while it is active.

    A loaded package wins over a directory without `__init__.py`.
    """
    names = set[str]()
    for base in search_bases(source):
        with contextlib.suppress(OSError):
            for entry in Path(source.root, base).iterdir():
                if entry.suffix == ".py":
                    names.add(entry.stem)
                elif entry.is_dir() and (
                    (entry / "__init__.py").is_file()
                    or getattr(sys.modules.get(entry.name), "__file__", None) is None
                ):
                    names.add(entry.name)
    return names - KEPT - sys.stdlib_module_names


def _register(name: str, text: str) -> None:
    linecache.cache[name] = (len(text), None, io.StringIO(text).readlines(), name)


class _Finder(ExecutionLoader):
    """Finds and executes project modules: next to the source, then in the root.

    Names of the standard library are left to Python. A module's code has the file's relative name,
    so that compiled code does not depend on the project's location; `__file__` is absolute. No
    bytecode is written next to the sources.
    """

    def __init__(self, source: Source, texts: dict[str, str]) -> None:
        self._source = source
        self._bases = search_bases(source)
        self._root = Path(source.root).resolve()
        self._texts = texts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Return the spec of a project's module, or None; called by the import system."""
        del target
        top = fullname.partition(".")[0]
        # A project with a directory `cuda` can import from it: the installed `cuda` is a namespace
        # package, without a file of its own.
        if top in sys.stdlib_module_names or (top in KEPT and top != "cuda"):
            return None
        bases = [(base, fullname) for base in self._bases]
        if path is not None:
            last = fullname.rpartition(".")[2]
            inside = [Path(p).resolve() for p in path if not is_installed(p)]
            bases = [
                (p.relative_to(self._root).as_posix(), last)
                for p in inside
                if p.is_relative_to(self._root)
            ] + bases
        for base, dotted in bases:
            for file in module_files(self._source.root, "" if base == "." else base, dotted):
                return self.spec_of(fullname, file)
        return None

    def spec_of(self, fullname: str, file: str) -> ModuleSpec:
        """Return the spec of a project's file, given by its relative name."""
        file = within(self._source.root, file)
        absolute = Path(self._source.root, file)
        package = absolute.name == "__init__.py"
        spec = ModuleSpec(fullname, self, origin=str(absolute), is_package=package)
        spec.loader_state = file
        spec.has_location = True
        if package:
            spec.submodule_search_locations = [str(absolute.parent)]
        return spec

    def get_filename(self, fullname: str) -> str:
        """Return the relative name of a module's file, the name in its code."""
        module = sys.modules.get(fullname)
        if module is None or module.__spec__ is None:
            raise ImportError(name=fullname)
        file: str = module.__spec__.loader_state
        return file

    def get_source(self, fullname: str) -> str:
        """Return a module's source, and register its lines for tracebacks and cuda.tile."""
        file = self.get_filename(fullname)
        if file not in self._texts:
            self._texts[file] = importlib.util.decode_source(read(self._source.root, file))
            _register(file, self._texts[file])
        return self._texts[file]
