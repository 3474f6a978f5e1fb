"""Link a CUDA program with device functions of other files, as LTO-IR."""

from __future__ import annotations

import dataclasses
import re
import shlex

from tilec.frontends.cuda.job import CudaJob, DeviceCompile
from tilec.frontends.tools import ptx
from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.device import compile_file
from tilec.frontends.tools.cpp.options import CudaOptions
from tilec.frontends.tools.cpp.symbol import readable
from tilec.frontends.tools.files import fault, read, within
from tilec.frontends.tools.ltoir import arithmetic, as_one, level
from tilec.frontends.tools.nvjitlink import Piece, kind_of
from tilec.model.job import InputFile
from tilec.model.link import LinkEntry, LinkKind
from tilec_runtime.errors import CompileError, Diagnostic
from tilec_runtime.model.digest import sha256

_LIBRARY = "libnvJitLink"
_UNDEFINED = re.compile(
    r"(?:Unresolved extern (?:function|variable)|Undefined reference to) '([^']+)'"
)
_VARIABLE = re.compile(r"\.extern\s+\.(?:global|const)\b[^;]*?([\w$]+)\s*(?:\[[^;]*\])?;")


def inputs(root: str, options: CudaOptions) -> list[InputFile]:
    """Return the linked files and the project headers of linked sources.

    Raises:
        CompileError: a file cannot be read, or lies outside of the project.
    """
    files: list[InputFile] = []
    define = [value for _, value in options.define]
    for entry in options.link:
        if entry.kind is LinkKind.CUDA:
            files += includes.closure(root, entry.path, options.include, define)
        else:
            files.append(
                InputFile(name=entry.path, digest=sha256(read(root, within(root, entry.path))))
            )
    return files


def _piece(job: CudaJob, entry: LinkEntry) -> Piece:
    if entry.kind is LinkKind.CUDA:
        lines = ["-lineinfo"] if job.lineinfo else []
        return compile_file(
            job.job,
            entry.path,
            job.tools,
            [*job.options.arguments(include=False), *lines],
            include=job.options.include,
            define=[value for _, value in job.options.define],
            portable=job.lto,
        )
    data = read(job.job.spec.source.root, within(job.job.spec.source.root, entry.path))
    kind = kind_of(data)
    if not kind:
        begin = data[:8].hex(" ") or "nothing"
        raise fault(
            entry.path,
            f"it is no archive, object, fatbin or LTO-IR: it begins with {begin}",
            fix="make it with LTO-IR: nvcc -dc -gencode arch=compute_80,code=lto_80",
        )
    return Piece(name=entry.path, kind=kind, data=data)


def link(job: CudaJob, program: DeviceCompile) -> DeviceCompile:
    """Link a program's LTO-IR with the files of `link` to PTX, and for `lto_NN` to LTO-IR.

    Raises:
        CompileError: a file does not compile or cannot be linked, or an entry point is missing.
        ToolchainError: a tool is missing.
    """
    source = job.job.spec.source.path
    options = [level(job.job.spec.opt), *(["-lineinfo"] if job.lineinfo else [])]
    options += arithmetic(job.options.flags)
    # Drop other kernels of the source: they may need functions that this job does not link.
    options += [f"-kernels-used={symbol}" for symbol in program.symbols.values()]
    pieces = [Piece(name=source, kind="LTOIR", data=program.ltoir)]
    pieces += [_piece(job, entry) for entry in job.options.link]
    arch = f"sm_{job.job.target.number}"
    done = as_one(job.tools[_LIBRARY], pieces, arch, options, whole=job.lto)
    names = (piece.name for piece in pieces)
    command = shlex.join(["nvJitLink", "-lto", "-ptx", f"-arch={arch}", *options, *names])
    if not done.text:
        first = next((line.strip() for line in done.log.splitlines() if line.strip()), "no message")
        named = next((p.name for p in pieces if f"{p.name}'" in done.log or p.name in first), "")
        raise fault(
            named or source,
            f"nvJitLink does not link {source} for {job.job.target}: {first}",
            fix="every library needs LTO-IR for this architecture or an older one, "
            "and each function one definition",
            log=done.log,
            command=command,
        )
    for expression, symbol in program.symbols.items():
        if ptx.entry_params(done.text, symbol) is None:
            raise CompileError(
                f"the link dropped the kernel {expression}: the result has no entry point {symbol}",
                cause="a linked file may define the same name as something else",
                fix="look at the kept command, and at what the linked files define",
                log=done.log,
                command=command,
            )
    command = f"{program.command} && {command}"
    return dataclasses.replace(program, text=done.text, ltoir=done.ltoir, command=command)


def undefined(job: CudaJob, text: str, log: str, command: str) -> CompileError | None:
    """Return the error for undefined symbols, or None if everything is defined."""
    # ptxas accepts an undefined variable, and the driver then refuses the image.
    missing = dict.fromkeys([*_UNDEFINED.findall(log), *_VARIABLE.findall(text)])
    if not missing:
        return None
    messages = []
    for name in missing:
        shown = name if readable(name) == name else f"{readable(name)} ({name})"
        messages.append(f"{shown} is declared and defined nowhere")
    linked = ", ".join(entry.path for entry in job.options.link)
    fix = 'include the file that defines it, or link it: link = ["act.cu"]'
    if linked:
        fix = f'none of the linked files ({linked}) defines it with these parameters, namespace and linkage (extern "C")'
    more = f", and {len(messages) - 1} more" if messages[1:] else ""
    at = job.kernel.location
    return CompileError(
        f"the link has undefined symbols: {messages[0]}{more}",
        diagnostics=tuple(Diagnostic(message=m, location=at, hint=fix) for m in messages),
        cause="a declared function has to be defined in the source, its headers or a linked file",
        fix=fix,
        log=log,
        command=command,
    )
