"""The files that a CUDA kernel is linked with: what they are as inputs, and as pieces for the
linker, compiled where they are sources.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable

from tilec.frontends.cuda.asked import Asked
from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.device import compile_device
from tilec.frontends.tools.cpp.diagnostics import read_log
from tilec.frontends.tools.cpp.nvcc import compile_ltoir
from tilec.frontends.tools.cpp.options import CudaOptions
from tilec.frontends.tools.nvjitlink import Piece, kind_of
from tilec.frontends.tools.run import command_line
from tilec.model.inside import contained
from tilec.model.job import InputFile
from tilec.model.link import LinkEntry, LinkKind
from tilec_runtime.errors import CompileError, Diagnostic, LinkError, Location
from tilec_runtime.model.digest import sha256

_MOST_PARTS = 64


class LinkedFiles:
    """Reads and compiles linked files; keeps what it compiled last, which the variants of a kernel
    share.
    """

    def __init__(self) -> None:
        self._parts: collections.OrderedDict[Hashable, bytes] = collections.OrderedDict()

    def inputs(self, root: str, options: CudaOptions) -> list[InputFile]:
        """Every file that the linked files are made of, headers included.

        Raises:
            CompileError: one cannot be read, or leaves the project.
        """
        return [file for entry in options.link for file in self._inputs_of(root, entry, options)]

    def pieces(self, asked: Asked) -> list[Piece]:
        """What the linker gets of each file, sources as LTO-IR for the job's own architecture.

        Raises:
            CompileError: one does not compile, or cannot be linked.
            ToolchainError: a tool is missing.
        """
        return [self._piece(asked, entry) for entry in asked.options.link]

    # --- files
    # --------------------------------------------------------------------------------------------------------------------

    def _inputs_of(self, root: str, entry: LinkEntry, options: CudaOptions) -> list[InputFile]:
        if entry.kind is LinkKind.CUDA:
            return includes.closure(
                root, entry.path, options.include, [value for _, value in options.define]
            )
        return [InputFile(name=entry.path, digest=sha256(_read(root, entry.path)))]

    def _piece(self, asked: Asked, entry: LinkEntry) -> Piece:
        root = asked.job.spec.source.root
        if entry.kind is LinkKind.LIBRARY:
            data = _read(root, entry.path)
            kind = kind_of(data)
            if not kind:
                what = f"{entry.path} holds no device code that can be linked: it begins with {data[:8].hex(' ') or 'nothing'}"
                cause = "archives, objects, fatbins, LTO-IR and PTX are known by their first bytes"
                raise located(
                    what,
                    entry.path,
                    cause=cause,
                    fix="see that the file is whole, and of one of these kinds",
                )
            return Piece(name=entry.path, kind=kind, data=data)
        spec, options = asked.job.spec, asked.options
        state = tuple(self._inputs_of(root, entry, options))
        key = (
            entry,
            asked.job.target.number,
            asked.lto,
            spec.source.options,
            spec.opt,
            asked.lineinfo,
            root,
            state,
        )
        return Piece(
            name=entry.path,
            kind="LTOIR",
            data=self._kept(key, lambda: _cuda_functions(asked, entry)),
        )

    def _kept(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        if key not in self._parts:
            self._parts[key] = make()
            if len(self._parts) > _MOST_PARTS:
                self._parts.popitem(last=False)
        self._parts.move_to_end(key)
        return self._parts[key]


def located(
    what: str,
    path: str,
    *,
    cause: str = "",
    fix: str = "",
    log: str = "",
    line: int = 1,
    overtime: bool = False,
) -> CompileError:
    """An error at a place in a linked file."""
    place = Diagnostic(message=what, location=Location(file=path, line=line), hint=fix)
    return CompileError(
        what, diagnostics=(place,), cause=cause, fix=fix, log=log, overtime=overtime
    )


def _cuda_functions(asked: Asked, entry: LinkEntry) -> bytes:
    spec, options, toolkit = asked.job.spec, asked.options, asked.toolkit
    arch = f"compute_{asked.job.target.number}"
    arguments = [*options.arguments(), *(["-lineinfo"] if asked.lineinfo else [])]
    source = _read(spec.source.root, entry.path)
    if b"\0" in source:
        raise located(f"{entry.path} holds a zero byte: it is no C++ text", entry.path)
    if options.compiler == "nvcc":
        nvcc = asked.tools["nvcc"].path
        place = {"root": spec.source.root, "path": asked.path}
        got = compile_ltoir(
            nvcc,
            source,
            entry.path,
            "",
            arch=arch,
            arguments=arguments,
            timeout=spec.timeout,
            **place,
        )
        made, log, command, late = got.ltoir, got.log, got.command, got.timed_out
    else:
        command = command_line(["nvcc", "-dc", "-dlto", f"-arch={arch}", *arguments, entry.path])
        told = [argument for argument in arguments if not argument.startswith("-I")]
        done = compile_device(
            asked.tools,
            source,
            entry.path,
            root=spec.source.root,
            arch=arch,
            arguments=told,
            include=options.include,
            timeout=spec.timeout,
            portable=asked.lto,
        )
        made, log, late = done.ltoir, done.log or done.result, done.timed_out
    if made:
        return made
    if late:
        what = f"compiling {entry.path}, which {spec.source.path} is linked with, took longer than {spec.timeout:g} s and was ended"
        raise located(what, entry.path, fix="raise timeout in [toolchain]", log=log, overtime=True)
    words = read_log(
        log, spec.source.root, toolkit=toolkit, fallback=Location(file=entry.path, line=1)
    )
    what = f"{entry.path}, which {spec.source.path} is linked with, does not compile for {asked.job.target}"
    raise asked.error(what, diagnostics=words.diagnostics, log=log, command=command)


def _read(root: str, name: str) -> bytes:
    try:
        return contained(root, name).read_bytes()
    except LinkError as exc:
        what = f"{name}, which is linked, lies outside of the project: {exc.what}"
        raise located(what, name, fix=exc.fix) from exc
    except OSError as exc:
        raise located(
            f"cannot read {name}, which is linked: {exc.strerror}",
            name,
            fix="see that the file is there and readable",
        ) from exc
