"""Tables and amounts as text: aligned columns that fit the terminal, the same bytes everywhere
else.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

import click

from tilec.cli.style import style

Cell = str | tuple[str, str]  # text, or (text, colour)
GAP = "  "
FLEX_LEAST = 12
TEXT_LEAST = 30


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column: its heading, numbers to the right, and whether its texts may be shortened, or left
    out, to fit the terminal.
    """

    title: str
    right: bool = False
    flex: bool = False
    spare: bool = False


def columns(*titles: str) -> tuple[Column, ...]:
    """Columns from short texts: `>name` is right-aligned, `~name` may be shortened, `-name` is left
    out where there is no room for all.
    """
    return tuple(
        Column(
            title=t.lstrip(">~-"),
            right=t.startswith(">"),
            flex=t.startswith("~"),
            spare=t.startswith("-"),
        )
        for t in titles
    )


def terminal_width() -> int | None:
    """Columns of the terminal behind standard output, None where it is none and nothing needs to
    fit.
    """
    return shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else None


def error_width() -> int | None:
    """Columns of the terminal behind standard error, None where it is none."""
    return shutil.get_terminal_size((80, 24)).columns if sys.stderr.isatty() else None


def fitted(text: str, width: int | None, *, indent: int | None = None) -> str:
    """Lines of words, with their colours, broken where the terminal would break a word; quoted
    code, four columns in, stays as it is.

    Args:
        text: lines.
        width: of the terminal; None for lines as they are.
        indent: of what goes on; two columns more than its line by default.
    """
    if width is None:
        return text
    return "\n".join(
        line if line.startswith("    ") else _broken(line, width, indent)
        for line in text.split("\n")
    )


def _broken(line: str, width: int, indent: int | None) -> str:
    lead = line[: len(line) - len(line.lstrip(" "))]
    more = " " * (len(lead) + 2 if indent is None else indent)
    lines = [lead]
    for word in line[len(lead) :].split(" "):
        room = width - cells(click.unstyle(lines[-1])) - 1
        if (
            lines[-1].strip()
            and cells(click.unstyle(word)) > room
            and len(more) + cells(click.unstyle(word)) <= width
        ):
            lines.append(f"{more}{word}")
        else:
            lines[-1] += f" {word}" if lines[-1].strip() else word
    return "\n".join(lines)


def table(
    heads: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    *,
    width: int | None = None,
    indent: str = "",
) -> list[str]:
    """Lines of a table. Where `width` is too small, spare columns go, flexible ones are shortened,
    and the rest is left to the terminal.
    """
    texts = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows]
    sizes = [
        max([len(head.title), *(cells(row[i]) for row in texts)]) for i, head in enumerate(heads)
    ]
    if width is not None:
        over = len(indent) + sum(sizes) + len(GAP) * (len(sizes) - 1) - width
        kept = [i for i, head in enumerate(heads) if not head.spare]
        if over > 0 and len(kept) < len(heads):
            return table(
                [heads[i] for i in kept],
                [[row[i] for i in kept] for row in rows],
                width=width,
                indent=indent,
            )
        for i in sorted((i for i, head in enumerate(heads) if head.flex), key=lambda i: -sizes[i]):
            cut = max(0, min(over, sizes[i] - max(FLEX_LEAST, len(heads[i].title))))
            sizes[i] -= cut
            over -= cut
    lines = [indent + _line([(h.title, "") for h in heads], heads, sizes, head=True)]
    lines += [
        indent
        + _line([cell if isinstance(cell, tuple) else (cell, "") for cell in row], heads, sizes)
        for row in rows
    ]
    return lines


def _line(
    parts: Sequence[tuple[str, str]],
    heads: Sequence[Column],
    sizes: Sequence[int],
    *,
    head: bool = False,
) -> str:
    texts = []
    for i, ((text, color), column, size) in enumerate(zip(parts, heads, sizes, strict=True)):
        short = shorten(text, size)
        last = i == len(parts) - 1 and not column.right
        blank = " " * (size - cells(short))
        padded = blank + short if column.right else short if last else short + blank
        if head and text:
            padded = style(padded, bold=True)
        elif color:
            padded = style(padded, fg=color)
        texts.append(padded)
    return GAP.join(texts).rstrip()


def hanging(
    lead: str, text: str, *, width: int | None, indent: int | None = None, **how: Any
) -> list[str]:
    """A text behind `lead`, in as many lines as the terminal needs.

    Args:
        lead: what stands in front of the first line, with its colours.
        text: of words.
        width: of the terminal; None for one line.
        indent: of the other lines; that of the text by default.
        how: as `style` takes it, of the text.
    """
    first = cells(click.unstyle(lead))
    left = first if indent is None else indent
    lines = [text]
    if width is not None:
        # Of a first line that begins elsewhere, the difference is written and taken away again.
        room = max(TEXT_LEAST, width - left)
        lines = textwrap.wrap(
            text,
            room,
            initial_indent=" " * (first - left),
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
        lines[0] = lines[0].lstrip(" ")
    shown = [style(line, **how) if how else line for line in lines]
    return [f"{lead}{shown[0]}".rstrip(), *(f"{' ' * left}{line}" for line in shown[1:])]


def cells(text: str) -> int:
    """Columns that a text takes on a terminal: East Asian wide characters take two, combining marks
    none.
    """
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def shorten(text: str, width: int) -> str:
    """A text that fits `width` columns; its middle goes first, since ids have the kernel in front
    and the target at the end.
    """
    if cells(text) <= width:
        return text
    tail = max(1, (width - 1) // 2)
    return f"{text[: max(1, width - 1 - tail)]}…{text[-tail:]}"


def bytes_text(size: int | None) -> str:
    """`512 B`, `1.2 KiB`, `34 MiB`; a dash for what is not known."""
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
    """A number, or a dash for what is not known."""
    return "-" if count is None else str(count)


def seconds_text(seconds: float) -> str:
    """`0.08 s`, `7.3 s`, `4 min 20 s`."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def plural(count: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
