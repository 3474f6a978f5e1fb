"""Codecs between values and plain JSON.

Reading is strict, and errors give the JSON path.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from tilec_runtime.bundle import limits
from tilec_runtime.foreign import is_one_line
from tilec_runtime.values import value_class

Convert = Callable[[Any], Any]
MAX_ITEMS = 1 << 20  # the limit of arrays without a smaller one


class Misfit(Exception):  # noqa: N818 - never leaves the room: the caller turns it into a BundleError
    """A JSON value that violates the schema; `path` has the steps to it in reverse."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: list[str] = []

    @property
    def where(self) -> str:
        """The path of the value, such as `kernels[0].variants[2].id`."""
        return "".join(reversed(self.path)).removeprefix(".")


def unfit(where: str, fault: str) -> NoReturn:
    """Raise a Misfit with a path."""
    misfit = Misfit(fault)
    misfit.path.append(where)
    raise misfit


@value_class(frozen=True)
class Codec:
    """The conversion of a type to and from plain JSON; `read` raises Misfit."""

    write: Convert
    read: Convert


def _same(value: Any) -> Any:
    return value


def shown(value: Any) -> str:
    """Return a JSON value for a message, in at most 60 characters."""
    import reprlib  # for messages alone

    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = 60
    text = short.repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def record(cls: type[Any], **fields: Codec) -> Codec:
    """Encode a dataclass as an object whose keys are exactly its attributes."""
    names = frozenset(fields)
    readers = tuple((name, codec.read) for name, codec in fields.items())
    writers = tuple((name, codec.write) for name, codec in fields.items())

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Misfit(f"must be an object, is {shown(value)}")
        if value.keys() != names:
            unknown, missing = sorted(value.keys() - names), sorted(names - value.keys())
            raise Misfit(
                "; ".join(
                    [f"unknown key {shown(k)}" for k in unknown[:3]]
                    + [f"key {k!r} is missing" for k in missing[:3]]
                )
            )
        given = {}
        name = ""
        try:
            for name, reader in readers:
                given[name] = reader(value[name])
        except Misfit as misfit:
            misfit.path.append(f".{name}")
            raise
        return cls(**given)

    def write(value: Any) -> Any:
        return {name: writer(getattr(value, name)) for name, writer in writers}

    return Codec(write, read)


def sequence(item: Codec, *, most: int = MAX_ITEMS) -> Codec:
    """Encode a tuple as an array of at most `most` items."""
    reader, writer = item.read, item.write

    def read(value: Any) -> Any:
        if type(value) is not list:
            raise Misfit(f"must be an array, is {shown(value)}")
        if len(value) > most:
            raise Misfit(f"has {len(value)} items, more than {most}")
        return _read_items(itertools.repeat(reader), value)

    def write(value: Any) -> Any:
        return [writer(entry) for entry in value]

    return Codec(write, read)


def row(*columns: Codec) -> Codec:
    """Encode a tuple of fixed length as an array of that length."""
    readers = tuple(codec.read for codec in columns)
    writers = tuple(codec.write for codec in columns)

    def read(value: Any) -> Any:
        if type(value) is not list or len(value) != len(readers):
            raise Misfit(f"must be an array of {len(readers)} items, is {shown(value)}")
        return _read_items(readers, value)

    def write(value: Any) -> Any:
        return [writer(entry) for writer, entry in zip(writers, value, strict=True)]

    return Codec(write, read)


def _read_items(readers: Iterable[Convert], value: list[Any]) -> tuple[Any, ...]:
    items: list[Any] = []
    try:
        for entry, reader in zip(value, readers, strict=False):
            items.append(reader(entry))
    except Misfit as misfit:
        misfit.path.append(f"[{len(items)}]")
        raise
    return tuple(items)


def optional(codec: Codec) -> Codec:
    """Encode a value, or None as null."""
    reader, writer = codec.read, codec.write
    return Codec(
        lambda v: None if v is None else writer(v), lambda v: None if v is None else reader(v)
    )


