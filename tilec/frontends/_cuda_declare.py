"""The kernels of a CUDA C++ source and of the project headers that it includes; each file is parsed once per process and state."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from tilec.errors import CompileError, Diagnostic, Location
from tilec.frontends import _cuda_includes, _cuda_symbol
from tilec.frontends._cuda_options import read_options
from tilec.frontends._cuda_parse import Found, find_kernels
from tilec.model.job import Job, Source


def kernels(source: Source) -> list[Found]:
    """Every `__global__` function that the source defines or includes.

    Raises:
        CompileError: a file cannot be read, or a kernel takes a reference.
        UsageError: an option is wrong.
    """
    options = read_options(source.options)
    names = [source.path, *_cuda_includes.kernel_files(source.root, source.path, options.include)]
    return [found for name in names for found in _kernels_of(source.root, name)]


def find(job: Job, candidates: Sequence[Found]) -> Found:
    """The job's kernel in the source as it is now.

    Raises:
        CompileError: the source has no such kernel (any more).
    """
    spec = job.spec
    base, _ = _cuda_symbol.cut(spec.symbol or spec.decl.qualified or spec.decl.name)
    for wanted in (base, spec.decl.qualified):
        for found in candidates:
            if wanted and wanted in (found.decl.qualified, found.decl.name):
                return found
    if spec.decl.params or not candidates:
        # A kernel that only the preprocessor makes: the compiler knows it, the text does not show it.
        return Found(decl=spec.decl, required=len(spec.decl.template))
    raise _cuda_symbol.unknown_symbol(base, [c.decl for c in candidates])


def _kernels_of(root: str, name: str) -> list[Found]:
    path = Path(root, name)
    try:
        stat = path.stat()
        return list(_parsed(str(path), name, stat.st_mtime_ns, stat.st_size))
    except OSError as exc:
        what = f"cannot read {name}: {exc.strerror}"
        raise CompileError(
            what, diagnostics=(Diagnostic(message=what, location=Location(file=name)),), fix="see that the file is there and readable"
        ) from exc


@functools.lru_cache(maxsize=1024)
def _parsed(path: str, name: str, mtime: int, size: int) -> tuple[Found, ...]:
    del mtime, size  # part of the key only
    return tuple(find_kernels(Path(path).read_text(encoding="utf-8", errors="replace"), name))
