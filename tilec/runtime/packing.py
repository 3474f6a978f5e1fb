"""Kernel arguments: a plan packs what changes from launch to launch into one block, next to what stays the same."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from tilec.errors import LayoutError
from tilec.model.dtype import DTYPES
from tilec.model.expr import parse
from tilec.model.signature import AbiSlot, ParamKind
from tilec.runtime.checks import Call
from tilec.runtime.scalars import encoder_of, format_of

_POINTER = 8

# What helps where an extent or a stride is beyond what a kernel counts in.
WIDER = "pass parts of the tensor whose extents and strides fit, or build the kernel with 64-bit ones (`ct.IndexedWithInt64`, `i64(…)`)"


class Block:
    """Memory for the arguments of one launch in flight: values, and the array of their addresses that the driver reads.

    Attributes:
        values: the bytes. address: of the array.
    """

    __slots__ = ("_array", "_pin", "address", "values")

    def __init__(self, template: bytes, offsets: tuple[int, ...]) -> None:
        """Lay out a block: `template` holds the values that stay, `offsets` say where each kernel argument is."""
        self.values = bytearray(template or 1)  # a kernel may take nothing
        self._pin = (ctypes.c_char * len(self.values)).from_buffer(self.values)  # while it lives, the bytearray cannot move
        base = ctypes.addressof(self._pin)
        self._array = (ctypes.c_void_p * max(len(offsets), 1))(*[base + offset for offset in offsets])
        self.address = ctypes.addressof(self._array)


class Packing:
    """How one plan packs its arguments.

    Attributes:
        pack: the struct's `pack_into`: tensor addresses in order, then the free values in order.
        unranged: (place, dtype) of scalars whose range packing does not check, since no argument of the kernel has their dtype.
    """

    __slots__ = ("_encoders", "_free", "_offsets", "_template", "pack", "unranged")

    def __init__(self, call: Call, abi: tuple[AbiSlot, ...], ordinal: int) -> None:
        """Lay out the arguments of a checked call on a device.

        Raises:
            LayoutError: a computed argument does not fit its slot.
        """
        contract = call.contract
        layout = _Layout()
        placed: dict[tuple[str, str], int] = {}
        for place in contract.tensors:
            name = contract.params[place].name
            placed[name, "ptr"] = layout.add("Q", _POINTER, _POINTER)
        free: list[int] = []
        encode: list[Callable[[Any], Any] | None] = []
        for slot in abi:
            name = slot.expr.strip()
            place = contract.index.get(name, -1)
            if place < 0 or place in contract.keyed or (name, slot.type) in placed:
                continue
            struct_slot = contract.params[place].kind is ParamKind.STRUCT
            placed[name, slot.type] = layout.add(f"{slot.size}s" if struct_slot else format_of(slot.type), slot.size, slot.align)
            free.append(place)
            encode.append(_struct_encoder(slot.size) if struct_slot else encoder_of(slot.type))
        head = layout.format
        constants: list[tuple[int, bytes]] = []
        offsets: list[int] = []
        maps: list[tuple[int, Callable[[int], bytes], int]] = []
        for slot in abi:
            name = slot.expr.strip()
            if slot.type.startswith("tensormap:"):
                from tilec.runtime.tensormaps import encoder  # few kernels take any

                offsets.append(layout.reserve(slot.size, slot.align))
                maps.append((*encoder(call, slot, ordinal), offsets[-1]))
                continue
            if slot.scratch:  # whoever enqueues the launch writes the address
                offsets.append(layout.reserve(slot.size, slot.align))
                continue
            known = placed.get((name.removesuffix(".ptr"), "ptr")) if name.endswith(".ptr") else placed.get((name, slot.type))
            if known is None:
                known = layout.reserve(slot.size, slot.align)
                constants.append((known, _constant(call, slot)))
            offsets.append(known)
        template = bytearray(layout.size)
        for offset, data in constants:
            template[offset : offset + len(data)] = data
        scalars = [(i, contract.dtype_of(contract.params[i], call.axes)) for i in contract.others if i not in contract.keyed]
        self.unranged = tuple((i, dtype) for i, dtype in scalars if dtype in DTYPES and (contract.params[i].name, dtype) not in placed)
        self._template = bytes(template)
        self._offsets = tuple(offsets)
        self._free = tuple(free)
        self._encoders = tuple(encode)
        self.pack: Callable[..., None] = struct.Struct(head).pack_into
        if maps:
            from tilec.runtime.tensormaps import with_maps

            self.pack = with_maps(self.pack, maps)

    def block(self) -> Block:
        """Memory for one more launch in flight."""
        return Block(self._template, self._offsets)

    def numbers(self, values: tuple[Any, ...]) -> list[Any]:
        """The values that `pack` takes behind the addresses, encoded for its format."""
        pairs = zip(self._free, self._encoders, strict=True)
        return [values[place] if encode is None else encode(values[place]) for place, encode in pairs]


class _Layout:
    """Places values one after another, each aligned; collects the struct format of those that are packed at each launch."""

    def __init__(self) -> None:
        self.format = "="  # standard sizes, no padding but what is written here
        self.size = 0

    def reserve(self, size: int, align: int) -> int:
        offset = -(-self.size // align) * align
        self.size = offset + size
        return offset

    def add(self, code: str, size: int, align: int) -> int:
        before = self.size
        offset = self.reserve(size, align)
        if offset > before:
            self.format += f"{offset - before}x"
        self.format += code
        return offset


def _constant(call: Call, slot: AbiSlot) -> bytes:
    """Bytes of an argument that the plan's facts determine."""
    value = call.evaluate(parse(slot.expr))
    code, encode = format_of(slot.type), encoder_of(slot.type)
    try:
        return struct.pack(f"={code}", encode(value) if encode else value)
    except (struct.error, OverflowError, TypeError) as error:
        name = call.contract.name
        what = f"{name}: {slot.expr} is {value!r}, which the kernel's {slot.type} cannot hold"
        raise LayoutError(what, fix=WIDER, kernel=name) from error


def _struct_encoder(size: int) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        data = memoryview(value).tobytes()
        if len(data) != size:  # the struct module would cut or pad it silently
            raise struct.error(f"{len(data)} bytes")
        return data

    return encode
