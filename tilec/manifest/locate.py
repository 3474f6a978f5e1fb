"""Places of keys and values in the text of a TOML document that has already been read; scanned only
when something has to be reported.
"""

from __future__ import annotations

import bisect
import functools
import re

from tilec.manifest.scan import Path, Scanner, offsets_of
from tilec_runtime.errors import Diagnostic, Location

EXCERPT = 200


class Locator:
    """Finds places in one manifest; a call gives the location of a key."""

    def __init__(self, text: str, file: str) -> None:
        """Keep the text (its line ends are single line feeds) and the file's name as it is to be
        shown.
        """
        self.text = text
        self.file = file

    def __call__(self, path: Path) -> Location:
        """Place of the key (of the element, in a list), or of the nearest enclosing one that
        exists.
        """
        return self.location(self._nearest(path)[0])

    def value(self, path: Path, index: int | None = None) -> Location:
        """Place of the value; with `index`, of that character of a text value (as TOML decodes it)."""
        key, value = self._nearest(path)
        exact = path in self._scan.places
        if index is not None and exact and self.text[value : value + 1] in ('"', "'"):
            offsets = offsets_of(self.text, value)
            return self.location(offsets[min(index, len(offsets) - 1)])
        return self.location(value if exact else key)

    def location(self, offset: int) -> Location:
        """Line and column, both from 1, of an offset into the text."""
        line = bisect.bisect_right(self._lines, offset)
        return Location(file=self.file, line=line, column=offset - self._lines[line - 1] + 1)

    def excerpt(self, place: Location) -> str:
        """The line of a place; empty where the place is so far right that the line would not help."""
        if not 0 < place.line <= len(self._lines) or place.column > EXCERPT:
            return ""
        start = self._lines[place.line - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end][:EXCERPT]

    def problem(
        self,
        path: Path,
        what: str,
        *,
        value: bool = False,
        index: int | None = None,
        hint: str = "",
    ) -> Diagnostic:
        """Return a problem at a key, or at its value (`index`: at that character of it)."""
        place = self.value(path, index) if value or index is not None else self(path)
        shown = render(path)
        return Diagnostic(
            message=f"{shown}: {what}" if shown else what,
            location=place,
            excerpt=self.excerpt(place),
            hint=hint,
        )

    def twice(self) -> tuple[Path, Location, Location] | None:
        """The first key that is given twice: its path, its first and its second place."""
        found = self._scan.twice
        if found is None:
            return None
        path, first, second = found
        return path, self.location(first), self.location(second)

    @functools.cached_property
    def _lines(self) -> list[int]:
        """Offset of each line."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    @functools.cached_property
    def _scan(self) -> Scanner:
        scan = Scanner(self.text)
        scan.document()
        return scan

    def _nearest(self, path: Path) -> tuple[int, int]:
        for end in range(len(path), 0, -1):
            if path[:end] in self._scan.places:
                return self._scan.places[path[:end]]
        return (0, 0)


def render(path: Path) -> str:
    """A key path as users write it: `kernel.gemm.matrix.exclude[0].when`, with quotes where TOML
    needs them.
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
