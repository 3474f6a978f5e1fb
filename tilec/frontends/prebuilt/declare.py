"""Read the kernels of prebuilt files, and the parameters that the code declares."""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections.abc import Sequence

from tilec.frontends.prebuilt.choose import Member, members
from tilec.frontends.prebuilt.ptx import PtxModule, read_ptx
from tilec.frontends.prebuilt.tools import Opener
from tilec.frontends.tools.compiled_files import FileKind, Prebuilt, prebuilt_files
from tilec.frontends.tools.files import fault
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import Source
from tilec_runtime.bundle.cubin import Cubin, CubinKernel
from tilec_runtime.bundle.ptx import PtxEntry, PtxParam
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import TargetKind

# PTX states the size of an integer; compilers rarely mean the sign that they write.
_LOOSE = {
    "u8": "u8",
    "s8": "i8",
    "u16": "u16",
    "s16": "i16",
    "u32": "u32",
    "s32": "i32",
    "s64": "i64",
}
_EXACT = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}
_SCALAR_SIZES = (1, 2, 4, 8)


def declarations(source: Source, opener: Opener) -> list[KernelDecl]:
    """Return the kernels of a source, in the order of the file.

    Raises:
        CompileError: a file is damaged, has another digest than stated, or has no kernel.
        ToolchainError: a tool is missing.
    """
    files = prebuilt_files(source)
    own = members(files[:1], opener)
    kinds = {kind for piece in (*own, *members(files[1:], opener)) for kind in piece.kinds}
    names = tuple(kind.value for kind in TargetKind if kind in kinds)
    return [dataclasses.replace(decl, kinds=names) for decl in declared(files[0], own, opener)]


def declared(file: Prebuilt, pieces: Sequence[Member], opener: Opener) -> list[KernelDecl]:
    """Return the kernels of one file, which holds these pieces of code.

    Raises:
        CompileError: it is damaged, or has no kernel.
        ToolchainError: a tool is missing.
    """
    codes = [piece.code for piece in pieces if piece.code is not None]
    if not codes and any(piece.form is not FileKind.TILEIR for piece in pieces):
        codes = [read_ptx(opener.any_ptx(file), file.path)]
    # PTX declares more about parameters than cubins do.
    codes.sort(key=lambda code: not isinstance(code, PtxModule))
    match codes[:1]:
        case [PtxModule(entries=entries)]:
            line = 0 if file.kind is FileKind.PTX else 1
            return [_of_ptx(entry, file.path, line=line) for entry in entries]
        case [Cubin() as cubin]:
            return [_of_cubin_kernel(kernel, cubin, file.path) for kernel in cubin.kernels]
        case [(_, entries)]:
            return list(entries)
    raise fault(
        file.path,
        "this fatbin holds Tile IR alone",
        fix="name the bytecode file itself (.tileirbc)",
    )


def _of_cubin_kernel(kernel: CubinKernel, cubin: Cubin, path: str) -> KernelDecl:
    location = Location(file=path, line=1)
    params = tuple(
        ParamDecl(
            name=f"param_{param.ordinal}",
            type="" if param.size in _SCALAR_SIZES else f"{param.size} bytes",
            kind="" if param.size in _SCALAR_SIZES else "struct",
            size=param.size,
            out=True,
            location=location,
        )
        for param in kernel.params
    )
    return KernelDecl(
        name=kernel.name,
        qualified=kernel.name,
        location=location,
        params=params,
        max_threads=0 if cubin.tile else kernel.max_threads,
        cluster=() if cubin.tile else kernel.cluster,
        block=() if cubin.tile else kernel.required_block,
        named=False,
        simt=not cubin.tile,
    )


def _of_ptx(entry: PtxEntry, path: str, *, line: int = 0) -> KernelDecl:
    location = Location(file=path, line=line or entry.line)
    names = _names(entry)
    return KernelDecl(
        name=entry.name,
        qualified=entry.name,
        location=location,
        params=tuple(
            _param(param, name, location) for param, name in zip(entry.params, names, strict=True)
        ),
        max_threads=entry.max_threads,
        cluster=entry.cluster,
        block=entry.required_block,
        named=not all(re.fullmatch(r"param_\d+", name) for name in names),
        simt=True,
    )


def _param(param: PtxParam, name: str, location: Location) -> ParamDecl:
    """Return the declaration of a PTX parameter.

    It has a `type` only if PTX is unambiguous; the manifest may declare the others.
    """
    if param.pointer:
        return ParamDecl(
            name=name,
            type=f".{param.type} .ptr",
            kind="tensor",
            out=True,
            size=param.size,
            location=location,
        )
    if not param.count and param.type in _EXACT:
        return ParamDecl(
            name=name,
            type=f".{param.type}",
            kind="scalar",
            dtype=_EXACT[param.type],
            location=location,
        )
    if not param.count and param.type in _LOOSE:
        return ParamDecl(name=name, kind="scalar", dtype=_LOOSE[param.type], location=location)
    if param.size in _SCALAR_SIZES:
        return ParamDecl(name=name, kind="", out=True, size=param.size, location=location)
    shown = (
        f".align {param.align} .{param.type}[{param.count}]" if param.count else f".{param.type}"
    )
    return ParamDecl(name=name, type=shown, kind="struct", size=param.size, location=location)


def _names(entry: PtxEntry) -> Sequence[str]:
    """Return names of parameters: of the PTX, or `param_0`, … for generated ones."""
    names: list[str] = []
    for index, param in enumerate(entry.params):
        made_up = re.fullmatch(rf"{re.escape(entry.name)}_param_\d+", param.name)
        name = "" if made_up else re.sub(r"\W", "_", param.name).strip("_")
        taken = not name.isidentifier() or keyword.iskeyword(name) or name in names
        names.append(f"param_{index}" if taken else name)
    return names
