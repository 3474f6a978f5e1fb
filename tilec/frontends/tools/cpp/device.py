"""Compile device functions of CUDA C++ to LTO-IR, for kernels that are linked with them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from tilec.frontends.tools.cpp.diagnostics import read_log
from tilec.frontends.tools.cpp.includes import closure, source_bytes
from tilec.frontends.tools.cpp.nvrtc import Program, compile_source
from tilec.frontends.tools.machine_code import timeout_error
from tilec.frontends.tools.nvjitlink import Piece
from tilec.frontends.tools.run import command_line
from tilec.frontends.tools.search import Tool
from tilec.model.job import Job
from tilec_runtime.errors import CompileError, Location, ToolchainError

_MAX_KEPT = 64


class DeviceCode:
    """Compiles with NVRTC, and caches LTO-IR that the variants of a kernel share."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, bytes] = {}

    def of_file(
        self,
        job: Job,
        path: str,
        tools: Mapping[str, Tool],
        arguments: Sequence[str],
        *,
        include: Sequence[str] = (),
        define: Iterable[str] = (),
        portable: bool,
    ) -> Piece:
        """Return LTO-IR of a project's source.

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
        root = job.spec.source.root
        files = tuple(closure(root, path, include, define))
        key = (root, path, job.target.number, tuple(arguments), tuple(include), portable, files)
        return self._piece(
            path, key, lambda: _compiled(job, path, tools, arguments, include, portable=portable)
        )

    def of_text(
        self, job: Job, name: str, text: str, tools: Mapping[str, Tool], arguments: Sequence[str]
    ) -> Piece:
        """Return LTO-IR of a text that is not a file of the project.

        Raises:
            ToolchainError: NVRTC cannot be used, or does not compile it.
        """
        headers = tools["headers"].path

        def make() -> bytes:
            made = _run(job, text.encode(), name, tools, arguments, (), root=headers, portable=True)
            if not made.ok:
                raise ToolchainError(
                    f"{name} does not compile for {job.target}: {made.log or made.result}",
                    cause="it needs CUDA's own headers, of the release that NVRTC is of",
                    fix="pip install --force-reinstall 'tilec[build]'",
                )
            return made.ltoir

        return self._piece(name, (text, job.target.number, tuple(arguments)), make)

    def _piece(self, name: str, key: Hashable, make: Callable[[], bytes]) -> Piece:
        if key not in self._kept:
            data = make()
            while len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = data
        return Piece(name=name, kind="LTOIR", data=self._kept[key])


def _compiled(
    job: Job,
    path: str,
    tools: Mapping[str, Tool],
    arguments: Sequence[str],
    include: Sequence[str],
    *,
    portable: bool,
) -> bytes:
    root = job.spec.source.root
    source = source_bytes(root, path)
    made = _run(job, source, path, tools, arguments, include, root=root, portable=portable)
    if made.ok:
        return made.ltoir
    arch, log = f"compute_{job.target.number}", made.log or made.result
    command = command_line(["nvcc", "-dc", "-dlto", f"-arch={arch}", *arguments, path])
    at = Location(file=path, line=1)
    if made.timed_out:
        message = f"compiling {path} for the link"
        raise timeout_error(message, job.spec.timeout, log=log, command=command)
    words = read_log(log, root, toolkit=tools["headers"].path, fallback=at)
    raise CompileError(
        f"{path}, which {job.spec.source.path} is linked with, does not compile for {job.target}",
        diagnostics=words.diagnostics,
        log=log,
        command=command,
    )


def _run(
    job: Job,
    source: bytes,
    name: str,
    tools: Mapping[str, Tool],
    arguments: Sequence[str],
    include: Sequence[str],
    *,
    root: str,
    portable: bool,
) -> Program:
    # Without a fixed seed, NVRTC puts its process id into the names of file-local symbols.
    fixed = ["-dlto", "-rdc=true", "-frandom-seed=tilec"]
    return compile_source(
        tools,
        source,
        name,
        [f"--gpu-architecture=compute_{job.target.number}", *fixed, *arguments],
        root=root,
        include=include,
        timeout=job.spec.timeout,
        lto=True,
        portable=portable,
    )
