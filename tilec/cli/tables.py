"""Tables, wrapped lines and amounts as text, fitted to the terminal.

The heads of a table are titles: `>name` is right-aligned, for numbers; `~name` may be shortened,
and `-name` left out, where the terminal is too narrow.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence

import click

from tilec.cli.style import style

Cell = str | tuple[str, str]  # text, or (text, colour)
GAP = "  "
LEAST = 12  # smallest width of a shortened column


class Table:
    """Lines of a table whose rows may arrive one at a time.

    Args:
        heads: the columns' titles.
        sizes: width of the widest text of each column.
        width: width of the terminal, None for no limit.
        indent: prefix of each line.
    """

    def __init__(
        self,
        heads: Sequence[str],
        sizes: Sequence[int],
        *,
        width: int | None = None,
        indent: str = "",
    ) -> None:
        self._heads, self._indent = heads, indent
        self._titles = [head.lstrip(">~-") for head in heads]
        self._sizes = [
            max(cells(title), size) for title, size in zip(self._titles, sizes, strict=True)
        ]
        self._shown = list(range(len(heads)))
        if width is None:
            return
        if self._excess(width) > 0:
            self._shown = [i for i in self._shown if not heads[i].startswith("-")]
        flexible = [i for i in self._shown if heads[i].startswith("~")]
        for i in sorted(flexible, key=lambda i: -self._sizes[i]):
            least = max(LEAST, cells(self._titles[i]))
            self._sizes[i] -= max(0, min(self._excess(width), self._sizes[i] - least))

    def head(self) -> str:
        """Return the line of titles."""
        titles = [self._cell(i, title) for i, title in enumerate(self._titles)]
        return self._line([style(title, bold=True) if title.strip() else title for title in titles])

    def row(self, row: Sequence[Cell]) -> str:
        """Return the line of one row; the last columns may be missing."""
        texts = []
        for i, cell in enumerate(row):
            text, color = (cell, "") if isinstance(cell, str) else cell
            texts.append(style(self._cell(i, text), fg=color) if color else self._cell(i, text))
        return self._line(texts)

    def _excess(self, width: int) -> int:
        sizes = [self._sizes[i] for i in self._shown]
        return len(self._indent) + sum(sizes) + len(GAP) * (len(sizes) - 1) - width

    def _cell(self, i: int, text: str) -> str:
        short = shorten(text, self._sizes[i])
        blank = " " * (self._sizes[i] - cells(short))
        if self._heads[i].startswith(">"):
            return blank + short
        return short if i == self._shown[-1] else short + blank

    def _line(self, texts: Sequence[str]) -> str:
        return self._indent + GAP.join(texts[i] for i in self._shown if i < len(texts)).rstrip()


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    width: int | None = None,
    indent: str = "",
) -> list[str]:
    """Return the lines of a table: titles, then rows."""
    texts = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows]
    sizes = [max((cells(row[i]) for row in texts), default=0) for i in range(len(heads))]
    shown = Table(heads, sizes, width=width, indent=indent)
    return [shown.head(), *map(shown.row, rows)]


def terminal_width(*, err: bool = False) -> int | None:
    """Return the terminal's width on standard output or error, or None without one."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size((80, 24)).columns if stream.isatty() else None


def wrapped(text: str, width: int | None, *, indent: int | None = None) -> str:
    """Break lines that are wider than the terminal between words.

    Lines that begin with four spaces are quoted code and stay unchanged.

    Args:
        text: lines with colours.
        width: width of the terminal; None to break no line.
        indent: indent of continued lines; by default two more than that of their line.
    """
    if width is None:
        return text
    return "\n".join(
        line if line.startswith("    ") and indent is None else _broken(line, width, indent)
        for line in text.split("\n")
    )


def _broken(line: str, width: int, indent: int | None) -> str:
    lead = line[: len(line) - len(line.lstrip(" "))]
    more = " " * (len(lead) + 2 if indent is None else indent)
    lines = [lead]
    for word in line[len(lead) :].split(" "):
        size = cells(click.unstyle(word))
        begun = lines[-1].strip()
        full = cells(click.unstyle(lines[-1])) + 1 + size > width
        if begun and full and len(more) + size <= width:
            lines.append(f"{more}{word}")
        else:
            lines[-1] += f" {word}" if begun else word
    return "\n".join(lines)


def cells(text: str) -> int:
    """Return the width of a text.

    Wide characters have two columns, and combining marks none.
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def shorten(text: str, width: int) -> str:
    """Shorten a wide text in the middle.

    Names differ at their beginning and end.
    """
    if cells(text) <= width:
        return text
    tail = max(1, (width - 1) // 2)
    return f"{text[: max(1, width - 1 - tail)]}…{text[-tail:]}"


def bytes_text(size: int | None) -> str:
    """Format as `512 B`, `1.2 KiB` or `34 MiB`; a dash for None."""
    if size is None:
        return "-"
    if size < 1024:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1023.95 or unit == "TiB":
            break
    text = f"{value:.0f}" if value >= 99.95 else f"{value:.1f}".removesuffix(".0")
    return f"{text} {unit}"


def count_text(count: int | None) -> str:
    """Format a number; a dash for None."""
    return "-" if count is None else str(count)


def share_text(share: float | None) -> str:
    """Format as `13%`; a dash for None."""
    return "-" if share is None else f"{100 * share:.0f}%"


def seconds_text(seconds: float) -> str:
    """Format as `0.08 s`, `7.3 s` or `4 min 20 s`."""
    if seconds < 60:
        return f"{seconds:.{2 if seconds < 1 else 1}f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def time_text(seconds: float) -> str:
    """Format as `812.3 us`, `4.07 ms` or `1.20 s`."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.{1 if seconds >= 1e-5 else 2}f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def plural(count: int, noun: str) -> str:
    """Format as `1 job`, `2 jobs` or `3 entries`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun.removesuffix('y')}ies" if noun.endswith("try") else f"{count} {noun}s"


def listed(names: Sequence[str], most: int) -> str:
    """Format as `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names of each text of pairs (text, name), both without duplicates."""
    groups: dict[str, list[str]] = {}
    for text, name in dict.fromkeys(pairs):
        groups.setdefault(text, []).append(name)
    return groups
