"""Replaced functions of cuda.tile, which has no hook for them; checked against cuda-tile 1.7.

- Files of installed packages are named without the directory that they are installed in, so that
  images do not depend on it.
- Debug information names the user's lines, and not those of the language or of the entry point.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

from tilec_runtime.model.arch import Version

# The versions that this was checked against: the replaced functions are private, and change
# between minor versions.
TESTED: Version = (1, 7)


class _Inspect:
    """`inspect` for cuda.tile's front end: names files of installed packages without the directory of
    the installation.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(inspect, name)

    def getfile(self, item: Any) -> str:
        """Return the file name for debug information."""
        return installed_name(inspect.getfile(item))


@contextmanager
def places(
    entry: str, function: FunctionType, line: int, language: frozenset[str]
) -> Iterator[None]:
    """Let debug information have locations in the user's code only, inside the context.

    Code of the language takes the location of the call; the entry point (a function in the file
    `entry`), and its callees in the language, take that of `function`, whose `def` is on `line`.
    `language` are the names that the language's files have in debug information.
    """
    from cuda.tile import _ir2bytecode
    from cuda.tile._exception import FunctionDesc

    file = installed_name(function.__code__.co_filename)
    home = FunctionDesc(function.__name__, file, line, 1, is_entry=True)
    original = _ir2bytecode.DebugAttrMap.get_debugattr

    def get_debugattr(self: Any, loc: Any) -> Any:
        while loc.call_site is not None and loc.filename in language:
            loc = loc.call_site
        if loc.filename == entry:
            loc = dataclasses.replace(
                loc, filename=file, line=line, col=0, function=home, call_site=None
            )
        elif loc.call_site is not None and loc.call_site.filename == entry:
            loc = dataclasses.replace(loc, function=home, call_site=None)
        return original(self, loc)

    _ir2bytecode.DebugAttrMap.get_debugattr = get_debugattr
    try:
        yield
    finally:
        _ir2bytecode.DebugAttrMap.get_debugattr = original


def forget_sources() -> None:
    """Clear the cache in which cuda.tile keeps parsed functions with the values of global names."""
    from cuda.tile._passes import ast2hir

    ast2hir.get_function_hir.cache_clear()


def name_installed_files() -> None:
    # Names of project files are relative already; this is for libraries of tile functions, whose
    # place differs between machines.
    from cuda.tile._passes import ast2hir

    if getattr(ast2hir, "inspect", None) is inspect:
        ast2hir.inspect = _Inspect()


def installed_name(file: str) -> str:
    """Return a file name relative to the entry of sys.path that contains it, or its last part if none
    does.
    """
    path = Path(file)
    if not path.is_absolute():
        return file
    entries = [Path(e) for e in sys.path if e]
    below = [
        path.relative_to(e).as_posix()
        for e in entries
        if e.is_absolute() and path.is_relative_to(e)
    ]
    return min(below, key=len, default=path.name)
