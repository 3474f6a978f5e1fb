"""Code of an image line by line, each with its source lines."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tilec_runtime.cpu.tileir.ir import Loc, Module
from tilec_runtime.cpu.tileir.text import located

FileLine: TypeAlias = tuple[str, int]  # file and line
InlineChain: TypeAlias = tuple[FileLine, ...]

# Comments of nvdisasm before instructions: the source line, then the line of each inlined call.
_MARK = re.compile(r'\s*//## File "(?P<file>.*?)", line (?P<line>\d+)')
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s*(\S.*)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_BODY = re.compile(r"\s*(?:\.\w+\s+)*\.(?:entry|func)\b")
_DEBUG = re.compile(r"\s*\.section\s+\.debug_")
_DEEPEST = 64  # limit of inlined calls; a longer chain is a cycle


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """Code line by line.

    Attributes:
        lines: texts of the lines.
        places: source line of each line, followed by the lines of the inlined calls; empty if
            unknown.
    """

    lines: tuple[str, ...]
    places: tuple[InlineChain, ...]


def sass_listing(text: str) -> Listing:
    """Return machine code from nvdisasm, with the source lines of `-gi` as places."""
    return _listing(_sass(text))


def ptx_listing(text: str) -> Listing:
    """Return PTX with its `.loc` lines as places, and without debug sections."""
    return _listing(_ptx(text))


def tileir_listing(module: Module) -> Listing:
    """Return Tile IR, with the source lines of operations and callers as places."""
    return _listing((text, tuple(_chain(loc))) for text, loc in located(module))


def _listing(rows: Iterable[tuple[str, InlineChain]]) -> Listing:
    pairs = list(rows)
    return Listing(
        lines=tuple(text for text, _ in pairs), places=tuple(chain for _, chain in pairs)
    )


def _sass(text: str) -> Iterator[tuple[str, InlineChain]]:
    chain: list[FileLine] = []
    marked = False
    for line in text.strip("\n").splitlines():
        match = _MARK.match(line)
        if match:
            chain = chain if marked else []
            chain.append((match["file"], int(match["line"])))
            marked = True
            continue
        marked = False
        code = _INSTRUCTION.match(line)
        if code:
            yield f"{code[1]}  {code[2].strip()}", tuple(chain)
        else:
            yield line.rstrip(), ()


def _ptx(text: str) -> Iterator[tuple[str, InlineChain]]:
    files = dict(_FILE.findall(text))
    at: InlineChain = ()
    debug = False
    for line in text.strip("\n").splitlines():
        debug = debug or _DEBUG.match(line) is not None
        if debug:
            debug = line.strip() != "}"
            continue
        if loc := _LOC.match(line):
            # Line 0 means no source line.
            at = ((files[loc[1]], int(loc[2])),) if loc[1] in files and int(loc[2]) else ()
            continue
        if _BODY.match(line):
            at = ()
        words = line.strip()
        works = words.endswith(";") and not words.startswith(".")
        yield line.rstrip(), at if works else ()


def _chain(loc: Loc | None) -> Iterator[FileLine]:
    for _ in range(_DEEPEST):
        if loc is None:
            return
        yield loc.file, loc.line
        loc = loc.caller
