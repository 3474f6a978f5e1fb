"""CUDA C++ that SIMT kernels are linked with: its files as inputs, and its device functions as PTX, which a kernel takes in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.diagnostics import read_log
from tilec.frontends.tools.cpp.nvrtc import Folders, Program, compile_nowhere, inside, load
from tilec.frontends.tools.nvjitlink import Piece
from tilec.frontends.tools.run import command_line
from tilec.frontends.tools.search import Tool
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.job import InputFile, Job, Source
from tilec_runtime.model.link import LinkEntry, LinkKind, entries

_STD = "c++17"
_MOST_KEPT = 16
# Of a function's result and of its parameters in PTX: alignment, type, and the extent where it is an array of bytes.
_PARAM = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+[\w$]+(?:\[(\d+)\])?")
_SOURCE = "link the .cu file that it was made of, or write the kernel in CUDA C++"
_WIDTH = re.compile(r"[a-z]+(\d+)")


def linked(source: Source) -> tuple[LinkEntry, ...]:
    """The entries of a source's `link`.

    Raises:
        CompileError: one is no CUDA C++ source.
    """
    texts = dict(source.options).get("link", ())
    found = entries(tuple(map(str, texts)) if isinstance(texts, tuple) else ())
    for entry in found:
        if entry.kind is not LinkKind.CUDA:
            what = f"{entry.path} is {entry.kind.value}, and a SIMT kernel is linked with CUDA C++ sources alone"
            place = Diagnostic(message=what, location=Location(file=entry.path, line=1), hint=_SOURCE)
            raise CompileError(what, diagnostics=(place,), fix=_SOURCE)
    return found


def linked_inputs(source: Source) -> list[InputFile]:
    """Every file that the linked ones are made of, headers of the project included.

    Raises:
        CompileError: one cannot be read, leaves the project, or is no CUDA C++.
    """
    return [file for entry in linked(source) for file in includes.closure(source.root, entry.path, ())]


class LinkedSources:
    """Compiles linked sources; keeps what it compiled last, which the variants of a kernel share."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._kept: dict[tuple[str, ...], Program] = {}

    def texts(self, job: Job, tools: Mapping[str, Tool]) -> list[tuple[str, str]]:
        """(path, PTX) of each linked source, for the job's architecture.

        Raises:
            CompileError: one does not compile; with its own lines.
        """
        return [(entry.path, self._program(job, entry.path, tools).ptx) for entry in linked(job.spec.source)]

    def pieces(self, job: Job, tools: Mapping[str, Tool]) -> list[Piece]:
        """LTO-IR of each linked source, for the job's architecture.

        Raises:
            CompileError: one does not compile; with its own lines.
        """
        paths = [entry.path for entry in linked(job.spec.source)]
        return [Piece(name=path, kind="LTOIR", data=self._program(job, path, tools, lto=True).ltoir) for path in paths]

    def _program(self, job: Job, path: str, tools: Mapping[str, Tool], *, lto: bool = False) -> Program:
        root = job.spec.source.root
        state = (file.digest for file in includes.closure(root, path, ()))
        key = (root, path, job.target.number, str(job.spec.lineinfo or job.spec.debug), str(lto), *state)
        if key not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = _compiled(job, path, tools, lto=lto)
        return self._kept[key]


def _compiled(job: Job, path: str, tools: Mapping[str, Tool], *, lto: bool) -> Program:
    spec, headers = job.spec, tools["headers"].path
    source = Path(spec.source.root, path).read_bytes()
    if b"\0" in source:
        what = f"{path} holds a zero byte: it is no C++ text"
        raise CompileError(what, diagnostics=(Diagnostic(message=what, location=Location(file=path, line=1)),))
    arguments = [f"-std={_STD}", *(["-dlto"] if lto else ["-lineinfo"] if spec.lineinfo or spec.debug else [])]
    own = [f"-arch=compute_{job.target.number}", "-rdc=true", "-frandom-seed=tilec"]
    library = load(tools["libnvrtc"].path, tools["libnvrtc-builtins"].path)
    if lto:
        folders = Folders(root=spec.source.root, toolkit=headers)
        made = compile_nowhere(library, source, path, [*own, *arguments], folders, timeout=spec.timeout)
    else:
        told = [*own, f"-I{headers}", f"-I{headers}/cccl", *arguments]
        with inside(spec.source.root):
            made = library.compile(source, path, told, names=(), ptx=True, timeout=spec.timeout)
    if made.ok:
        return made
    log = made.log or made.result
    words = read_log(log, spec.source.root, toolkit=headers, fallback=Location(file=path, line=1))
    what = f"{path}, which {spec.source.path} is linked with, does not compile for {job.target}"
    command = command_line(["nvcc", "-dc", "-ptx", *own[:1], *arguments, path])
    raise CompileError(
        what,
        diagnostics=words.diagnostics,
        log=log,
        command=command,
        kernel=job.variant.id,
        target=str(job.target),
        overtime=made.timed_out,
    )


def mismatch(ptx: str, library: str, name: str) -> str:
    """How a function that a kernel declares differs from the one that is linked; empty where the two have the same parameters."""
    declared, defined = (_parameters(text, name) for text in (ptx, library))
    if declared is None or defined is None or declared == defined:
        return ""
    return f"takes {_shown(declared)} in Python, and {_shown(defined)} where it is defined"


def _parameters(text: str, name: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(bytes of the result, bytes of each parameter) of the first function of a name."""
    found = re.search(rf"\.func\s*(\([^)]*\))?\s*{re.escape(name)}\b\s*(\([^)]*\))?", text)
    if found is None:
        return None
    result, params = ([_size(match) for match in _PARAM.finditer(part or "")] for part in found.groups())
    return tuple(result), tuple(params)


def _size(found: re.Match[str]) -> int:
    width = _WIDTH.fullmatch(found[2])
    size = int(width[1]) // 8 if width else 0
    return size * int(found[3]) if found[3] else size


def _shown(parts: tuple[tuple[int, ...], tuple[int, ...]]) -> str:
    result, params = parts
    listed = ", ".join(map(str, params)) or "no"
    return f"parameters of {listed} bytes and gives back {sum(result) or 'no'} bytes"
