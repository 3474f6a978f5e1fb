"""`print_tko`: formats values as C's printf does; a tile is printed as nested lists of its elements."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.faults import location
from tilec_runtime.cpu.tileir.frame import Binder, Body, Frame, Step
from tilec_runtime.cpu.tileir.ir import Block, Op, Pointer, Scalar, Tile, Value
from tilec_runtime.cpu.tileir.values import Array
from tilec_runtime.errors import TileIRError

_SPECIFIER = re.compile(r"%(?:%|([0 #+-]*)([0-9]+)?(?:\.([0-9]+))?(?:hh|h|ll|l)?([A-Za-z]))")
_INTEGERS, _UNSIGNED, _FLOATS = "diuoxX", "uoxX", "eEfFgG"


def _print(op: Op, _bodies: Callable[[Block], Body]) -> Step:
    literals, formats = _parse(op)
    args, results = op.operands.get("args", ()), op.results

    def step(frame: Frame) -> None:
        held = [frame.get(arg) for arg in args]
        for row, number in enumerate(frame.blocks.tolist()):
            text = literals[0]
            for item, show, literal in zip(held, formats, literals[1:], strict=True):
                text += _tile(item[row if item.shape[0] > 1 else 0], show) + literal
            if frame.batch is not None:
                frame.batch.printed.append((number, text))
            else:
                frame.launch.output(text)
        for result in results:
            frame.set(result, None)

    return step


def _parse(op: Op) -> tuple[list[str], list[Callable[[Any], str]]]:
    """The text around the values, and what formats an element of each."""
    text, args = str(op.attributes["text"]), op.operands.get("args", ())
    literals, end = [""], 0
    formats: list[Callable[[Any], str]] = []
    for found in _SPECIFIER.finditer(text):
        literals[-1] += text[end : found.start()]
        end = found.end()
        if found.group() == "%%":
            literals[-1] += "%"
            continue
        if len(formats) == len(args):
            raise _wrong(op, f"has more places for values than its {len(args)} values")
        formats.append(_format(op, found, args[len(formats)]))
        literals.append("")
    if len(formats) != len(args):
        raise _wrong(op, f"has {len(formats)} places for its {len(args)} values")
    literals[-1] += text[end:]
    return literals, formats


def _format(op: Op, found: re.Match[str], arg: Value) -> Callable[[Any], str]:
    flags, width, precision, kind = (part or "" for part in found.groups())
    if not isinstance(arg.type, Tile):
        raise _wrong(op, "is given something that is no tile")
    element = arg.type.element
    precise = f".{precision}" if found.group(3) is not None else ""
    if kind in _INTEGERS:
        spec = f"%{flags}{width}{precise}{'d' if kind in 'iu' else kind}"
        bits = 64 if isinstance(element, Pointer) else element.bits
        mask = (1 << bits) - 1 if kind in _UNSIGNED or element is Scalar.I1 else None
        return lambda item: spec % (int(item) if mask is None else int(item) & mask)
    if kind in _FLOATS:
        spec = f"%{flags}{width}{precise}{kind}"
        return lambda item: spec % float(item)
    if kind in "aA":
        digits = int(precision) if precise else None
        case = str.upper if kind == "A" else str
        fit = str.ljust if "-" in flags else str.rjust
        return lambda item: fit(case(_hexadecimal(float(item), digits)), int(width or 0))
    raise _wrong(op, f"has the format {found.group()}, which is for neither integers nor floating point numbers")


def _hexadecimal(number: float, digits: int | None) -> str:
    """A number as C's %a writes it: as many digits as it needs, or as were asked for."""
    text = number.hex()
    if "p" not in text:
        return text
    head, _, rest = text.partition(".")
    fraction, _, exponent = rest.partition("p")
    if digits is not None and digits < len(fraction):
        whole = round(int(head[-1] + fraction, 16) / 16 ** (len(fraction) - digits))
        shown = f"{whole:0{digits + 1}x}"
        head, fraction = head[:-1] + shown[: len(shown) - digits], shown[len(shown) - digits :]
    fraction = fraction.rstrip("0") if digits is None else fraction.ljust(digits, "0")
    return f"{head}{'.' if fraction else ''}{fraction}p{exponent}"


def _tile(held: Array, show: Callable[[Any], str]) -> str:
    if held.ndim == 0:
        return show(held.item() if held.dtype.kind in "biuf" else np.float64(held))
    return f"[{', '.join(_tile(part, show) for part in held)}]"


def _wrong(op: Op, what: str) -> TileIRError:
    return TileIRError(f"print_tko {what}: {op.attributes['text']!r}", location=location(op))


BINDERS: dict[str, Binder] = {"print_tko": _print}
