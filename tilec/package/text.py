"""Text for generated Python: names and docstrings that cannot become code."""

from __future__ import annotations

import inspect
import keyword
import textwrap
from collections.abc import Collection, Sequence

from tilec_runtime.errors import UsageError

WIDTH = 100


def parameter_names(names: Sequence[str], taken: Collection[str]) -> tuple[str, ...]:
    """Return names of parameters as Python's: keywords and names in `taken` get an underscore
    behind them.

    Raises:
        UsageError: a name is no identifier.
    """
    names_so_far: list[str] = []
    for name in names:
        if not name.isidentifier() or not name.isascii():
            raise UsageError(f"parameter {name!r} cannot be a parameter in Python", fix="rename it")
        names_so_far.append(
            unique(
                name.lstrip("_") or "p" if name.startswith("__") else name, {*taken, *names_so_far}
            )
        )
    return tuple(names_so_far)


def unique(name: str, taken: Collection[str]) -> str:
    """Return `name` with as many underscores behind it as it takes to be no keyword and not taken."""
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name


def literal(value: object) -> str:
    """Return a value as a Python literal, text in double quotes and in ASCII."""
    if isinstance(value, str):
        inner = value.encode("unicode_escape").decode("ascii").replace('"', '\\"')
        return f'"{inner}"'
    return f'float("{value!r}")' if repr(value) in ("inf", "-inf", "nan") else repr(value)


def plain(text: str) -> str:
    """Return text that is safe inside a docstring: no backslash, no quotes that end it, nothing
    invisible.
    """
    shown = "".join(c if c.isprintable() else " " if c.isspace() else f"<{ord(c):x}>" for c in text)
    return shown.replace("\\", "/").replace('"""', "'''").replace('"', "'")


def paragraph(
    text: str, *, indent: str = "", hanging: str = "", width: int = WIDTH - 8
) -> list[str]:
    """Return text as lines of a docstring."""
    return textwrap.wrap(
        plain(text),
        width=width,
        initial_indent=indent,
        subsequent_indent=hanging or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def prose(text: str) -> list[str]:
    """Return a kernel's documentation as lines of a docstring: paragraphs and indentation stay,
    long lines are wrapped.
    """
    lines: list[str] = []
    for line in inspect.cleandoc(text).split("\n"):
        indent = " " * min(len(line) - len(line.lstrip()), 24)
        lines += paragraph(line.strip(), indent=indent) or [""]
    return lines


def bracketed(head: str, items: Sequence[str], tail: str) -> list[str]:
    """Return `head(items)tail` on one line, or one item per line where that is too wide."""
    line = f"{head}({', '.join(items)}){tail}"
    return (
        [line]
        if len(line) <= WIDTH - 4
        else [f"{head}(", *(f"    {item}," for item in items), f"){tail}"]
    )
