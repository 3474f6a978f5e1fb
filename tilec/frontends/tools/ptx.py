"""Read and edit PTX text: ISA, calls, ptxas messages, file names."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from tilec_runtime.bundle.ptx import read_entries, without_comments
from tilec_runtime.model.arch import Version

_VERSION = re.compile(r"^(\s*\.version\s+)(\d+)\.(\d+)", re.MULTILINE)
_FILE = re.compile(r'^(\s*\.file\s+\d+\s+)"((?:\\.|[^"\\])*)"', re.MULTILINE)
_COMPLAINT = re.compile(r"line (\d+); error\s*: ([^\n]*)")
_HEAD = re.compile(
    r"^\s*(?:\.[a-z]+[ \t]+)*\.(?P<kind>func|entry)\b\s*(?:\([^)]*\))?\s*(?P<name>[\w$%]+)",
    re.MULTILINE,
)
# Words with a period beside them are opcodes (`add.s32`), not names of functions.
_WORD = re.compile(r"(?<![\w$%.])[\w$%]+(?![\w$%.])")
_BRACE = re.compile(r"[{};]")
_VARIABLE = re.compile(
    r"^[ \t]*(?:\.[a-z]+[ \t]+)*\.global\b[^;={]*?(?P<name>[\w$%]+)\s*(?:\[[^\]]*\]\s*)*(?P<end>[=;])",
    re.MULTILINE,
)
_NEEDS = re.compile(
    r"PTX (?:ISA )?(?:\.?version|ISA)\s*\.?(?:version\s*)?(\d+)\.(\d+)", re.IGNORECASE
)


# Name, begin and end of a function in a text.
_Function = tuple[str, int, int]


def isa(text: str) -> Version:
    """Return the PTX ISA that a text declares.

    Raises:
        ValueError: it has no `.version`.
    """
    match = _VERSION.search(text)
    if match is None:
        raise ValueError("the PTX has no .version")
    return int(match[2]), int(match[3])


def with_isa(text: str, version: Version) -> str:
    """Return the text with this `.version`."""
    return _VERSION.sub(lambda m: f"{m[1]}{version[0]}.{version[1]}", text, count=1)


def needed_isa(log: str) -> Version | None:
    """Return the newest ISA that messages of ptxas require, or None."""
    return max(((int(m[1]), int(m[2])) for m in _NEEDS.finditer(log)), default=None)


def entry_params(text: str, symbol: str) -> tuple[tuple[int, int], ...] | None:
    """Return (size, alignment) of each parameter of an entry, or None without it."""
    for entry in read_entries(text):
        if entry.name == symbol:
            return tuple((param.size, param.align) for param in entry.params)
    return None


def calls(text: str, symbol: str) -> set[str] | None:
    """Return the functions an entry may call, or None if it calls through pointers."""
    if ".func" not in text:
        return set()
    _, _, bodies = _parsed(text)
    reached = _reached({symbol}, bodies)
    if any(".callprototype" in bodies.get(name, "") for name in reached):
        return None
    return reached - {symbol}


def entries(text: str) -> list[str]:
    """Return the names of a text's entry points."""
    heads = _HEAD.finditer(without_comments(text))
    return list(dict.fromkeys(head["name"] for head in heads if head["kind"] == "entry"))


def only(text: str, symbols: Collection[str]) -> str:
    """Return the text with the entry points `symbols` and the functions they need only."""
    if set(entries(text)) <= set(symbols):
        return text
    plain, functions, bodies = _parsed(text)
    # A variable may hold the address of a function.
    outside = set(_WORD.findall(_without(plain, functions)))
    reached = _reached({*symbols, *bodies.keys() & outside}, bodies)
    return _without(text, (each for each in functions if each[0] not in reached))


def apart(text: str, symbols: Collection[str]) -> dict[str, list[str]]:
    """Return global variables that `symbols` share with entry points `only` removes.

    The value of each variable is the list of those entry points. Initialized variables that no
    function stores to by name are constants, and left out.
    """
    left = [name for name in entries(text) if name not in symbols]
    if not left:
        return {}
    plain, functions, bodies = _parsed(text)
    own = _words(set(symbols), bodies)
    others = {name: _words({name}, bodies) for name in left}
    everything = "".join(bodies.values())
    lines: dict[str, list[str]] = {}
    for variable in _VARIABLE.finditer(_without(plain, functions)):
        name = variable["name"]
        stored = rf"\b(?:st|atom|red)\.[^;]*\[{re.escape(name)}(?![\w$%])"
        compilers = name.startswith(("$", "__"))
        if name not in own or compilers:
            continue
        users = [other for other, words in others.items() if name in words]
        if users and (variable["end"] == ";" or re.search(stored, everything)):
            lines[name] = users
    return lines


