"""Includes of CUDA sources that no compiler will find, as far as no conditional decides: what one takes is not known without compiling."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilec.frontends.tools.cpp.diagnostics import missing_header
from tilec.frontends.tools.cpp.includes import logical_lines, without_comments
from tilec_runtime.errors import Diagnostic, Location

_DIRECTIVE = re.compile(r"[ \t\f\v]*(?:#|%:)[ \t\f\v]*(\w+)[ \t\f\v]*(.*)")
_NAME = re.compile(r'<([^>\n]+)>|"([^"\n]+)"')
_GUARD = re.compile(r"!?[ \t]*defined[ \t]*\(?[ \t]*(\w+)[ \t]*\)?[ \t]*$")


def missing_includes(root: str, path: str, include: Sequence[str], toolkit: Sequence[Path], *, host: bool = False) -> list[Diagnostic]:
    """Every include that a source certainly makes, or a project's header that it certainly includes, and that is nowhere.

    Args:
        root: the project.
        path: of the source.
        include: the project's include directories.
        toolkit: those of the toolkit.
        host: the compiler has a host compiler's headers too: then only names between quotes and with a suffix are looked at, which are
            hardly ever among those.
    """
    base = Path(root)
    found: list[Diagnostic] = []
    waiting, seen = [path], {path}
    while waiting:
        name = waiting.pop(0)
        text = _text(base / name)
        for line, column, written, quoted in _certain(text):
            places = [(base / name).parent, (base / path).parent, *(base / folder for folder in include)]
            hit = next((place / written for place in places if os.path.isfile(place / written)), None)  # noqa: PTH113 - no name is too long
            if hit is not None:
                inside = os.path.relpath(hit, base)
                if inside not in seen and not inside.startswith(".."):
                    seen.add(inside)
                    waiting.append(inside)
            elif (not host or (quoted and "." in written)) and not any(os.path.isfile(folder / written) for folder in toolkit):  # noqa: PTH113
                found.append(
                    Diagnostic(
                        message=f'cannot open source file "{written}"',
                        location=Location(file=name, line=line, column=column),
                        excerpt=text.split("\n")[line - 1].rstrip("\r"),
                        hint=missing_header(written),
                    )
                )
    return found


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""  # whoever reads the source says so


def _certain(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """(line, column, name, between quotes) of the includes that stand in no conditional but the guard around a whole header."""
    lines = [(number, match) for number, line in logical_lines(without_comments(text)) if (match := _DIRECTIVE.match(line))]
    raw = text.split("\n")
    depth = -1 if _is_guarded(lines) else 0
    for number, match in lines:
        match match[1]:
            case "if" | "ifdef" | "ifndef":
                depth += 1
            case "elif" | "elifdef" | "elifndef" | "else" if depth == 0:
                return  # of the guard itself: what is behind it is for those who include the header twice
            case "endif":
                depth -= 1
            case "include" if depth == 0:
                named = _NAME.match(match[2])
                if named is not None:
                    column = raw[number - 1].find(named[0]) + 1
                    yield number, column, named[1] or named[2], named[2] is not None


def _is_guarded(lines: Sequence[tuple[int, re.Match[str]]]) -> bool:
    """Whether a text begins with `#ifndef X` and `#define X`."""
    if len(lines) < 2 or lines[1][1][1] != "define":
        return False
    opening, macro = lines[0][1], lines[1][1][2].split("(")[0].split()
    if opening[1] == "ifndef":
        return opening[2].split() == macro[:1]
    guard = _GUARD.match(opening[2]) if opening[1] == "if" and opening[2].lstrip().startswith("!") else None
    return guard is not None and [guard[1]] == macro[:1]
