"""LLVM modules of numba made into one, with one compile unit: libNVVM makes code for debuggers of a single unit alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# What stands in quotes is a name or a text, whatever it looks like.
_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|!(\d+)\b')
_QUOTED = re.compile(r'@"([^"]*)"')
_UNIT = re.compile(r"\bunit: (!\d+)")
_DEFINES = re.compile(r'(?:define\b[^@]*|declare\b[^@]*)?@"?([\w$.]+)"?')
_NAMED = re.compile(r"!([a-zA-Z_.][\w.]*) = !\{(.*)\}")
_NUMBERED = re.compile(r"!(\d+) = ")
_LOCAL = re.compile(r'@"?([\w$.]+)"? = (?:internal|private)\b|define (?:internal|private)\b[^@]*@"?([\w$.]+)"?')
_EACH = frozenset(("nvvm.annotations",))  # lists that every module adds to; of others all have the same


def merged(modules: Sequence[str]) -> str:
    """One module with all that is in several, the first of them in front."""
    places = _Places()
    for number, module in enumerate(modules):
        places.add(module if not number else _apart(module, number, places))
    return places.text()


class _Places:
    """What a module consists of: each thing once, a declaration only while nothing defines it."""

    def __init__(self) -> None:
        self.head: list[str] = []
        self.symbols: dict[str, str] = {}
        self.declared: dict[str, str] = {}
        self.named: dict[str, list[str]] = {}
        self.metadata: list[str] = []
        self.next = 0  # number of metadata
        self.unit = ""

    def add(self, module: str) -> None:
        """Take up a module, whose numbers of metadata nothing has yet."""
        units = [item for name, items in _lists(module) if name == "llvm.dbg.cu" for item in items]
        first = not self.unit
        self.unit = self.unit or (units[0] if units else "")
        others = set(units) - {self.unit}
        for part in _parts(module):
            if part.startswith("!"):
                self._metadata(part, others, first=first)
            elif part.startswith(("define", "@", "declare")):
                name = match[1] if (match := _DEFINES.match(part)) else part
                (self.declared if part.startswith("declare") else self.symbols).setdefault(name, part)
            elif part not in self.head and (first or not part.startswith(";")):
                self.head.append(part)

    def _metadata(self, part: str, others: set[str], *, first: bool) -> None:
        if listed := _NAMED.match(part):
            if first or listed[1] not in self.named or listed[1] in _EACH:
                self.named.setdefault(listed[1], []).extend(_items(listed[2]))
            return
        numbered = _NUMBERED.match(part)
        if numbered:
            self.next = max(self.next, int(numbered[1]) + 1)
        if not (numbered and f"!{numbered[1]}" in others):
            self.metadata.append(_UNIT.sub(lambda m: f"unit: {self.unit}" if m[1] in others else m[0], part))

    def text(self) -> str:
        """The module."""
        declared = [part for name, part in self.declared.items() if name not in self.symbols]
        named = [f"!{name} = !{{ {', '.join(items)} }}" for name, items in self.named.items()]
        return "\n".join((*self.head, *declared, *self.symbols.values(), *named, *self.metadata, ""))


def _apart(module: str, number: int, places: _Places) -> str:
    """A module with other numbers of metadata than those that are taken, and other names for what is its own where they are."""
    first = places.next
    module = _NUMBER.sub(lambda m: f"!{int(m[1]) + first}" if m[1] else m[0], module)
    own = {match[1] or match[2] for match in _LOCAL.finditer(module)} & places.symbols.keys()
    return _QUOTED.sub(lambda m: f'@"{m[1]}.{number}"' if m[1] in own else m[0], module) if own else module


def _parts(module: str) -> Iterator[str]:
    """The lines of a module, each function in one piece."""
    body: list[str] = []
    for line in module.splitlines():
        if body or line.startswith("define"):
            body.append(line)
            if line == "}":
                yield "\n".join(body)
                body = []
        elif line.strip():
            yield line


def _lists(module: str) -> Iterator[tuple[str, list[str]]]:
    for line in module.splitlines():
        if match := _NAMED.match(line):
            yield match[1], _items(match[2])


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
