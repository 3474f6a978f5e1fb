"""Functions of cuda.tile that are replaced for want of a hook; checked against cuda-tile 1.7.

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

# The versions that the above was checked against: what is replaced is private, and moves from one
# minor version to the next.
TESTED: Version = (1, 7)


class _Inspect:
    """`inspect` as cuda.tile's front end sees it: a file of an installed package is named without
    the directory it is installed in.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(inspect, name)

    def getfile(self, item: Any) -> str:
        """The name that goes into debug information."""
        return installed_name(inspect.getfile(item))


@contextmanager
def places(
    entry: str, function: FunctionType, line: int, language: frozenset[str]
) -> Iterator[None]:
    """While it lasts, debug information has the user's places alone.

    What the language does for a call counts as the call; the entry point (a function in the file
    `entry`), and what it calls, count as `function`, whose `def` stands on `line`. `language` are
    the names that the language's files have in debug information.
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
    """Have cuda.tile read every function again: it keeps what it read, with the values that global
    names had.
    """
    from cuda.tile._passes import ast2hir

    ast2hir.get_function_hir.cache_clear()


def name_installed_files() -> None:
    # Names of project files are relative already; this is for libraries of tile functions, whose
    # place differs between machines.
    from cuda.tile._passes import ast2hir

    if getattr(ast2hir, "inspect", None) is inspect:
        ast2hir.inspect = _Inspect()


def installed_name(file: str) -> str:
    """An absolute file name relative to the entry of sys.path it is under; its last part where
    there is none.
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
