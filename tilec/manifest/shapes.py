"""Shapes of manifest values: each reads a TOML value (or reports why not) and gives its own JSON Schema, so that the two cannot drift."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any, Protocol

from tilec.manifest.locate import Path
from tilec.manifest.problems import Problems, shown, shown_int
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.expr import parse, parse_abi

BAD: Any = type("Bad", (), {"__repr__": lambda _self: "BAD"})()
"""What `read` gives for a value that was reported."""

INT_LIMIT = 2**63 - 1
TEXT_LIMIT = 1000


class Shape(Protocol):
    """What a value must look like."""

    @property
    def word(self) -> str:
        """What is expected, for messages: `text`, `an integer`."""

    def takes(self, value: Any) -> bool:
        """Whether the value has this shape's TOML type; decides between alternatives."""

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        """The value as the model wants it, or BAD after a report."""

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the shape."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Text:
    """Text. `choices` close the set; `pattern` must match as a whole, and `what` names it; `convert` may refuse with a ValueError.

    `known` gives the schema the closed set that `convert` takes; `most` is the greatest number of characters.
    """

    what: str = "text"
    pattern: str = ""
    choices: tuple[str, ...] = ()
    convert: Callable[[str], Any] | None = None
    empty: bool = False
    known: Callable[[], tuple[str, ...]] | None = None
    most: int = TEXT_LIMIT

    @property
    def word(self) -> str:
        return "text"

    def takes(self, value: Any) -> bool:
        return isinstance(value, str)

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, str):
            return mismatch(self, value, path, problems)
        if self.choices and value not in self.choices:
            problems.unknown(path, self.what, value, self.choices)
        elif not value and not self.empty:
            problems.add(path, "is empty")
        elif len(value) > self.most:
            problems.add(path, f"has {len(value)} characters, the most is {self.most}")
        elif self.pattern and not re.fullmatch(self.pattern, value):
            problems.add(path, f"{value!r} is not {self.what}")
        else:
            try:
                return self.convert(value) if self.convert else value
            except ValueError as error:
                problems.add(path, str(error))
        return BAD

    def schema(self) -> dict[str, Any]:
        choices = self.known() if self.known else self.choices
        if choices:
            return {"enum": list(choices)}
        found: dict[str, Any] = {"type": "string", "maxLength": self.most}
        if not self.empty:
            found["minLength"] = 1
        if self.pattern:
            found["pattern"] = f"^(?:{self.pattern})$"
        return found


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Formula:
    """An expression, kept as text; its syntax is checked here, its names where they are known.

    `number` takes integers from there on too; `abi` reads an argument of an entry point.
    """

    number: int | None = None
    abi: bool = False

    @property
    def word(self) -> str:
        return "an expression in quotes" if self.number is None else "an expression in quotes or an integer"

    def takes(self, value: Any) -> bool:
        return isinstance(value, str) or (self.number is not None and is_int(value))

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not self.takes(value):
            return mismatch(self, value, path, problems)
        if not isinstance(value, str):
            return BAD if Integer(self.number).read(value, path, problems) is BAD else str(value)
        try:
            (parse_abi if self.abi else parse)(value)
        except ExpressionError as error:
            problems.expression(path, error)
            return BAD
        return value

    def schema(self) -> dict[str, Any]:
        text: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": TEXT_LIMIT}
        return text if self.number is None else {"anyOf": [text, Integer(self.number).schema()]}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Integer:
    """An integer between two bounds, both included."""

    least: int | None = None
    most: int | None = None
    power: bool = False

    @property
    def word(self) -> str:
        return "an integer"

    def takes(self, value: Any) -> bool:
        return is_int(value)

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not is_int(value):
            return mismatch(self, value, path, problems)
        least, most = self.bounds()
        if value < least:
            problems.add(path, f"{value} is too small: the least is {least}")
        elif value > most:
            problems.add(path, f"{shown_int(value)} is too large: the most is {most}")
        elif self.power and value & (value - 1):
            problems.add(path, f"{value} is not a power of two")
        else:
            return value
        return BAD

    def bounds(self) -> tuple[int, int]:
        """Least and most."""
        return (-INT_LIMIT if self.least is None else self.least, INT_LIMIT if self.most is None else self.most)

    def schema(self) -> dict[str, Any]:
        least, most = self.bounds()
        if self.power:
            return {"enum": [1 << n for n in range(most.bit_length()) if least <= 1 << n <= most]}
        return {"type": "integer", "minimum": least, "maximum": most}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Number:
    """An integer or a float, finite; `above` is excluded, `least` and `most` are included."""

    least: float | None = None
    most: float | None = None
    above: float | None = None

    @property
    def word(self) -> str:
        return "a number"

    def takes(self, value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not self.takes(value):
            return mismatch(self, value, path, problems)
        if abs(value) > INT_LIMIT if isinstance(value, int) else not math.isfinite(value):
            problems.add(path, "is too large" if isinstance(value, int) else f"{value} is no finite number")
        elif (self.least is not None and value < self.least) or (self.above is not None and value <= self.above):
            problems.add(
                path, f"{value} is too small: it must be {f'above {self.above}' if self.least is None else f'at least {self.least}'}"
            )
        elif self.most is not None and value > self.most:
            problems.add(path, f"{value} is too large: the most is {self.most}")
        else:
            return float(value)
        return BAD

    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.least, "maximum": self.most, "exclusiveMinimum": self.above}
        return {"type": "number", **{key: bound for key, bound in bounds.items() if bound is not None}}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Flag:
    """true or false."""

    @property
    def word(self) -> str:
        return "true or false"

    def takes(self, value: Any) -> bool:
        return isinstance(value, bool)

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        return value if isinstance(value, bool) else mismatch(self, value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plain:
    """A text, number or boolean as it is; `text` says whether text is among them."""

    text: bool = True

    @property
    def word(self) -> str:
        return "text, a number or a boolean" if self.text else "a number or a boolean"

    def takes(self, value: Any) -> bool:
        return isinstance(value, bool | int | float) or (self.text and isinstance(value, str))

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not self.takes(value):
            return mismatch(self, value, path, problems)
        if isinstance(value, str):
            if value and value.isprintable():
                return value
            problems.add(path, "has characters that cannot be printed" if value else "is empty")
        elif isinstance(value, float):
            if math.isfinite(value):
                return value
            problems.add(path, f"{value} is no finite number")
        elif -INT_LIMIT <= value <= INT_LIMIT:
            return value
        else:
            problems.add(path, "is beyond 64 bits")
        return BAD

    def schema(self) -> dict[str, Any]:
        kinds: list[dict[str, Any]] = [{"type": "boolean"}, Integer().schema(), {"type": "number"}]
        return {"anyOf": [*kinds, {"type": "string", "minLength": 1}] if self.text else kinds}


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListOf:
    """A list with items of one shape, read to a tuple."""

    item: Shape
    least: int = 0
    most: int | None = None
    unique: bool = False

    @property
    def word(self) -> str:
        return "a list"

    def takes(self, value: Any) -> bool:
        return isinstance(value, list)

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        if not isinstance(value, list):
            hint = f"write [{value!r}]".replace("'", '"') if self.item.takes(value) and isinstance(value, str | int) else ""
            return mismatch(self, value, path, problems, hint=hint)
        if len(value) < self.least:
            problems.add(path, "is empty" if not value else f"has {len(value)} items, the least is {self.least}")
            return BAD
        if self.most is not None and len(value) > self.most:
            problems.add(path, f"has {len(value)} items, the most is {self.most}")
            return BAD
        read = [self.item.read(item, (*path, index), problems) for index, item in enumerate(value)]
        if self.unique:
            seen: set[Any] = set()
            for index, (item, done) in enumerate(zip(value, read, strict=True)):
                # true equals 1 in Python, and is another value here.
                mark = (isinstance(done, bool), done)
                if done is not BAD and mark in seen:
                    problems.add((*path, index), f"{shown(item)} is given twice")
                seen.add(mark)
        return tuple(read)

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "array", "items": self.item.schema()}
        if self.least:
            found["minItems"] = self.least
        if self.most is not None:
            found["maxItems"] = self.most
        if self.unique:
            found["uniqueItems"] = True
        return found


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Either:
    """One of several shapes, told apart by the value's TOML type."""

    shapes: tuple[Shape, ...]

    @property
    def word(self) -> str:
        return " or ".join(shape.word for shape in self.shapes)

    def takes(self, value: Any) -> bool:
        return any(shape.takes(value) for shape in self.shapes)

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        for shape in self.shapes:
            if shape.takes(value):
                return shape.read(value, path, problems)
        return mismatch(self, value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [shape.schema() for shape in self.shapes]}


def mismatch(shape: Shape, value: Any, path: Path, problems: Problems, *, hint: str = "") -> Any:
    """Report a value of another TOML type than the shape's."""
    problems.add(path, f"{shape.word} is expected, not {shown(value)}", hint=hint)
    return BAD


def is_int(value: Any) -> bool:
    """Whether a TOML value is an integer (booleans are none)."""
    return isinstance(value, int) and not isinstance(value, bool)