def _words(names: set[str], bodies: Mapping[str, str]) -> set[str]:
    """Return all words in the bodies of functions and of those that they reach."""
    reached = (bodies.get(name, "") for name in _reached(names, bodies))
    return {word for body in reached for word in _WORD.findall(body)}


def _without(text: str, functions: Iterable[_Function]) -> str:
    parts, at = [], 0
    for _, start, end in functions:
        parts.append(text[at:start])
        at = end
    return "".join([*parts, text[at:]])


@functools.lru_cache(maxsize=1)
def _parsed(text: str) -> tuple[str, Sequence[_Function], Mapping[str, str]]:
    """Return a text without comments, its functions, and their bodies by name."""
    plain = without_comments(text)
    functions = tuple(_functions(plain))
    bodies: dict[str, str] = {}
    for name, start, end in functions:
        bodies[name] = bodies.get(name, "") + plain[start:end]
    return plain, functions, bodies


def _functions(plain: str) -> Iterator[_Function]:
    """Yield each function of a text without comments."""
    for head in _HEAD.finditer(plain):
        depth, end = 0, len(plain)
        for brace in _BRACE.finditer(plain, head.end()):
            depth += (brace[0] == "{") - (brace[0] == "}")
            if depth == 0:  # a body, or a declaration
                end = brace.end()
                break
        yield head["name"], head.start(), end


def _reached(names: set[str], bodies: Mapping[str, str]) -> set[str]:
    """Return the given functions, and all that they mention at any depth."""
    reached, waiting = set(names), list(names)
    while waiting:
        new = bodies.keys() & set(_WORD.findall(bodies.get(waiting.pop(), ""))) - reached
        reached |= new
        waiting += new
    return reached


def complaints(log: str) -> list[tuple[str, int]]:
    """Return message and PTX line of every ptxas error that names a line."""
    return [(m[2].strip(), int(m[1])) for m in _COMPLAINT.finditer(log)]


def first_complaint(log: str) -> str:
    """Return the first ptxas error that names a line, else the first line of the log."""
    lines = (line for line in log.splitlines() if line.strip())
    return next((message for message, _ in complaints(log)), None) or next(lines, "it said nothing")


def take_mark(text: str, name: str) -> tuple[str, str]:
    """Return the symbol in the global `name`, and the text without this global."""
    match = re.search(rf"^[^\n]*\b{re.escape(name)}\s*=\s*([^;\s]+)\s*;\s*?\n", text, re.MULTILINE)
    if match is None:
        return "", text
    return match[1], text[: match.start()] + text[match.end() :]


def relative_files(text: str, roots: Sequence[tuple[str, str]]) -> str:
    """Return the text with `.file` names relative to the directories of `roots`.

    Args:
        text: PTX.
        roots: pairs of an absolute directory and its replacement.
    """

    def rename(match: re.Match[str]) -> str:
        return f'{match[1]}"{_escaped(relative(_plain(match[2]), roots))}"'

    return _FILE.sub(rename, text)


def _plain(written: str) -> str:
    r"""Return a quoted name of PTX without its escapes (`\303\274` is ü)."""
    data = re.sub(rb"\\([0-7]{3}|.)", _unescape, written.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "surrogateescape")


def _unescape(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    return bytes([int(escape, 8) & 0xFF]) if len(escape) == 3 else escape


def _escaped(name: str) -> str:
    data = name.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in data)


def relative(path: str, roots: Sequence[tuple[str, str]]) -> str:
    """Return a path with the first directory of `roots` that contains it replaced.

    Absolute paths outside of all roots become `<system>/NAME`.
    """
    plain = os.path.normpath(path)
    for base, instead in roots:
        # Do not resolve a name in `/proc`: it leads to a directory of this process, not of the
        # compiler's.
        for folder in (
            os.path.normpath(base),
            os.path.realpath(base) if not base.startswith("/proc/") else base,
        ):
            if plain == folder or plain.startswith(folder + "/"):
                rest = plain[len(folder) :].lstrip("/")
                return f"{instead}/{rest}" if instead else rest
    # Headers of the host's compiler, for example: their directory differs between machines.
    return f"<system>/{PurePosixPath(plain).name}" if plain.startswith("/") else plain
