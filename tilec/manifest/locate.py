"""Find the locations of keys and values in the text of a TOML document.

The text is scanned only if there is a problem to report.
"""

from __future__ import annotations

import bisect
import functools
import re

from tilec.model.remote_url import redacted
from tilec.model.toml import tomllib
from tilec_runtime.errors import Diagnostic, Location

Path = tuple[str | int, ...]

_URL = re.compile(r"""(?:(?<=["'])[A-Za-z0-9+.-]+:|[A-Za-z0-9+.-]+://)[^"']*""")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r"""
    \"{3} (?: [^"\\] | \\. | \"(?!\"\") )* \"{3,5}
    | '{3} (?: [^'] | '(?!'') )* '{3,5}
    | " (?: [^"\\\n] | \\. )* "
    | ' [^'\n]* '
    """,
    re.DOTALL | re.VERBOSE,
)
_PLAIN = re.compile(r"""(?!\"{3}|'{3})(?:"[^"\\\n]*"|'[^'\n]*')""")
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]+|[^\s,\]}#]+")


class Scanner:
    """Scans a document once; stops silently at a TOML syntax error."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.places: dict[Path, tuple[int, int]] = {}
        self.ends: list[tuple[int, Path, int]] = []  # end, path and offset of the last part by key
        self._lengths: dict[Path, int] = {}

    def document(self) -> None:
        prefix: Path = ()
        try:
            while self.peek():
                prefix = self.header() if self.peek() == "[" else self.pair(prefix)
        except (ValueError, RecursionError):
            return

    def peek(self) -> str:
        """Skip blanks and comments; return the next character, or an empty string at the end."""
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        return self.text[self.at : self.at + 1]

    def take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(self.at)
        self.at = match.end()
        return match.group()

    def key(self) -> list[tuple[str, int]]:
        """Return the parts of a dotted key with their offsets."""
        parts: list[tuple[str, int]] = []
        while True:
            quoted = self.peek() in ("'", '"')
            start = self.at
            part = self.take(_STRING if quoted else _BARE)
            parts.append((tomllib.loads(f"key = {part}")["key"] if quoted else part, start))
            if self.peek() != ".":
                return parts
            self.at += 1

    def header(self) -> Path:
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        parts = self.key()
        end = self.at
        if self.peek() != "]":
            raise ValueError(self.at)
        self.at += 2 if many else 1
        path: Path = ()
        for index, (part, start) in enumerate(parts):
            path = (*path, part)
            last = index == len(parts) - 1
            if last or path not in self.places:
                self.places[path] = (start, start)
            if last and many:
                self._lengths[path] = self._lengths.get(path, 0) + 1
            if path in self._lengths and (many or not last):
                path = (*path, self._lengths[path] - 1)
                if last:
                    self.places[path] = (start, start)
        self.ends.append((end, path, parts[-1][1]))
        return path

    def pair(self, prefix: Path) -> Path:
        parts = self.key()
        path = prefix
        for part, start in parts[:-1]:
            path = (*path, part)
            self.places.setdefault(path, (start, start))
        if self.peek() != "=":
            raise ValueError(self.at)
        self.at += 1
        self.peek()
        path = (*path, parts[-1][0])
        self.places[path] = (parts[-1][1], self.at)
        self.value(path)
        self.ends.append((self.at, path, parts[-1][1]))
        return prefix

    def value(self, path: Path) -> None:
        first = self.peek()
        if first in ('"', "'"):
            self.take(_STRING)
        elif first == "[":
            self.array(path)
        elif first == "{":
            self.inline(path)
        else:
            self.take(_SCALAR)

    def array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while self.peek() != "]":
            element = (*path, index)
            self.places[element] = (self.at, self.at)
            self.value(element)
            index += 1
            self.separator("]")
        self.at += 1

    def inline(self, path: Path) -> None:
        self.at += 1
        while self.peek() != "}":
            self.pair(path)
            self.separator("}")
        self.at += 1

    def separator(self, end: str) -> None:
        if self.peek() == ",":
            self.at += 1
        elif self.peek() != end:
            raise ValueError(self.at)


EXCERPT = 200


class Locator:
    """Finds the locations of keys in one manifest; a call returns the location of a key."""

    def __init__(self, text: str, file: str, root: str = "") -> None:
        """Store the document.

        Args:
            text: its text, with line feeds alone as line ends.
            file: its name, for messages.
            root: the directory that its paths are relative to.
        """
        self.text = text
        self.root = root
        self.file = file

    def __call__(self, path: Path) -> Location:
        """Return the location of a key, or of the nearest enclosing key that exists."""
        return self.location(self._nearest(self._written(path))[0])

    def value(self, path: Path, index: int | None = None) -> Location:
        """Return the location of a value, or of the character `index` of a text value.

        `index` is ignored if the text has escapes or several lines.
        """
        path = self._written(path)
        key, value = self._nearest(path)
        if path not in self._scan.places:
            return self.location(key)
        plain = _PLAIN.match(self.text, value)
        if plain is not None and index is not None:
            return self.location(min(value + 1 + index, plain.end() - 1))
        return self.location(value)

    def location(self, offset: int) -> Location:
        """Return line and column, both from 1, of an offset into the text."""
        line = bisect.bisect_right(self._lines, offset)
        return Location(file=self.file, line=line, column=offset - self._lines[line - 1] + 1)

    def repeated(self, end: Location) -> tuple[str, Location, Location] | None:
        """Return a repeated key with its second location and one of its first value, or None.

        `end` is the location at which the TOML parser stopped: after the second key or its value.
        """
        offset = self._lines[end.line - 1] + end.column - 1
        read = [entry for entry in self._scan.ends if entry[0] <= offset]
        path, again = read[-1][1:] if read else ((), 0)
        before = [entry for entry in read if entry[2] < again]  # without keys in the second value
        for length in range(len(path), 0, -1):
            for _, other, first in before:
                if other[:length] == path[:length]:
                    return render(path[:length]), self.location(again), self.location(first)
        return None

    def excerpt(self, location: Location) -> str:
        """Return the line of a location, or an empty string beyond column 200.

        Possible passwords in URLs are left out.
        """
        if not 0 < location.line <= len(self._lines) or location.column > EXCERPT:
            return ""
        start = self._lines[location.line - 1]
        end = self.text.find("\n", start)
        line = self.text[start : len(self.text) if end < 0 else end]
        return _URL.sub(lambda url: redacted(url[0]), line)[:EXCERPT]

    def problem(
        self,
        path: Path,
        message: str,
        *,
        value: bool = False,
        index: int | None = None,
        hint: str = "",
    ) -> Diagnostic:
        """Return a problem at a key, at its value, or at the character `index` of its value."""
        path = self._written(path)
        location = self.value(path, index) if value or index is not None else self(path)
        shown = render(path)
        return Diagnostic(
            message=f"{shown}: {message}" if shown else message,
            location=location,
            excerpt=self.excerpt(location),
            hint=hint,
        )

    @functools.cached_property
    def _lines(self) -> list[int]:
        """The offset of the start of each line."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    @functools.cached_property
    def _scan(self) -> Scanner:
        scan = Scanner(self.text)
        scan.document()
        return scan

    def _written(self, path: Path) -> Path:
        """Return the path as written: a key shared by all cases if the case lacks its own."""
        if path[2:3] != ("case",):
            return path
        shared = (*path[:2], *path[4:])
        return shared if self._depth(shared) + 2 > max(self._depth(path), 4) else path

    def _depth(self, path: Path) -> int:
        """Return the number of leading parts of a key that exist."""
        known = self._scan.places
        return next((end for end in range(len(path), 0, -1) if path[:end] in known), 0)

    def _nearest(self, path: Path) -> tuple[int, int]:
        return self._scan.places.get(path[: self._depth(path)], (0, 0))


def render(path: Path) -> str:
    """Return a key path as users write it: `kernel.gemm.matrix.exclude[0].when`.

    Parts are quoted if TOML requires it.
    """
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            quoted = (
                part
                if re.fullmatch("[A-Za-z0-9_-]+", part)
                else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
            )
            shown += f".{quoted}" if shown else quoted
    return shown