def text(
    *, check: Callable[[str], object] | None = None, what: str = "a string", most: int = limits.TEXT
) -> Codec:
    """Encode a string of at most `most` characters; `what` says what `check` accepts."""

    def read(value: Any) -> Any:
        if type(value) is not str:
            raise Misfit(f"must be {what}, is {shown(value)}")
        if len(value) > most:
            raise Misfit(f"has {len(value)} characters, more than {most}")
        if check is not None and not check(value):
            raise Misfit(f"must be {what}, is {shown(value)}")
        return value

    return Codec(_same, read)


def word(marks: str, what: str) -> Codec:
    """Encode an ASCII name of letters, digits and `marks`, with no mark at an end.

    It uses no regular expression; see the comment before `is_digest`.
    """
    marked = str.maketrans(dict.fromkeys(marks, "a"))
    return text(
        check=lambda value: (
            value.isascii() and value == value.strip(marks) and value.translate(marked).isalnum()
        ),
        what=what,
        most=200,
    )


def line(most: int = limits.LINE) -> Codec:
    """Encode a string without control characters.

    Such a string cannot forge additional lines of a report.
    """
    return text(check=is_one_line, what="one line without control characters", most=most)


def integer(low: int = -limits.INT, high: int = limits.INT) -> Codec:
    """Encode an int between two bounds, both inclusive."""

    def read(value: Any) -> Any:
        if type(value) is not int:
            raise Misfit(f"must be an integer, is {shown(value)}")
        if not low <= value <= high:
            raise Misfit(f"must be between {low} and {high}, is {shown(value)}")
        return value

    return Codec(_same, read)


def power_of_two(high: int) -> Codec:
    """Encode a power of two from 1 to `high`."""
    within = integer(1, high).read

    def read(value: Any) -> Any:
        if within(value) & (value - 1):
            raise Misfit(f"must be a power of two, is {shown(value)}")
        return value

    return Codec(_same, read)


def enumeration(cls: type[enum.Enum]) -> Codec:
    """Encode an enum member as its value."""
    members = {member.value: member for member in cls}

    def read(value: Any) -> Any:
        if type(value) is not str or value not in members:
            raise Misfit(f"must be one of {', '.join(members)}; is {shown(value)}")
        return members[value]

    return Codec(lambda member: member.value, read)


def parsed(parse: Callable[[str], Any]) -> Codec:
    """Encode a value as a name.

    `str` writes the name. `parse` reads it, or raises ValueError.
    """

    def read(value: Any) -> Any:
        if type(value) is not str or len(value) > 100:
            raise Misfit(f"must be a name, is {shown(value)}")
        try:
            return parse(value)
        except ValueError as exc:
            raise Misfit(str(exc)) from exc

    return Codec(str, read)


# These use no regular expressions: compiling one takes longer than reading a kernel's row.
def is_digest(value: str) -> bool:
    """Whether a string is a SHA-256 in lower-case hex."""
    return len(value) == 64 and not value.strip("0123456789abcdef")


def is_name(value: str) -> bool:
    """Whether a string has only letters, digits and `_`, and begins with no digit."""
    return value.replace("_", "a").isalnum() and not value[0].isdecimal()


def _read_flag(value: Any) -> Any:
    if type(value) is not bool:
        raise Misfit(f"must be true or false, is {shown(value)}")
    return value


_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def _write_literal(value: Any) -> Any:
    # JSON has no infinities, but the default of a reduction's parameter may be one.
    return (
        {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value
    )


def _read_literal(value: Any) -> Any:
    if type(value) is dict:
        name = value.get("float")
        if len(value) != 1 or type(name) is not str or name not in _NON_FINITE:
            raise Misfit(f"must be a string, a number or a truth value, is {shown(value)}")
        return _NON_FINITE[name]
    if type(value) is int and not -limits.INT - 1 <= value <= 2 * limits.INT + 1:
        raise Misfit(f"must fit 64 bits, is {shown(value)}")
    if type(value) not in (str, int, float, bool) or (
        type(value) is str and (len(value) > limits.LINE or not is_one_line(value))
    ):
        raise Misfit(f"must be a string, a number or a truth value, is {shown(value)}")
    return value


module_name = text(
    check=lambda value: all(map(is_name, value.split("."))), what="a module name", most=500
)
digest = text(check=is_digest, what="a SHA-256 in hex")
identifier = text(check=is_name, what="an identifier", most=500)
flag = Codec(_same, _read_flag)
literal = Codec(_write_literal, _read_literal)
