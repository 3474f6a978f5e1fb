"""Links a CUDA program with its device functions: LTO-IR of all of them to one PTX text, that with
machine code of libraries to a cubin.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilec.frontends.cuda import link_errors
from tilec.frontends.cuda.asked import Asked
from tilec.frontends.cuda.linked import LinkedFiles
from tilec.frontends.tools import ptx
from tilec.frontends.tools.cpp.nvcc import settle, stems
from tilec.frontends.tools.ltoir import arithmetic, as_one, level
from tilec.frontends.tools.nvjitlink import Outcome, Piece, link_code, link_ptx
from tilec.frontends.tools.ptxas import Assembled
from tilec.frontends.tools.run import command_line

_LIBRARY = "libnvJitLink"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LinkedProgram:
    """What a link of LTO-IR gave.

    Attributes:
        text: PTX, with whatever the libraries have to give still declared as external.
        symbols: of the entry points, by C++ name.
        libraries: libraries that hold no LTO-IR: their code joins when the text is assembled.
        ltoir: the whole as one module of LTO-IR, where that is what is wanted.
        command: what was linked, in nvJitLink's own words.
    """

    text: str
    symbols: Mapping[str, str]
    libraries: tuple[Piece, ...]
    ltoir: bytes = b""
    command: str


def link(
    asked: Asked, files: LinkedFiles, ltoir: bytes, symbols: Mapping[str, str]
) -> LinkedProgram:
    """Link a program's LTO-IR with the files that the manifest names, if any.

    Args:
        asked: the job.
        files: makes the files' pieces.
        ltoir: of the source with the entry points.
        symbols: theirs, by C++ name; of nvcc's, the empty symbol, which is found in the result.

    Raises:
        CompileError: a file does not compile or cannot be linked, or the link dropped an entry
            point.
        ToolchainError: a tool is missing.
    """
    spec, library = asked.job.spec, asked.tools[_LIBRARY].path
    options = [
        f"-arch=sm_{asked.job.target.number}",
        level(spec.opt),
        *(["-lineinfo"] if asked.lineinfo else []),
    ]
    options += arithmetic(asked.options.flags)
    # A source's other kernels may need what is not linked.
    options += [f"-kernels-used={symbol}" for symbol in symbols.values() if symbol]
    own = Piece(name=spec.source.path, kind="LTOIR", data=ltoir)
    pieces = files.pieces(asked)
    plain, late = _parted(library, own, pieces, options)
    done, ltoir = _linked(asked, [own, *plain], options)
    command = command_line(
        ["nvJitLink", "-lto", "-ptx", *options, own.name, *(piece.name for piece in plain)]
    )
    if not done.data:
        raise link_errors.refused(asked, pieces, done.log, command)
    text = done.data.decode("utf-8", "surrogateescape")
    if not all(symbols.values()):
        (expression,) = symbols
        mark, text = settle(text, stems(own.name, [entry.path for entry in asked.options.link]))
        symbols = {expression: mark}
    for expression, symbol in symbols.items():
        if not symbol or ptx.entry_params(text, symbol) is None:
            raise link_errors.dropped(asked, expression, symbol, done.log, command)
    return LinkedProgram(
        text=text, symbols=symbols, libraries=tuple(late), ltoir=ltoir, command=command
    )


def assemble(asked: Asked, text: str, libraries: Sequence[Piece]) -> Assembled:
    """Machine code of a linked text and of the libraries that hold no LTO-IR.

    Raises:
        CompileError: PTX or LTO-IR is what is wanted, which machine code cannot become.
        ToolchainError: nvJitLink cannot be used.
    """
    spec = asked.job.spec
    if asked.ptx or asked.lto:
        raise link_errors.no_ltoir(asked, libraries)
    options = [
        f"-arch=sm_{asked.job.target.number}",
        level(spec.opt),
        *(["-lineinfo"] if asked.lineinfo else []),
    ]
    options += [f"-Xptxas={flag}" for flag in asked.options.ptxas]
    pieces = [
        Piece(
            name=spec.source.path, kind="PTX", data=text.encode("utf-8", "surrogateescape") + b"\0"
        ),
        *libraries,
    ]
    command = command_line(["nvJitLink", *options, *(piece.name for piece in pieces)])
    library = asked.tools[_LIBRARY].path
    done = link_code(library, pieces, options, timeout=spec.timeout)
    if not done.data and link_errors.undefined_in(done.log):
        # Some members of a library may be LTO-IR alone; where none is, nvJitLink refuses to be
        # asked for them.
        mixed = link_code(library, pieces, ["-lto", *options], timeout=spec.timeout)
        done = mixed if mixed.data else done
    return Assembled(cubin=done.data, log=done.log, command=command, timed_out=done.timed_out)


def _linked(asked: Asked, pieces: Sequence[Piece], options: list[str]) -> tuple[Outcome, bytes]:
    """The PTX of some pieces, and what LTO-IR is wanted of them."""
    linker, (arch, *more) = asked.tools[_LIBRARY], options
    if not asked.lto:
        return link_ptx(linker.path, pieces, options), b""
    made = as_one(linker, pieces, arch.removeprefix("-arch="), more)
    return Outcome(data=made.text.encode("utf-8", "surrogateescape"), log=made.log), made.ltoir


def _parted(
    library: str, own: Piece, pieces: Sequence[Piece], options: Sequence[str]
) -> tuple[list[Piece], list[Piece]]:
    """The pieces that become PTX with the program, and those that hold no LTO-IR."""
    plain = [piece for piece in pieces if piece.kind == "LTOIR"]
    others = [piece for piece in pieces if piece.kind != "LTOIR"]
    late = [
        piece
        for piece in others
        if piece.kind in ("PTX", "CUBIN") or _holds_none(link_ptx(library, [own, piece], options))
    ]
    return [*plain, *(piece for piece in others if piece not in late)], late


def _holds_none(alone: Outcome) -> bool:
    return alone.needs_ltoir
