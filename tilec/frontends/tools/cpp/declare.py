"""The kernels of a CUDA C++ source and of the project headers that it includes; each file is parsed
once per process and state.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from tilec.frontends.tools.cpp import includes, symbol
from tilec.frontends.tools.cpp.options import read_options
from tilec.frontends.tools.cpp.parse import SIMT, Found, find_kernels
from tilec.model.cpp import cut
from tilec.model.job import Job, Source
from tilec_runtime.errors import CompileError, Diagnostic, Location

_TOGETHER = 16


def kernels(source: Source) -> list[Found]:
    """Every `__global__` function that the source defines or includes.

    Raises:
        CompileError: a file cannot be read, or a kernel takes a reference.
        UsageError: an option is wrong.
    """
    options = read_options(source.options)
    names = [source.path, *includes.kernel_files(source.root, source.path, options.include)]
    return [kernel for name in names for kernel in kernels_of(source.root, name)]


def together(source: Source) -> int:
    """Most variants of the source that are compiled in one go.

    Light ones share what the headers cost. Heavy ones have more to gain from processes that work
    side by side, and nvcc starts anew for each anyway.
    """
    options = read_options(source.options)
    if options.compiler == "nvcc":
        return 1
    if options.group is not None:
        return options.group
    return 1 if includes.is_heavy(source.root, source.path, options.include) else _TOGETHER


def find(job: Job, candidates: Sequence[Found]) -> Found:
    """The job's kernel in the source as it is now.

    Raises:
        CompileError: the source has no such kernel (any more).
    """
    spec = job.spec
    base, _ = cut(spec.symbol or spec.decl.qualified or spec.decl.name)
    kernel = named(base, candidates) or named(spec.decl.qualified, candidates)
    if kernel is not None:
        return kernel
    if spec.decl.params or not candidates:
        # A kernel that only the preprocessor makes: the compiler knows it, the text does not show
        # it.
        return Found(decl=spec.decl, required=len(spec.decl.template))
    raise symbol.unknown_symbol(base, [c.decl for c in candidates])


def named(name: str, candidates: Sequence[Found]) -> Found | None:
    """The kernel of a name, with or without its namespaces."""
    return next(
        (
            kernel
            for kernel in candidates
            if name and name in (kernel.decl.qualified, kernel.decl.name)
        ),
        None,
    )


def kernels_of(root: str, name: str, keyword: str = SIMT) -> list[Found]:
    """The kernels of one file of the project, by the word that marks them.

    Raises:
        CompileError: it cannot be read, or a kernel takes a reference.
    """
    path = Path(root, name)
    try:
        stat = path.stat()
        return list(_parsed(str(path), name, keyword, stat.st_mtime_ns, stat.st_size))
    except OSError as exc:
        message = f"cannot read {name}: {exc.strerror}"
        raise CompileError(
            message,
            diagnostics=(Diagnostic(message=message, location=Location(file=name)),),
            fix="see that the file is there and readable",
        ) from exc


@functools.lru_cache(maxsize=1024)
def _parsed(path: str, name: str, keyword: str, mtime: int, size: int) -> tuple[Found, ...]:
    del mtime, size  # part of the key only
    return tuple(
        find_kernels(Path(path).read_text(encoding="utf-8", errors="replace"), name, keyword)
    )
