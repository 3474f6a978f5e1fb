"""What variables the debug information of a cubin names, function by function: what a debugger can show of a kernel (DWARF 2 to 5)."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tilec_runtime.bundle.cubin import section
from tilec_runtime.errors import BundleError

_FUNCTION, _PARAMETER, _VARIABLE = 0x2E, 0x05, 0x34
_NAME, _CONSTANT = 0x03, 0x21  # attribute DW_AT_name; form DW_FORM_implicit_const, whose value stands in the abbreviation
_SIZES = {  # forms of a fixed size, by that size
    0: (0x19, _CONSTANT),
    1: (0x0B, 0x0C, 0x11),
    2: (0x05, 0x12),
    4: (0x06, 0x0E, 0x10, 0x13, 0x17, 0x1F),
    8: (0x01, 0x07, 0x14, 0x20),
}
_FIXED = {form: size for size, forms in _SIZES.items() for form in forms}
_STRING, _LINKED_STRING, _LINE_STRING = 0x08, 0x0E, 0x1F
_BLOCKS = {0x0A: "<B", 0x03: "<H", 0x04: "<I"}
_LONG_BLOCKS = (0x09, 0x18)
_NUMBERS = (0x0D, 0x0F, 0x15)

_Abbreviation = tuple[int, bool, tuple[tuple[int, int], ...]]  # tag, whether children follow, (attribute, form) of each


def variables(cubin: bytes) -> Mapping[str, tuple[str, ...]]:
    """Names of parameters and variables by function, in the order of the code; of code that knows none, nothing."""
    try:
        reader = _Reader(cubin)
    except BundleError:
        return {}
    try:
        reader.read()
    except (struct.error, IndexError, KeyError, ValueError):
        return {}  # a debugger would not read it either
    return {name: tuple(dict.fromkeys(found)) for name, found in reader.found.items() if found}


class _Reader:
    def __init__(self, cubin: bytes) -> None:
        self._data = section(cubin, ".debug_info")
        self._abbreviations = section(cubin, ".debug_abbrev")
        self._texts = {_LINKED_STRING: section(cubin, ".debug_str"), _LINE_STRING: section(cubin, ".debug_line_str")}
        self.found: dict[str, list[str]] = {}

    def read(self) -> None:
        """Every unit."""
        at = 0
        while at + 11 <= len(self._data):
            length, version = struct.unpack_from("<IH", self._data, at)
            if version >= 5:
                (table,) = struct.unpack_from("<I", self._data, at + 8)
                first = at + 12
            else:
                (table,) = struct.unpack_from("<I", self._data, at + 6)
                first = at + 11
            self._unit(first, at + 4 + length, _abbreviations(self._abbreviations, table))
            at += 4 + length

    def _unit(self, at: int, end: int, known: Mapping[int, _Abbreviation]) -> None:
        nested: list[str] = []  # for each level the function that it is in
        while at < min(end, len(self._data)):
            code, at = _number(self._data, at)
            if not code:
                nested[-1:] = []
                continue
            tag, children, attributes = known[code]
            name = ""
            for attribute, form in attributes:
                value, at = self._value(form, at)
                name = value if attribute == _NAME else name
            inside = name if tag == _FUNCTION else nested[-1] if nested else ""
            if tag in (_PARAMETER, _VARIABLE) and inside and name:
                self.found.setdefault(inside, []).append(name)
            if children:
                nested.append(inside)

    def _value(self, form: int, at: int) -> tuple[str, int]:
        """(text of a value, empty for what is none, the place behind it)."""
        if form == _STRING:
            end = self._data.index(b"\0", at)
            return self._data[at:end].decode("utf-8", "replace"), end + 1
        if form in self._texts:
            (offset,) = struct.unpack_from("<I", self._data, at)
            text = self._texts[form]
            return text[offset : text.index(b"\0", offset)].decode("utf-8", "replace"), at + 4
        if form in _BLOCKS:
            (size,) = struct.unpack_from(_BLOCKS[form], self._data, at)
            return "", at + struct.calcsize(_BLOCKS[form]) + size
        if form in _LONG_BLOCKS:
            size, at = _number(self._data, at)
            return "", at + size
        if form in _NUMBERS:
            return "", _number(self._data, at)[1]
        return "", at + _FIXED[form]


def _abbreviations(data: bytes, at: int) -> dict[int, _Abbreviation]:
    found: dict[int, _Abbreviation] = {}
    while True:
        code, at = _number(data, at)
        if not code:
            return found
        tag, at = _number(data, at)
        children, at = bool(data[at]), at + 1
        attributes = []
        while True:
            attribute, at = _number(data, at)
            form, at = _number(data, at)
            if form == _CONSTANT:
                at = _number(data, at)[1]
            if not (attribute or form):
                break
            attributes.append((attribute, form))
        found[code] = (tag, children, tuple(attributes))


def _number(data: bytes, at: int) -> tuple[int, int]:
    """(a number of variable length, the place behind it)."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
