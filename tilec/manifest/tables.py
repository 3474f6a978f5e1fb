"""Shapes of manifest tables: fixed keys, and free names."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

from tilec.manifest.locate import Path
from tilec.manifest.problems import Problems
from tilec.manifest.shapes import Either, Shape
from tilec_runtime.model.suggest import did_you_mean, nearest


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Key:
    """One key of a table; `required` is an example for the message if it is missing."""

    name: str
    shape: Shape
    doc: str
    required: str = ""


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Names:
    """Free names of a table: their pattern, and the shape of the named values."""

    pattern: str
    what: str
    shape: Shape
    doc: str = ""
    choices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Table(Shape):
    """A table with fixed keys, free names, or both.

    Attributes:
        keys: the fixed keys.
        names: the free names.
        into: dataclass of the result, which has the defaults; None for a dict.
        merged: whether other tables fill in defaults later; the result is then a dict.
        least: least number of keys.
    """

    keys: tuple[Key, ...] = ()
    names: Names | None = None
    into: type | None = None
    merged: bool = False
    least: int = 0

    word = "a table"
    accepts = (dict,)

    @functools.cached_property
    def by_name(self) -> dict[str, Key]:
        """The fixed keys by name."""
        return {key.name: key for key in self.keys}

    def of(self, value: dict[str, Any], path: Path, problems: Problems) -> Any:
        """Return the table, or the dict of its values; None for one that has a problem."""
        before = len(problems.collected)
        values: dict[str, Any] = {}
        for name, item in value.items():
            inner = (*path, name)
            key = self.by_name.get(name)
            shape = key.shape if key else self._free(name, inner, problems)
            if shape:
                values[name] = shape.read(item, inner, problems)
        unknown = [name for name in value if not self.names and name not in self.by_name]
        for key in self.keys:
            misspelt = did_you_mean(key.name, unknown)  # reported at the unknown key
            if key.required and key.name not in value and not misspelt:
                message = f"{key.name!r} is missing: write {key.required}"
                problems.add(path, message, at_key=True)
        if len(value) < self.least:
            problems.add(path, "is empty", at_key=True)
        if self.into is None or self.merged or len(problems.collected) > before:
            return values
        return self.into(**{name.replace("-", "_"): each for name, each in values.items()})

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the table, with the defaults of its dataclass."""
        defaults = _defaults(self.into) if self.into else {}
        properties: dict[str, Any] = {}
        for key in self.keys:
            properties[key.name] = {**key.shape.schema(), "description": key.doc}
            default = defaults.get(key.name)
            value = list(default) if isinstance(default, tuple) else default
            absent = value in (None, "", []) or (type(value) is int and value == 0)
            if not absent and not key.required:
                properties[key.name]["default"] = value
        result: dict[str, Any] = {"type": "object"}
        if properties:
            result["properties"] = properties
        required = [key.name for key in self.keys if key.required]
        if required:
            result["required"] = required
        if self.least:
            result["minProperties"] = self.least
        if self.names:
            inner = self.names.shape.schema()
            result["patternProperties"] = {
                self._free_pattern(): {**inner, "description": self.names.doc}
                if self.names.doc
                else inner
            }
        result["additionalProperties"] = False
        return result

    def _free_pattern(self) -> str:
        pattern = self.names.pattern if self.names else ""
        # A fixed key that looks like a free name has its own shape only.
        fixed = "|".join(re.escape(key.name).replace("\\-", "-") for key in self.keys)
        return f"^(?!(?:{fixed})$)(?:{pattern})$" if fixed else f"^(?:{pattern})$"

    def _free(self, name: str, path: Path, problems: Problems) -> Shape | None:
        if self.names is None:
            problems.add(path, f"unknown key{self._meant(name)}", at_key=True)
            return None
        if not re.fullmatch(self.names.pattern, name):
            problems.add(path, f"{name!r} is not {self.names.what}{self._meant(name)}", at_key=True)
            return None
        return self.names.shape

    def _meant(self, name: str) -> str:
        known = [key.name for key in self.keys]
        inner = self._inner()
        choices = self.names.choices if self.names else ()
        near = inner.get(name, "") or nearest(name, [*known, *choices])
        near = near or inner.get(nearest(name, inner), "")
        if near:
            return f"; did you mean {near!r}"
        return f"; known are {', '.join(known)}" if known else ""

    def _inner(self) -> dict[str, str]:
        """Return the keys of the tables in this one, each with its path."""
        paths: dict[str, str] = {}
        for key in self.keys:
            shapes = key.shape.shapes if isinstance(key.shape, Either) else (key.shape,)
            for shape in shapes:
                for name in shape.by_name if isinstance(shape, Table) else ():
                    paths.setdefault(name, f"{key.name}.{name}")
        return paths


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Parts(Table):
    """A table whose valid values are used even if others have a problem.

    Values with a problem are None. So one run finds the problems of all values.
    """

    def read(self, value: Any, path: Path, problems: Problems) -> Any:
        return (
            self.of(value, path, problems)
            if self.takes(value)
            else super().read(value, path, problems)
        )


def valid_values(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a `Parts` table that have no problem."""
    return {name: value for name, value in table.items() if value is not None}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Pairs(Table):
    """A table of free names, whose result is a tuple of pairs."""

    def of(self, value: dict[str, Any], path: Path, problems: Problems) -> Any:
        return tuple(super().of(value, path, problems).items())


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Named(Table):
    """A table of free names, whose result is a tuple of dataclasses with these names."""

    def of(self, value: dict[str, Any], path: Path, problems: Problems) -> Any:
        tables = super().of(value, path, problems)
        return tuple(dataclasses.replace(each, name=name) for name, each in tables.items() if each)


def _defaults(of: type) -> dict[str, Any]:
    return {
        field.name.replace("_", "-"): field.default
        for field in dataclasses.fields(of)
        if isinstance(field.default, str | int | float | bool)
        or (
            isinstance(field.default, tuple)
            and all(isinstance(item, str) for item in field.default)
        )
    }
