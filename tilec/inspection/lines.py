"""Code of an image line by line, each with its source lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from tilec_runtime.cpu.tileir.ir import Loc, Module
from tilec_runtime.cpu.tileir.text import located

FileLine: TypeAlias = tuple[str, int]  # file and line
InlineChain: TypeAlias = tuple[FileLine, ...]
# A line of code with its source line, then the lines of inlined calls; empty if unknown.
Line: TypeAlias = tuple[str, InlineChain]

# Comments of nvdisasm before instructions: the source line, then the line of each inlined call.
_MARK = re.compile(r'\s*//## File "(?P<file>.*?)", line (?P<line>\d+)')
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s*(\S.*)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_BODY = re.compile(r"\s*(?:\.\w+\s+)*\.(?:entry|func)\b")
_DEBUG = re.compile(r"\s*\.section\s+\.debug_")
_DEEPEST = 64  # limit of inlined calls; a longer chain is a cycle


def tileir_lines(module: Module) -> Iterator[Line]:
    """Yield Tile IR, with the source lines of operations and callers."""
    for text, loc in located(module):
        yield text, tuple(_chain(loc))


def sass_lines(text: str) -> Iterator[Line]:
    """Yield machine code from nvdisasm, with the source lines of `-gi`."""
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


def ptx_lines(text: str) -> Iterator[Line]:
    """Yield PTX with the source lines of `.loc`, and without debug sections."""
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
