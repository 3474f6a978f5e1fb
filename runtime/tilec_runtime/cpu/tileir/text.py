"""A printer for Tile IR, in a form similar to NVIDIA's tools.

Each operation is printed with its location, under its source line.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tilec_runtime.cpu.tileir.faults import fitting
from tilec_runtime.cpu.tileir.ir import (
    Attribute,
    Block,
    Bounded,
    DivBy,
    Function,
    Global,
    HintsAttr,
    Loc,
    MemoryScope,
    Module,
    NumberAttr,
    Op,
    Overflow,
    Pointer,
    Rounding,
    SameElements,
    Scalar,
    Tile,
    Type,
    Value,
    type_text,
)
from tilec_runtime.cpu.tileir.text_forms import FORMS
from tilec_runtime.cpu.tileir.values import Array, elements, scalar

Sources: TypeAlias = "Mapping[str, Sequence[str]]"

_INDENT = "  "
_SHOWN = 16  # elements of a constant to print; a larger constant shows half as many
_FIELD = re.compile(r"\{([^{}:]+)(?::(\w))?\}")
_PART = re.compile(rf"\[\[(.*?)\]\]|{_FIELD.pattern}")
_USUAL = {
    "exp": Rounding.FULL,
    "tanh": Rounding.FULL,
    "divi": Rounding.ZERO,
    "ftoi": Rounding.NEAREST_INT_TO_ZERO,
}
_PROMISES = {
    Overflow.NSW: "no_signed_wrap",
    Overflow.NUW: "no_unsigned_wrap",
    Overflow.NW: "no_wrap",
}
_SCOPES = {
    MemoryScope.TILE_BLOCK: "tl_blk",
    MemoryScope.DEVICE: "device",
    MemoryScope.SYSTEM: "sys",
}
_FLAGS = {"unsigned_cmp": "unsigned"}
_QUIET = frozenset({"yield", "continue"})  # omitted without values: the end of a block implies them


def render(module: Module, sources: Sources | None = None) -> str:
    """Format a module.

    Args:
        module: module to print.
        sources: lines of source files by their names in the debug information; operations are
            printed under their source line if it is given.

    Raises:
        TileIRError: an operation does not fit its operands.
    """
    by = f", by {module.producer}" if module.producer else ""
    lines = [f"// Tile IR {module.version[0]}.{module.version[1]}{by}"]
    for variable in module.globals:
        with fitting(f"global {variable.name}"):
            lines.append(_variable(variable))
    for function in module.functions:
        shown = _Printer(function, sources or {}).lines()
        lines += [
            "",
            *(f"{line.text}  // {line.place}" if line.place else line.text for line in shown),
        ]
    return "\n".join(lines) + "\n"


def located(module: Module) -> Iterator[tuple[str, Loc | None]]:
    """Yield the lines of a module's functions with their source locations.

    Raises:
        TileIRError: an operation does not fit its operands.
    """
    for function in module.functions:
        for line in _Printer(function, {}).lines():
            yield line.text, line.loc


def op_text(op: Op) -> str:
    """Format an operation on one line, without its nested blocks."""
    named = ", ".join(map(_name, op.results))
    return f"{named} = {_after_name(op)}" if named else _after_name(op)


def place_text(loc: Loc | None) -> str:
    """Format a location as `file:line:column` with its call sites; empty if unknown."""
    frames = []
    while loc is not None:
        frames.append(f"{loc.file}:{loc.line}:{loc.column}")
        loc = loc.caller
    return ", called at ".join(frames)


class _Line(NamedTuple):
    """A line: text, location for a trailing comment, and the location itself."""

    text: str
    place: str = ""
    loc: Loc | None = None


class _Printer:
    """Prints one function."""

    def __init__(self, function: Function, sources: Sources) -> None:
        self._function = function
        self._sources = sources
        self._line: tuple[str, int] | None = None  # the last printed source line

    def lines(self) -> Iterator[_Line]:
        """Yield the lines of the function."""
        function = self._function
        hints = f" optimization_hints=<{_hints(function.hints)}>" if function.hints else ""
        results = ", ".join(map(type_text, function.signature.results))
        kind = "entry" if function.entry else "function"
        params = _typed(function.body.args)
        head = f"{kind} @{function.name}({params}){f' -> ({results})' if results else ''}{hints} {{"
        yield _Line(head, place_text(function.loc), function.loc)
        with fitting(f"function {function.name}"):
            yield from self._block(function.body, _INDENT)
        yield _Line("}")

    def _block(self, block: Block, indent: str) -> Iterator[_Line]:
        for op in block.ops:
            if _goes_without_saying(op):
                continue
            yield from self._source(op.loc, indent)
            yield _Line(f"{indent}{op_text(op)}{_opening(op)}", self._place(op.loc), op.loc)
            for number, region in enumerate(op.regions):
                if number and not _says_nothing(region):
                    yield _Line(f"{indent}}} else {{")
                yield from self._block(region, indent + _INDENT)
            if op.regions:
                yield _Line(f"{indent}}}")

    def _source(self, loc: Loc | None, indent: str) -> Iterator[_Line]:
        """Yield the source line of an operation if it differs from the last one."""
        shown = self._shown(loc)
        if shown is not None and (shown.file, shown.line) != self._line:
            self._line = (shown.file, shown.line)
            yield _Line(f"{indent}// {shown.file}:{shown.line} | {self._source_line(shown)}")

    def _shown(self, loc: Loc | None) -> Loc | None:
        """Return the innermost of a location and its callers with a known source line."""
        while loc is not None and not self._source_line(loc):
            loc = loc.caller
        return loc

    def _source_line(self, loc: Loc) -> str:
        text = self._sources.get(loc.file, ())
        return text[loc.line - 1].strip() if 0 < loc.line <= len(text) else ""

    def _place(self, loc: Loc | None) -> str:
        """Format an operation's location, without the file under a source line."""
        if loc is None or self._shown(loc) is not loc:
            return place_text(loc)
        called = f", called at {place_text(loc.caller)}" if loc.caller else ""
        return f"{loc.line}:{loc.column}{called}"


