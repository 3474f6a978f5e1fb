"""Tables of the manifest: fixed keys with their docs, and free names with one shape for all."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from tilec.manifest.problems import Problems
from tilec.manifest.scan import Path
from tilec.manifest.shapes import BAD, Shape
from tilec_runtime.model.suggest import nearest


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Key:
    """One key of a table."""

    name: str
    shape: Shape
    doc: str
    required: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Names:
    """Free names of a table: what they must look like, and the shape of what they name."""

    pattern: str
    what: str
    shape: Shape
    doc: str = ""
    choices: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Table(Shape):
    """A table with fixed keys, free names, or both.

    `read` gives a dict of what was read; `made` names the dataclass that it becomes, which has the
    defaults.
    """

    keys: tuple[Key, ...] = ()
    names: Names | None = None
    made: type | None = None
    least: int = 0
    by_name: dict[str, Key] = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Index the keys."""
        object.__setattr__(self, "by_name", {key.name: key for key in self.keys})

    word = "a table"
    accepts = (dict,)

    def of(self, value: dict[str, Any], path: Path, problems: Problems) -> Any:
        """Return what is in the table, by key; keys that were reported are left out."""
        found: dict[str, Any] = {}
        for name, item in value.items():
            inner = (*path, name)
            key = self.by_name.get(name)
            shape = key.shape if key else self._free(name, inner, problems)
            read = shape.read(item, inner, problems) if shape else BAD
            if read is not BAD:
                found[name] = read
        for key in self.keys:
            if key.required and key.name not in value:
                problems.add(path, f"{key.name!r} is missing", at_key=True)
        if len(value) < self.least:
            problems.add(path, "is empty", at_key=True)
        return found

    def make(self, found: dict[str, Any], **more: Any) -> Any:
        """The dataclass of what was read."""
        if self.made is None:
            raise TypeError("the table has no dataclass")
        return self.made(**{name.replace("-", "_"): value for name, value in found.items()}, **more)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the table, with the defaults of its dataclass."""
        defaults = _defaults(self.made) if self.made else {}
        properties: dict[str, Any] = {}
        for key in self.keys:
            properties[key.name] = {**key.shape.schema(), "description": key.doc}
            default = defaults.get(key.name)
            value = list(default) if isinstance(default, tuple) else default
            if (
                value not in (None, "", [])
                and not key.required
                and _may_be_written(value, key.shape)
            ):
                properties[key.name]["default"] = value
        found: dict[str, Any] = {"type": "object"}
        if properties:
            found["properties"] = properties
        required = [key.name for key in self.keys if key.required]
        if required:
            found["required"] = required
        if self.least:
            found["minProperties"] = self.least
        if self.names:
            inner = self.names.shape.schema()
            found["patternProperties"] = {
                self._free_pattern(): {**inner, "description": self.names.doc}
                if self.names.doc
                else inner
            }
        found["additionalProperties"] = False
        return found

    def _free_pattern(self) -> str:
        pattern = self.names.pattern if self.names else ""
        # Fixed keys that look like free names keep their own shape only.
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
        near = nearest(name, [*known, *(self.names.choices if self.names else ())])
        if near:
            return f"; did you mean {near!r}"
        for key in self.keys:
            inner = nearest(name, key.shape.by_name) if isinstance(key.shape, Table) else ""
            if inner:
                return f"; did you mean '{key.name}.{inner}'"
        return f"; known are {', '.join(known)}" if known else ""


def _may_be_written(value: Any, shape: Shape) -> bool:
    """Whether a default is a value of its key; some stand for the key's absence."""
    problems = Problems()
    shape.read(value, (), problems)
    return not problems.found


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
