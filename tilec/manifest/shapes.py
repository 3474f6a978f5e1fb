"""Shapes of manifest values.

A shape reads a TOML value, or reports its problems, and returns its own JSON Schema.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any

from tilec.manifest.locate import Path
from tilec.manifest.problems import Problems, shown, shown_int
from tilec.model.argument import parse_abi
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.expr import parse

INT_LIMIT = 2**63 - 1
TEXT_LIMIT = 1000


class Shape:
    """The form of a value."""

    __slots__ = ()

    @property
    def word(self) -> str:
        """The expected kind of value, for messages: `text`, `an integer`."""
        raise NotImplementedError

    @property
    def accepts(self) -> tuple[type, ...]:
        """The Python types of its TOML values."""
        raise NotImplementedError

    def takes(self, value: Any) -> bool:
        """Return whether the value has this shape's TOML type."""
        return isinstance(value, self.accepts) and (
            not isinstance(value, bool) or bool in self.accepts
        )

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        """Return the value in the model's form, or None after a report about it or a part."""
        before = len(problems.collected)
        if self.takes(value):
            result = self.of(value, path, problems)
            return result if len(problems.collected) == before else None
        problems.add(path, f"{self.word} is expected, not {shown(value)}", hint=self.hint(value))
        return None

    def hint(self, value: Any) -> str:  # noqa: ARG002 - most shapes have none
        """Return a replacement for a value of another type, for messages, or an empty string."""
        return ""

    def of(self, value: Any, path: Path, problems: Problems) -> Any:
        """Return a value of the shape's TOML type in the model's form, and report problems."""
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the shape."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Text(Shape):
    """Text with an optional closed set, pattern or conversion.

    Attributes:
        what: name of the value, for messages.
        pattern: regular expression for the whole text.
        choices: the only texts allowed, if any are given.
        convert: converts the text, or raises ValueError.
        empty: whether an empty text is allowed.
        known: returns the texts that `convert` accepts, for the schema.
        most: largest number of characters.
    """

    what: str = "text"
    pattern: str = ""
    choices: tuple[str, ...] = ()
    convert: Callable[[str], Any] | None = None
    empty: bool = False
    known: Callable[[], tuple[str, ...]] | None = None
    most: int = TEXT_LIMIT

    word = "text"
    accepts = (str,)

    def of(self, value: str, path: Path, problems: Problems) -> Any:
        if self.choices and value not in self.choices:
            problems.unknown(path, self.what, value, self.choices)
        elif not value and not self.empty:
            problems.add(path, "is empty")
        elif len(value) > self.most:
            problems.add(path, f"has {len(value)} characters, the most is {self.most}")
        elif self.pattern and not re.fullmatch(self.pattern, value):
            problems.add(path, f"{value!r} is not {self.what}")
        else:
            return _converted(self.convert, value, path, problems)
        return None

    def schema(self) -> dict[str, Any]:
        choices = self.known() if self.known else self.choices
        if choices:
            return {"enum": list(choices)}
        limits = {
            "minLength": 0 if self.empty else 1,
            "pattern": self.pattern and f"^(?:{self.pattern})$",
        }
        return {"type": "string", "maxLength": self.most, **_given(limits)}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Integer(Shape):
    """An integer between two inclusive bounds.

    Attributes:
        least, most: the bounds.
        power: whether it is a power of two.
        convert: converts the integer, or raises ValueError.
    """

    least: int = -INT_LIMIT
    most: int = INT_LIMIT
    power: bool = False
    convert: Callable[[int], Any] | None = None

    word = "an integer"
    accepts = (int,)

    def of(self, value: int, path: Path, problems: Problems) -> Any:
        if value < self.least:
            problems.add(path, f"{value} is too small: the least is {self.least}")
        elif value > self.most:
            problems.add(path, f"{shown_int(value)} is too large: the most is {self.most}")
        elif self.power and value & (value - 1):
            problems.add(path, f"{value} is not a power of two")
        else:
            return _converted(self.convert, value, path, problems)
        return None

    def schema(self) -> dict[str, Any]:
        if self.power:
            return {
                "enum": [
                    1 << n
                    for n in range(self.most.bit_length())
                    if self.least <= 1 << n <= self.most
                ]
            }
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Formula(Shape):
    """An expression, kept as text; later checks know its names.

    Attributes:
        number: least integer that is allowed in place of an expression; None allows no integer.
        abi: whether it is an argument of an entry point.
    """

    number: int | None = None
    abi: bool = False

    @property
    def word(self) -> str:
        return (
            "an expression in quotes"
            if self.number is None
            else "an expression in quotes or an integer"
        )

    @property
    def accepts(self) -> tuple[type, ...]:
        return (str,) if self.number is None else (str, int)

    def of(self, value: str | int, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return Integer(self.number or 0, convert=str).of(value, path, problems)
        try:
            (parse_abi if self.abi else parse)(value)
        except ExpressionError as error:
            problems.expression(path, error)
        return value

    def schema(self) -> dict[str, Any]:
        text = Text().schema()
        return text if self.number is None else {"anyOf": [text, Integer(self.number).schema()]}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Number(Shape):
    """A finite number; `above` is an exclusive bound, `least` and `most` are inclusive."""

    least: float | None = None
    most: float | None = None
    above: float | None = None

    word = "a number"
    accepts = (int, float)

    def of(self, value: float, path: Path, problems: Problems) -> Any:
        if abs(value) > INT_LIMIT if isinstance(value, int) else not math.isfinite(value):
            problems.add(
                path, "is too large" if isinstance(value, int) else f"{value} is no finite number"
            )
        elif (self.least is not None and value < self.least) or (
            self.above is not None and value <= self.above
        ):
            due = f"above {self.above}" if self.least is None else f"at least {self.least}"
            problems.add(path, f"{value} is too small: it must be {due}")
        elif self.most is not None and value > self.most:
            problems.add(path, f"{value} is too large: the most is {self.most}")
        else:
            return float(value)
        return None

    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.least, "maximum": self.most, "exclusiveMinimum": self.above}
        return {
            "type": "number",
            **{key: bound for key, bound in bounds.items() if bound is not None},
        }