def _variable(variable: Global) -> str:
    words = [
        word
        for word, holds in (("private", variable.private), ("constant", variable.constant))
        if holds
    ]
    alignment = f" alignment = {variable.alignment}" if variable.alignment else ""
    return " ".join(
        [
            "global",
            *words,
            f"@{variable.name}",
            f"{_constant(variable.type, variable.data)}{alignment} :",
        ]
    ) + (f" {type_text(variable.type)}")


def _goes_without_saying(op: Op) -> bool:
    return op.name in _QUIET and not op.operands["values"]


def _says_nothing(block: Block) -> bool:
    return all(map(_goes_without_saying, block.ops))


def _opening(op: Op) -> str:
    if not op.regions:
        return ""
    # The form of a loop already has the arguments of its block.
    args = f" ({_typed(op.regions[0].args)})" if op.name in ("reduce", "scan") else ""
    return f"{args} {{"


def _after_name(op: Op) -> str:
    def field(match: re.Match[str]) -> str:
        return _field(op, match[1], match[2] or "")

    def part(match: re.Match[str]) -> str:
        if match[1] is None:
            return _field(op, match[2], match[3] or "")
        inner = [_field(op, name, form) for name, form in _FIELD.findall(match[1])]
        return _FIELD.sub(field, match[1]) if all(inner) else ""

    return f"{op.name} {_PART.sub(part, FORMS[op.name])}".rstrip()


def _field(op: Op, name: str, form: str) -> str:
    if name.startswith("@"):
        return _arguments(op, int(name[1:]))
    if name.startswith(">"):
        return _types([value.type for value in (op.results if name == ">" else op.results[:1])])
    if name == "dynamic":
        return _types(_dynamic(op))
    if form == "x":
        return _extents(op, name)
    if name in op.operands:
        values = op.operands[name]
        if not form:
            return ", ".join(map(_name, values))
        kinds = [value.type for value in values]
        return _types(
            kinds[:1] if form == "i" and all(kind == kinds[0] for kind in kinds) else kinds
        )
    return attribute_text(op, name)


def _dynamic(op: Op) -> list[Type]:
    """Return the types that a tensor view's type does not imply.

    These are the type of its dynamic extents, and that of its base if it has an attribute.
    """
    base = op.operand("base").type
    marked = (
        isinstance(base, Tile)
        and isinstance(base.element, Pointer)
        and base.element.attribute is not None
    )
    extents = [*op.operands["shape"], *op.operands["strides"]]
    return ([base] if marked else []) + [value.type for value in extents[:1]]


