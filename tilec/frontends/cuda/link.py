"""Link a CUDA program with device functions of other files, as LTO-IR."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Hashable

from tilec.frontends.cuda.job import CudaJob, Program
from tilec.frontends.tools import ptx
from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.device import compile_device
from tilec.frontends.tools.cpp.diagnostics import read_log
from tilec.frontends.tools.cpp.options import CudaOptions
from tilec.frontends.tools.cpp.symbol import readable
from tilec.frontends.tools.ltoir import arithmetic, as_one, level
from tilec.frontends.tools.nvjitlink import Piece, kind_of
from tilec.frontends.tools.run import command_line
from tilec.model.inside import contained
from tilec.model.job import InputFile
from tilec.model.link import LinkEntry, LinkKind
from tilec_runtime.errors import CompileError, Diagnostic, LinkError, Location
from tilec_runtime.model.digest import sha256

_LIBRARY = "libnvJitLink"
_MAX_KEPT = 64
_UNDEFINED = re.compile(
    r"(?:Unresolved extern (?:function|variable)|Undefined reference to) '([^']+)'"
)
_VARIABLE = re.compile(r"\.extern\s+\.(?:global|const)\b[^;]*?([\w$]+)\s*(?:\[[^;]*\])?;")


class LinkedFiles:
    """The files of `link`; keeps compiled sources, which the variants of a kernel share."""

    def __init__(self) -> None:
        self._pieces: collections.OrderedDict[Hashable, bytes] = collections.OrderedDict()

    def inputs(self, root: str, options: CudaOptions) -> list[InputFile]:
        """Return the linked files and the project headers of linked sources.

        Raises:
            CompileError: one cannot be read, or leaves the project.
        """
        return [file for entry in options.link for file in _inputs(root, entry, options)]

    def pieces(self, job: CudaJob) -> list[Piece]:
        """Return the linker's input of each file, sources as LTO-IR of the job's architecture.

        Raises:
            CompileError: one does not compile, or cannot be linked.
            ToolchainError: a tool is missing.
        """
        return [self._piece(job, entry) for entry in job.options.link]

    def _piece(self, job: CudaJob, entry: LinkEntry) -> Piece:
        spec = job.job.spec
        if entry.kind is LinkKind.LIBRARY:
            data = _read(spec.source.root, entry.path)
            kind = kind_of(data)
            if not kind:
                begin = data[:8].hex(" ") or "nothing"
                raise _located(
                    f"{entry.path} is no archive, object, fatbin or LTO-IR: it begins with {begin}",
                    entry.path,
                    fix="make it with LTO-IR: nvcc -dc -gencode arch=compute_80,code=lto_80",
                )
            return Piece(name=entry.path, kind=kind, data=data)
        key = (
            entry,
            job.job.target.number,
            job.lto,
            spec.source.options,
            spec.opt,
            job.lineinfo,
            spec.source.root,
            tuple(_inputs(spec.source.root, entry, job.options)),
        )
        if key not in self._pieces:
            self._pieces[key] = _compiled(job, entry)
            if len(self._pieces) > _MAX_KEPT:
                self._pieces.popitem(last=False)
        self._pieces.move_to_end(key)
        return Piece(name=entry.path, kind="LTOIR", data=self._pieces[key])


def link(job: CudaJob, files: LinkedFiles, program: Program) -> Program:
    """Link a program's LTO-IR with the files of `link`, if any: PTX, and LTO-IR for its target.

    Raises:
        CompileError: a file does not compile or cannot be linked, or an entry point is missing.
        ToolchainError: a tool is missing.
    """
    source = job.job.spec.source.path
    options = [level(job.job.spec.opt), *(["-lineinfo"] if job.lineinfo else [])]
    options += arithmetic(job.options.flags)
    # Other kernels of the source may need functions that are not linked.
    options += [f"-kernels-used={symbol}" for symbol in program.symbols.values()]
    pieces = [Piece(name=source, kind="LTOIR", data=program.ltoir), *files.pieces(job)]
    arch = f"sm_{job.job.target.number}"
    done = as_one(job.tools[_LIBRARY], pieces, arch, options, whole=job.lto)
    names = (piece.name for piece in pieces)
    command = command_line(["nvJitLink", "-lto", "-ptx", f"-arch={arch}", *options, *names])
    if not done.text:
        first = next((line.strip() for line in done.log.splitlines() if line.strip()), "no message")
        named = next((p.name for p in pieces if f"{p.name}'" in done.log or p.name in first), "")
        raise _located(
            f"nvJitLink does not link {source} for {job.job.target}: {first}",
            named or source,
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


def undefined_in(log: str) -> list[str]:
    """Return the symbols that a log calls undefined."""
    return _UNDEFINED.findall(log)


def undefined(job: CudaJob, program: Program, log: str, command: str) -> CompileError | None:
    """Return the error for undefined symbols, or None if everything is defined."""
    # ptxas accepts an undefined variable, and the driver then refuses the image.
    variables = _VARIABLE.findall(program.text)
    missing = list(dict.fromkeys([*undefined_in(log), *variables]))
    if not missing:
        return None
    kernels = {symbol: expression for expression, symbol in program.symbols.items()}
    messages = []
    for name in missing:
        callers = [kernels.get(user) or readable(user) for user in ptx.users(program.text, name)]
        verb = "used" if name in variables else "called"
        by = f", {verb} by {' and '.join(callers)}" if callers else ""
        shown = name if readable(name) == name else f"{readable(name)} ({name})"
        messages.append(f"{shown} is declared and defined nowhere{by}")
    linked = ", ".join(entry.path for entry in job.options.link)
    fix = 'include the file that defines it, or link it: link = ["act.cu"]'
    if linked:
        fix = f'none of the linked files ({linked}) defines it with these parameters, namespace and linkage (extern "C")'
    more = f", and {len(messages) - 1} more" if messages[1:] else ""
    at = job.found.decl.location
    return CompileError(
        f"the link has undefined symbols: {messages[0]}{more}",
        diagnostics=tuple(Diagnostic(message=m, location=at, hint=fix) for m in messages),
        cause="a declared function has to be defined in the source, its headers or a linked file",
        fix=fix,
        log=log,
        command=command,
    )


def _inputs(root: str, entry: LinkEntry, options: CudaOptions) -> list[InputFile]:
    if entry.kind is LinkKind.CUDA:
        define = [value for _, value in options.define]
        return includes.closure(root, entry.path, options.include, define)
    return [InputFile(name=entry.path, digest=sha256(_read(root, entry.path)))]


def _compiled(job: CudaJob, entry: LinkEntry) -> bytes:
    spec, arch = job.job.spec, f"compute_{job.job.target.number}"
    arguments = [*job.options.arguments(), *(["-lineinfo"] if job.lineinfo else [])]
    source = _read(spec.source.root, entry.path)
    if b"\0" in source:
        raise _located(f"{entry.path} holds a zero byte: it is no C++ text", entry.path)
    done = compile_device(
        job.tools,
        source,
        entry.path,
        root=spec.source.root,
        arch=arch,
        arguments=[argument for argument in arguments if not argument.startswith("-I")],
        include=job.options.include,
        timeout=spec.timeout,
        portable=job.lto,
    )
    if done.ltoir:
        return done.ltoir
    command = command_line(["nvcc", "-dc", "-dlto", f"-arch={arch}", *arguments, entry.path])
    log = done.log or done.result
    if done.timed_out:
        raise _located(
            f"compiling {entry.path} for the link took longer than {spec.timeout:g} s",
            entry.path,
            fix="raise timeout in [toolchain]",
            log=log,
            overtime=True,
        )
    at = Location(file=entry.path, line=1)
    words = read_log(log, spec.source.root, toolkit=job.toolkit, fallback=at)
    raise CompileError(
        f"{entry.path}, which {spec.source.path} is linked with, does not compile for {job.job.target}",
        diagnostics=words.diagnostics,
        log=log,
        command=command,
    )


def _read(root: str, name: str) -> bytes:
    try:
        return contained(root, name).read_bytes()
    except LinkError as exc:
        what = f"{name}, which is linked, lies outside of the project: {exc.what}"
        raise _located(what, name, fix=exc.fix) from exc
    except OSError as exc:
        what = f"cannot read {name}, which is linked: {exc.strerror}"
        raise _located(what, name, fix="see that the file is there and readable") from exc


def _located(
    what: str, path: str, *, fix: str = "", log: str = "", command: str = "", overtime: bool = False
) -> CompileError:
    place = Diagnostic(message=what, location=Location(file=path, line=1), hint=fix)
    return CompileError(
        what, diagnostics=(place,), fix=fix, log=log, command=command, overtime=overtime
    )
