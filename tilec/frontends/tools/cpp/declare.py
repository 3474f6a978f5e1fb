"""Find the kernels of a CUDA C++ source and of the project headers that it includes.

Each file is parsed once per process and file state.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.options import read_options
from tilec.frontends.tools.cpp.parse import SIMT, find_kernels
from tilec.model.cpp import cut
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Source

_TOGETHER = 16


def kernels(source: Source, include: Sequence[str], keyword: str = SIMT) -> list[KernelDecl]:
    """Return every kernel that the source or a header of the project defines.

    Args:
        source: the source.
        include: include directories, relative to the project.
        keyword: marks a kernel (`__global__`).

    Raises:
        CompileError: a file cannot be read, or leaves the project.
    """
    names = [source.path, *includes.kernel_files(source.root, source.path, include)]
    paths = {name: Path(source.root, name) for name in names}
    stats = {name: path.stat() for name, path in paths.items()}
    return [
        kernel
        for name, stat in stats.items()
        for kernel in _parsed(str(paths[name]), name, keyword, stat.st_mtime_ns, stat.st_size)
    ]


def together(source: Source) -> int:
    """Return the most variants of the source to compile in one run of the compiler.

    Variants of a light source share the time that its headers take. Variants of a heavy source gain
    more from parallel processes, and nvcc reads the headers again for each variant.
    """
    options = read_options(source.options)
    if options.compiler == "nvcc":
        return 1
    if options.group is not None:
        return options.group
    return 1 if includes.is_heavy(source.root, source.path, options.include) else _TOGETHER


def find(job: Job, candidates: Sequence[KernelDecl]) -> KernelDecl:
    """Return the job's kernel in the current source.

    A kernel that a macro expands to keeps its declaration, since the parser expands no macros.
    """
    spec = job.spec
    base, _ = cut(spec.symbol or spec.decl.qualified or spec.decl.name)
    return named(base, candidates) or named(spec.decl.qualified, candidates) or spec.decl


def named(name: str, candidates: Sequence[KernelDecl]) -> KernelDecl | None:
    """Return the kernel of a name, with or without namespaces, or None."""
    return next(
        (kernel for kernel in candidates if name and name in (kernel.qualified, kernel.name)),
        None,
    )


@functools.lru_cache(maxsize=1024)
def _parsed(path: str, name: str, keyword: str, mtime: int, size: int) -> tuple[KernelDecl, ...]:
    del mtime, size  # part of the key only
    return tuple(
        find_kernels(Path(path).read_text(encoding="utf-8", errors="replace"), name, keyword)
    )