def _arguments(op: Op, start: int) -> str:
    """Format a loop block's arguments from `start`: a counter, or carried values.

    Carried values are printed with their initial values.
    """
    args = op.regions[0].args
    if op.name == "for" and start == 0:
        return _name(args[0])
    return ", ".join(
        f"{_name(arg)} = {_name(init)}"
        for arg, init in zip(args[start:], op.operands["init"], strict=True)
    )


def _extents(op: Op, name: str) -> str:
    """Format extents or strides of a tensor view: numbers if known, values otherwise."""
    given = iter(op.operands[name])
    known: tuple[int | None, ...] = getattr(op.results[0].type, name)
    return (
        "["
        + ", ".join(_name(next(given)) if extent is None else str(extent) for extent in known)
        + "]"
    )


def attribute_text(op: Op, name: str) -> str:
    """Format an attribute; empty if it has the usual value."""
    value = op.attributes.get(name)
    match value:
        case None:
            return ""
        case bool():
            return (
                str(value).lower() if name == "reverse" else _FLAGS.get(name, name) if value else ""
            )
        case bytes():
            kind = op.results[0].type
            assert isinstance(kind, Tile)
            return _constant(kind, value)
        case str():
            return value if name == "name" else _quoted(value)
        case Rounding():
            return (
                ""
                if value is _USUAL.get(op.name, Rounding.NEAREST_EVEN)
                else f"rounding<{value.name.lower()}>"
            )
        case Overflow():
            return f"overflow<{_PROMISES[value]}>" if value in _PROMISES else ""
        case tuple():
            return f"[{', '.join(map(_plain, value))}]" if name != "inbounds" or any(value) else ""
    return _plain(value)


def _plain(value: Attribute) -> str:
    match value:
        case bool():
            return str(value).lower()
        case MemoryScope():
            return _SCOPES[value]
        case Scalar():
            return value.text
        case enum.Enum():
            return value.name.lower()
        case NumberAttr():
            return f"{_element(scalar(value))} : {value.type}"
        case DivBy(divisor, every, along):
            return f"div_by<{divisor}{'' if every is None else f', every {every} along {along}'}>"
        case Bounded(lower, upper):
            return f"bounded<{'?' if lower is None else lower}, {'?' if upper is None else upper}>"
        case SameElements(groups):
            return f"same_elements<[{', '.join(map(str, groups))}]>"
        case HintsAttr():
            return f"<{_hints(value)}>"
    return str(value)


def _hints(hints: HintsAttr) -> str:
    parts = []
    for arch, attributes in sorted(hints.by_arch.items()):
        named = attributes.items() if isinstance(attributes, Mapping) else ()
        inner = ", ".join(f"{name} = {_hint(value)}" for name, value in sorted(named))
        parts.append(f"{arch} = {{{inner}}}")
    return ", ".join(parts)


def _hint(value: Attribute) -> str:
    return str(value.bits) if isinstance(value, NumberAttr) else _plain(value)


def _constant(kind: Tile, data: bytes) -> str:
    shown = elements(kind, data)
    first = shown.reshape(-1)[:1]
    if shown.size == 1 or shown.strides == (0,) * shown.ndim or _alike(shown):
        return f"<{type_text(kind.element)}: {_element(first)}>"
    if shown.size <= _SHOWN:
        return f"<{type_text(kind.element)}: {_nested(shown)}>"
    listed = ", ".join(_element(item) for item in shown.reshape(-1)[: _SHOWN // 2])
    return f"<{type_text(kind.element)}: {listed}, ... {shown.size} in all>"


def _alike(array: Array) -> bool:
    # Compare bits, so that NaNs are equal and -0 differs from +0.
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    return bool((raw == raw[0]).all())


def _nested(array: Array) -> str:
    return f"[{', '.join(_nested(part) for part in array)}]" if array.ndim else _element(array)


def _element(array: Array) -> str:
    item = array.reshape(())
    return str(bool(item)).lower() if item.dtype == np.bool_ else str(item)


def _quoted(text: str) -> str:
    return (
        '"'
        + "".join(
            char if char.isprintable() and char not in '"\\' else f"\\{ord(char):02X}"
            for char in text
        )
        + '"'
    )


def _name(value: Value) -> str:
    return f"%{value.index}"


def _typed(values: Sequence[Value]) -> str:
    return ", ".join(f"{_name(value)}: {type_text(value.type)}" for value in values)


def _types(kinds: Sequence[Type]) -> str:
    return ", ".join(map(type_text, kinds))