class Flag(Shape):
    """true or false."""

    __slots__ = ()
    word = "true or false"
    accepts = (bool,)

    def of(self, value: bool, path: Path, problems: Problems) -> bool:  # noqa: ARG002 - both are right
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Scalar(Shape):
    """A number or a boolean, unchanged."""

    __slots__ = ()
    word = "a number or a boolean"
    accepts: tuple[type, ...] = (bool, int, float)

    def of(self, value: Any, path: Path, problems: Problems) -> Any:
        if isinstance(value, str) and not value.isprintable():
            problems.add(path, "has characters that cannot be printed")
        elif isinstance(value, float) and not math.isfinite(value):
            problems.add(path, f"{value} is no finite number")
        elif isinstance(value, int) and not -INT_LIMIT <= value <= INT_LIMIT:
            problems.add(path, "is beyond 64 bits")
        return value

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, Integer().schema(), {"type": "number"}]}


class Plain(Scalar):
    """A text, number or boolean, unchanged."""

    __slots__ = ()
    word = "text, a number or a boolean"
    accepts = (str, bool, int, float)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [*super().schema()["anyOf"], {"type": "string"}]}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListOf(Shape):
    """A list with items of one shape, read to a tuple."""

    item: Shape
    least: int = 0
    most: int | None = None
    unique: bool = False

    word = "a list"
    accepts = (list,)

    def hint(self, value: Any) -> str:
        if isinstance(value, str) and re.fullmatch("-?[0-9]+", value):
            return f"write [{value}]"
        return (
            f"write [{value!r}]".replace("'", '"')
            if self.item.takes(value) and isinstance(value, str | int)
            else ""
        )

    def of(self, value: list[Any], path: Path, problems: Problems) -> Any:
        if len(value) < self.least:
            problems.add(path, "is empty")
        if self.most is not None and len(value) > self.most:
            problems.add(path, f"has {len(value)} items, the most is {self.most}")
            return None
        read = [self.item.read(item, (*path, index), problems) for index, item in enumerate(value)]
        seen: set[Any] = set()
        for index, (item, done) in enumerate(zip(value, read, strict=True) if self.unique else ()):
            # In Python true equals 1; here they are different values.
            typed = (isinstance(done, bool), done)
            if done is not None and typed in seen:
                problems.add((*path, index), f"{shown(item)} is given twice")
            seen.add(typed)
        return tuple(read)

    def schema(self) -> dict[str, Any]:
        limits = {"minItems": self.least, "maxItems": self.most, "uniqueItems": self.unique}
        return {"type": "array", "items": self.item.schema(), **_given(limits)}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Either(Shape):
    """One of several shapes, chosen by the value's TOML type."""

    shapes: tuple[Shape, ...]

    @property
    def word(self) -> str:
        return " or ".join(shape.word for shape in self.shapes)

    def takes(self, value: Any) -> bool:
        return any(shape.takes(value) for shape in self.shapes)

    def hint(self, value: Any) -> str:
        return next(filter(None, (shape.hint(value) for shape in self.shapes)), "")

    def of(self, value: Any, path: Path, problems: Problems) -> Any:
        return next(shape for shape in self.shapes if shape.takes(value)).of(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [shape.schema() for shape in self.shapes]}


def _given(limits: dict[str, Any]) -> dict[str, Any]:
    """Return the limits that are set."""
    return {key: limit for key, limit in limits.items() if limit}


def _converted(
    convert: Callable[[Any], Any] | None, value: Any, path: Path, problems: Problems
) -> Any:
    """Return the value as `convert` gives it, or None after a report of its ValueError."""
    try:
        return convert(value) if convert else value
    except ValueError as error:
        problems.add(path, str(error))
    return None
