"""Values in a few words, for traces: pointers by parameter and element, so that two runs can be compared."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilec_runtime.cpu.tileir.elements import UPPER
from tilec_runtime.cpu.tileir.ir import Function, Op, Pointer, TensorView, Tile, Value
from tilec_runtime.cpu.tileir.layout import layout
from tilec_runtime.cpu.tileir.text import attribute_text
from tilec_runtime.cpu.tileir.typenames import type_text
from tilec_runtime.cpu.tileir.views import Tensor

if TYPE_CHECKING:
    from tilec_runtime.cpu.tileir.memory import Memory, Region

_SHOWN = 6  # elements of a tile in a line


class Places:
    """Names addresses of one launch: `x+16` is the sixteenth element behind the start of x."""

    def __init__(self, function: Function, arguments: Sequence[Any], memory: Memory) -> None:
        """Find out which parameter pointers come from.

        Args:
            function: the kernel.
            arguments: of the launch.
            memory: what it may touch.
        """
        self._memory = memory
        self._roots: dict[int, Region] = {}  # by number of a value
        for parameter, argument in zip(function.body.args, arguments, strict=True):
            if _points(parameter) and (region := self._own(int(argument))) is not None:
                self._roots[parameter.index] = region
        for op in function.walk():
            self._follow(op)

    def _own(self, address: int) -> Region | None:
        """The region of the next parameter that points here: the same memory may be given for several, and each has its name."""
        used = {region.name for region in self._roots.values()}
        held = (region for region in self._memory.regions if region.address <= address < region.end and region.name not in used)
        return next(held, None) or self._memory.find(address)

    def _follow(self, op: Op) -> None:
        """What is made of one pointer points into the same memory, even where it is out of its bounds."""
        sources = [value for values in op.operands.values() for value in values if _points(value)]
        if not op.regions and len(sources) == 1 and (region := self._roots.get(sources[0].index)) is not None:
            self._roots.update((result.index, region) for result in op.results if _points(result))

    def name(self, value: Value, address: Any, size: int, packed: bool = False) -> str:
        """An address that a value holds, counted in elements of so many bytes."""
        address = int(address)
        plain = address & ~UPPER if packed else address
        region = self._roots.get(value.index) or self._memory.find(plain)
        if region is None:
            return f"{address:#x}"
        away = plain - region.address - region.origin
        if packed:
            return f"{region.name}{2 * away + (plain != address):+d}"
        return f"{region.name}{away // size:+d}" if away % size == 0 else f"{region.name}{away:+d} bytes"


def words(op: Op) -> str:
    """An operation's name and what its attributes say, but for data: `cmpi less_than signed`."""
    said = (attribute_text(op, name) for name, value in op.attributes.items() if not isinstance(value, bytes))
    return " ".join([op.name, *filter(None, said)])


def short(item: Any, value: Value | None = None, places: Places | None = None) -> str:
    """A value in a few words: type, shape and first elements."""
    if isinstance(item, Tensor):
        base, tensor = int(item.base[0]), _tensor(value)
        where = f"{base:#x}"
        if value is not None and places is not None and tensor is not None:
            form = layout(tensor.element)
            where = places.name(value, base, form.size, form.packed)
        return f"tensor {tuple(item.extents[0].tolist())} at {where}"
    if not isinstance(item, np.ndarray):
        return type(item).__name__
    kind = str(item.dtype)
    show: Callable[[Any], str] = _element
    if value is not None and places is not None and isinstance(value.type, Tile) and isinstance(value.type.element, Pointer):
        kind, form = type_text(value.type.element), layout(value.type.element.pointee)
        show = functools.partial(places.name, value, size=form.size, packed=form.packed)
    if item.ndim == 0:
        return f"{kind} {show(item)}"
    first = ", ".join(show(part) for part in item.reshape(-1)[:_SHOWN])
    more = ", ..." if item.size > _SHOWN else ""
    return f"{kind}[{'x'.join(map(str, item.shape))}] {first}{more}"


def _points(value: Value) -> bool:
    return _tensor(value) is not None or (isinstance(value.type, Tile) and isinstance(value.type.element, Pointer))


def _tensor(value: Value | None) -> TensorView | None:
    """The tensor that a view is of."""
    kind = None if value is None else value.type
    return kind if isinstance(kind, TensorView) else getattr(kind, "tensor", None)


def _element(item: Any) -> str:
    return f"{float(item):.6g}" if np.asarray(item).dtype.kind not in "biu" else str(item)
