"""Text for generated Python: safe names and docstrings."""

from __future__ import annotations

import inspect
import keyword
import textwrap
from collections.abc import Collection, Sequence

from tilec_runtime.errors import UsageError

WIDTH = 100


def parameter_names(names: Sequence[str], taken: Collection[str]) -> tuple[str, ...]:
    """Return parameter names for Python.

    Keywords and names in `taken` get an underscore appended.

    Raises:
        UsageError: a name is not an identifier.
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
    """Return `name` with underscores appended until it is neither a keyword nor taken."""
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name


def literal(value: object) -> str:
    """Return a value as a Python literal; text is ASCII in double quotes."""
    if isinstance(value, str):
        inner = value.encode("unicode_escape").decode("ascii").replace('"', '\\"')
        return f'"{inner}"'
    return f'float("{value!r}")' if repr(value) in ("inf", "-inf", "nan") else repr(value)


def plain(text: str) -> str:
    """Return text for a docstring: no backslash, double quote or control character."""
    shown = "".join(c if c.isprintable() else " " if c.isspace() else f"<{ord(c):x}>" for c in text)
    return shown.replace("\\", "/").replace('"""', "'''").replace('"', "'")


def paragraph(text: str, *, indent: str = "", hanging: str = "") -> list[str]:
    """Return text as lines of a docstring."""
    return textwrap.wrap(
        plain(text),
        width=WIDTH - 8,
        initial_indent=indent,
        subsequent_indent=hanging or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def prose(text: str) -> list[str]:
    """Return a kernel's documentation as lines of a docstring.

    Paragraphs and indentation are kept; long lines are wrapped.
    """
    lines: list[str] = []
    for line in inspect.cleandoc(text).split("\n"):
        indent = " " * min(len(line) - len(line.lstrip()), 24)
        lines += paragraph(line.strip(), indent=indent) or [""]
    return lines


def bracketed(head: str, items: Sequence[str], tail: str) -> list[str]:
    """Return `head(items)tail` on one line, or one item per line if that is too wide."""
    line = f"{head}({', '.join(items)}){tail}"
    return (
        [line]
        if len(line) <= WIDTH - 4
        else [f"{head}(", *(f"    {item}," for item in items), f"){tail}"]
    )
