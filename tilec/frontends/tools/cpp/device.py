"""Compile device functions of CUDA C++ to LTO-IR, for kernels that are linked with them."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterable, Mapping, Sequence

from tilec.frontends.tools.cpp.diagnostics import read_log
from tilec.frontends.tools.cpp.includes import closure, source_bytes
from tilec.frontends.tools.cpp.nvrtc import Program, compile_source
from tilec.frontends.tools.machine_code import timeout_error
from tilec.frontends.tools.nvjitlink import Piece
from tilec.frontends.tools.search import Tool
from tilec.model.job import InputFile, Job
from tilec_runtime.errors import CompileError, Location, ToolchainError

# Without a fixed seed, NVRTC puts its process id into the names of file-local symbols.
_FIXED = ("-dlto", "-rdc=true", "-frandom-seed=tilec")


def compile_file(
    job: Job,
    path: str,
    tools: Mapping[str, Tool],
    arguments: Sequence[str],
    *,
    include: Sequence[str] = (),
    define: Iterable[str] = (),
    portable: bool,
) -> Piece:
    """Compile a source of the project to LTO-IR.

    Args:
        job: job with the project and the architecture.
        path: the source, relative to the project.
        tools: NVRTC, its builtins and the toolkit's headers, by name.
        arguments: dialect, defines and flags; line information only if not `portable`.
        include: directories relative to the project.
        define: values of macros among the arguments.
        portable: whether the LTO-IR is shipped; it then names no directories of this machine.

    Raises:
        CompileError: it cannot be read, lies outside of the project, or does not compile.
        ToolchainError: NVRTC cannot be used.
    """
    root, arch, timeout = job.spec.source.root, f"compute_{job.target.number}", job.spec.timeout
    program = _compiled(
        source_bytes(root, path),
        path,
        (f"--gpu-architecture={arch}", *_FIXED, *arguments),
        tuple(tools.items()),
        root,
        tuple(include),
        tuple(closure(root, path, include, define)),
        timeout,
        portable,
    )
    if program.ok:
        return Piece(name=path, kind="LTOIR", data=program.ltoir)
    log = program.log or program.result
    command = shlex.join(["nvcc", "-dc", "-dlto", f"-arch={arch}", *arguments, path])
    if program.timed_out:
        raise timeout_error(f"compiling {path} for the link", timeout, log=log, command=command)
    at = Location(file=path, line=1)
    words = read_log(log, root, toolkit=tools["headers"].path, fallback=at)
    raise CompileError(
        f"{path}, which {job.spec.source.path} is linked with, does not compile for {job.target}",
        diagnostics=words.diagnostics,
        log=log,
        command=command,
    )


def compile_text(
    job: Job, name: str, text: str, tools: Mapping[str, Tool], arguments: Sequence[str]
) -> Piece:
    """Compile a text that is not a file of the project to LTO-IR.

    Raises:
        ToolchainError: NVRTC cannot be used, or does not compile it.
    """
    options = (f"--gpu-architecture=compute_{job.target.number}", *_FIXED, *arguments)
    headers, timeout = tools["headers"].path, job.spec.timeout
    program = _compiled(
        text.encode(), name, options, tuple(tools.items()), headers, (), (), timeout, True
    )
    if not program.ok:
        raise ToolchainError(
            f"{name} does not compile for {job.target}: {program.log or program.result}",
            cause="it needs CUDA's own headers, of the release that NVRTC is of",
            fix="pip install --force-reinstall 'tilec[build]'",
        )
    return Piece(name=name, kind="LTOIR", data=program.ltoir)


@functools.lru_cache(maxsize=64)
def _compiled(
    source: bytes,
    name: str,
    options: tuple[str, ...],
    tools: tuple[tuple[str, Tool], ...],
    root: str,
    include: tuple[str, ...],
    files: tuple[InputFile, ...],
    timeout: float,
    portable: bool,
) -> Program:
    """Compile with NVRTC, once for all variants of a kernel; `files` are all that it can include."""
    del files  # part of the key only
    return compile_source(
        dict(tools),
        source,
        name,
        options,
        root=root,
        include=include,
        timeout=timeout,
        lto=True,
        portable=portable,
    )
