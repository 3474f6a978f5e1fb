"""Text for generated Python: names and docstrings that cannot become code, and lines that a formatter leaves alone."""

from __future__ import annotations

import builtins
import inspect
import keyword
import textwrap
from collections.abc import Collection, Sequence

from tilec_runtime.errors import UsageError

# Lines that fit are not touched by a formatter of any width from here up; longer ones are exploded, with a trailing comma.
WIDTH = 100
_RESERVED = frozenset({"Literal", "Mapping", "Module", *vars(builtins)})


def method_name(name: str) -> str:
    """A kernel's name, as a method's.

    Raises:
        UsageError: Python has no such method name, or the class body needs the name.
    """
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name) or name.startswith("__") or name in _RESERVED:
        raise UsageError(f"kernel {name!r} cannot be a method of a Python class", fix="rename the kernel in tilec.toml")
    return name


def parameter_names(names: Sequence[str], taken: Collection[str]) -> tuple[str, ...]:
    """Names of parameters as Python's: keywords and names in `taken` get an underscore behind them.

    Raises:
        UsageError: a name is no identifier.
    """
    found: list[str] = []
    for name in names:
        if not name.isidentifier() or not name.isascii():
            raise UsageError(f"parameter {name!r} cannot be a parameter in Python", fix="rename it")
        found.append(unique(name.lstrip("_") or "p" if name.startswith("__") else name, {*taken, *found}))
    return tuple(found)


def unique(name: str, taken: Collection[str]) -> str:
    """`name`, with as many underscores behind it as it takes to be no keyword and not taken."""
    while keyword.iskeyword(name) or name in taken:
        name += "_"
    return name


def literal(text: str) -> str:
    """A string as a Python literal in double quotes, in ASCII."""
    inner = text.encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'"{inner}"'


def plain(text: str) -> str:
    """Text that is safe inside a docstring: no backslash, no quotes that end it, nothing invisible."""
    shown = "".join(c if c.isprintable() else " " if c.isspace() else f"<{ord(c):x}>" for c in text)
    return shown.replace("\\", "/").replace('"""', "'''").replace('"', "'")


def paragraph(text: str, *, indent: str = "", hanging: str = "", width: int = WIDTH - 8) -> list[str]:
    """Text as lines of a docstring."""
    return textwrap.wrap(
        plain(text), width=width, initial_indent=indent, subsequent_indent=hanging or indent, break_long_words=False, break_on_hyphens=False
    )


def prose(text: str) -> list[str]:
    """A kernel's own documentation as lines of a docstring: paragraphs and indentation stay, long lines are wrapped."""
    lines: list[str] = []
    for line in inspect.cleandoc(text).split("\n"):
        indent = " " * min(len(line) - len(line.lstrip()), 24)
        lines += paragraph(line.strip(), indent=indent) or [""]
    return lines


def bracketed(head: str, items: Sequence[str], tail: str, *, indent: int) -> list[str]:
    """`head(items)tail` on one line, or one item per line where that is too wide; `indent` is where the lines will stand."""
    line = f"{head}({', '.join(items)}){tail}"
    if indent + len(line) <= WIDTH and "\n" not in line:
        return [line]
    return [f"{head}(", *(f"    {item}," if item != "*" else "    *," for item in items), f"){tail}"]


def subscripted(head: str, items: Sequence[str], tail: str, *, indent: int) -> list[str]:
    """`head[items]tail` as `bracketed` has it; without items, `head` and `tail` alone."""
    if not items:
        return [f"{head}{tail}"]
    line = f"{head}[{', '.join(items)}]{tail}"
    return [line] if indent + len(line) <= WIDTH else [f"{head}[", *(f"    {item}," for item in items), f"]{tail}"]


def function_head(name: str, items: Sequence[str], result: tuple[str, Sequence[str]], *, indent: int) -> list[str]:
    """`def name(items) -> result[...]:`, broken up as far as it is too wide."""
    head, parts = result
    whole = f"{head}[{', '.join(parts)}]" if parts else head
    lines = bracketed(f"def {name}", items, f" -> {whole}:", indent=indent)
    if indent + len(lines[-1]) > WIDTH:
        lines[-1:] = subscripted(f") -> {head}", parts, ":", indent=indent)
    return lines


def tuple_text(items: Sequence[str], *, indent: int) -> str:
    """A tuple of expressions; one that is too wide for a line of its own goes on over several, which stand at `indent`."""
    line = f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return line if indent + len(line) < WIDTH else exploded(items, indent=indent)


def exploded(items: Sequence[str], *, indent: int) -> str:
    """A tuple of expressions, each on a line of its own."""
    space = " " * indent
    return "\n".join(["(", *(f"{space}    {item}," for item in items), f"{space})"])


def conditional(value: str, tests: Sequence[str], others: Sequence[str], *, indent: int) -> str:
    """`value if test and test else (other, other)`; where it is too wide for a line of its own, over several that stand at `indent`."""
    line = f"{value} if {' and '.join(tests)} else {tuple_text(others, indent=0)}"
    if indent + len(line) < WIDTH:
        return line
    space = "\n" + " " * indent
    test = f"if {' and '.join(tests)}"
    if indent + len(test) > WIDTH:  # there is no place for a comma that would keep a formatter of a larger width from joining it
        test = f"if {f'{space}and '.join(tests)}"
    other = exploded(others, indent=indent) if len(others) > 1 else f"({others[0]},)"
    return space.join([value, test, f"else {other}"])


def listed(head: str, items: Sequence[str]) -> list[str]:
    """`head[items]` on one line, or one item per line where that is too wide."""
    line = f"{head}[{', '.join(items)}]"
    return [line] if len(line) <= WIDTH else [f"{head}[", *(f"    {item}," for item in items), "]"]


def imported(module: str, names: Sequence[str], *, indent: int) -> list[str]:
    """An import of several names, in brackets where it is too wide."""
    line = f"from {module} import {', '.join(names)}"
    return [line] if indent + len(line) <= WIDTH else [f"from {module} import (", *(f"    {name}," for name in names), ")"]
