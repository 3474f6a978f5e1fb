"""Kernel arguments: a plan packs what changes from launch to launch into one block, next to what
stays the same.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilec_runtime.device.scalars import encoder_of, format_of, numpy_dtype
from tilec_runtime.errors import LayoutError
from tilec_runtime.launch.checks import Call
from tilec_runtime.model.expr import parse
from tilec_runtime.model.signature import AbiSlot, ParamKind
from tilec_runtime.model.tensormap import SIZE as MAP_SIZE

_POINTER = 8

# What helps where an extent or a stride is beyond what a kernel counts in.
WIDER = "pass parts of the tensor whose extents and strides fit, or build the kernel with 64-bit ones (`ct.IndexedWithInt64`, `i64(…)`)"


class Block:
    """Memory for the arguments of one launch in flight: values, and the array of their addresses
    that the driver reads.

    Attributes:
        values: the bytes. address: of the array.
    """

    __slots__ = ("_array", "_pin", "address", "values")

    def __init__(self, template: bytes, offsets: tuple[int, ...]) -> None:
        """Lay out a block: `template` holds the values that stay, `offsets` say where each kernel
        argument is.
        """
        self.values = bytearray(template or 1)  # a kernel may take nothing
        self._pin = (ctypes.c_char * len(self.values)).from_buffer(
            self.values
        )  # while it lives, the bytearray cannot move
        base = ctypes.addressof(self._pin)
        self._array = (ctypes.c_void_p * max(len(offsets), 1))(
            *[base + offset for offset in offsets]
        )
        self.address = ctypes.addressof(self._array)


Fixed = bytes | tuple[int, Callable[[int], bytes]]


def fixed_parts(call: Call, abi: tuple[AbiSlot, ...], ordinal: int) -> dict[int, Fixed]:
    """Arguments that a call's extents, strides and deciding numbers determine, by place: bytes, or
    what makes a tensor map of an address.

    Raises:
        LayoutError: a computed argument does not fit its slot, or no map can be made of a tensor.
    """
    contract, found = call.contract, dict[int, Fixed]()
    for number, slot in enumerate(abi):
        if slot.type.startswith("tensormap:"):
            from tilec_runtime.launch.tensormaps import encoder  # few kernels take any

            found[number] = encoder(call, slot, ordinal)
        elif not slot.scratch and (
            contract.computes(slot) or contract.index.get(slot.expr.strip()) in contract.keyed
        ):
            found[number] = _constant(call, slot)
    return found


Patch = tuple[int, int, int, int, str]
ADDRESS, OUTPUT, SCALAR = range(3)


class Packing:
    """How one plan packs its arguments.

    Attributes:
        template: the bytes of all values, of which some stay. offsets: of each kernel argument.
        patches: (kind, source, offset, size, format) of the values that a launch writes: a tensor's
            `ADDRESS`, an `OUTPUT` of the program, a `SCALAR` of the call. The format is that of the
            struct module, or the name of a small float.
    """

    __slots__ = ("_maps", "offsets", "patches", "template")

    def __init__(
        self,
        call: Call,
        abi: tuple[AbiSlot, ...],
        fixed: Mapping[int, Fixed],
        arguments: Mapping[tuple[str, str], int],
    ) -> None:
        """Lay out the arguments of a checked call.

        Args:
            call: the call.
            abi: the entry point's arguments.
            fixed: of `fixed_parts`.
            arguments: outputs of the plan's program, by (expression, type) of the arguments.
        """
        layout, placed = _Layout(), dict[tuple[str, str], int]()
        contract = call.contract
        for number, place in enumerate(contract.tensors):
            placed[f"{contract.params[place].name}.ptr", "ptr"] = layout.add(
                ADDRESS, number, "Q", _POINTER, _POINTER
            )
        for place, kind, size, align in _scalars(call, abi):
            placed[contract.params[place].name, kind] = layout.add(
                SCALAR, place, _format(kind, size), size, align
            )
        for key, output in arguments.items():
            size = next(slot.size for slot in abi if (slot.expr.strip(), slot.type) == key)
            placed[key] = layout.add(OUTPUT, output, format_of(key[1]), size, size)
        constants: list[tuple[int, bytes]] = []
        offsets: list[int] = []
        maps: list[tuple[int, Callable[[int], bytes], int]] = []
        for number, slot in enumerate(abi):
            name = slot.expr.strip()
            data = fixed.get(number)
            at = placed.get(
                (name, slot.type), placed.get((name, "ptr")) if name.endswith(".ptr") else None
            )
            if (
                at is None or slot.scratch or isinstance(data, tuple)
            ):  # whoever enqueues the launch writes the address of scratch memory
                at = layout.reserve(slot.size, slot.align)
                if isinstance(data, tuple):
                    maps.append((*data, at))
                elif data is not None:
                    constants.append((at, data))
            offsets.append(at)
        template = bytearray(layout.size)
        for offset, data in constants:
            template[offset : offset + len(data)] = data
        self.template, self.offsets, self.patches = (
            bytes(template),
            tuple(offsets),
            tuple(layout.patches),
        )
        self._maps = tuple(maps)

    def pack(
        self, addresses: Sequence[int], outputs: Sequence[int], values: tuple[Any, ...]
    ) -> Block:
        """Return the arguments of one launch.

        Args:
            addresses: of the tensors, in order.
            outputs: of the plan's program.
            values: all arguments of the call.

        Raises:
            struct.error, OverflowError, TypeError, ValueError: a number does not fit.
        """
        block, sources = Block(self.template, self.offsets), (addresses, outputs, values)
        for kind, source, offset, size, format_ in self.patches:
            block.values[offset : offset + size] = encoded(format_, sources[kind][source])
        for place, encode, at in self._maps:
            block.values[at : at + MAP_SIZE] = encode(addresses[place])
        return block


def _scalars(call: Call, abi: tuple[AbiSlot, ...]) -> Iterator[tuple[int, str, int, int]]:
    """(place, type, bytes, alignment) of every form in which a parameter that is no tensor is
    packed.

    Each is packed in its own type at least, also where no argument of the kernel has it: that sees
    to its range.
    """
    contract = call.contract
    for place in contract.others:
        param = contract.params[place]
        own = {ParamKind.SCALAR: contract.dtype_of(param, call.axes), ParamKind.PTR: "ptr"}.get(
            param.kind, "struct"
        )
        forms = {
            slot.type: (slot.size, slot.align) for slot in abi if slot.expr.strip() == param.name
        }
        size = param.size if own == "struct" else struct.calcsize(f"={format_of(own)}")
        forms.setdefault(own, (size, 1))
        for kind, (size, align) in forms.items():
            yield place, kind, size, align


def _format(kind: str, size: int) -> str:
    """How a scalar is packed: a format of the struct module, or the name of a dtype that has none."""
    return (
        f"{size}s"
        if kind == "struct"
        else kind
        if encoder_of(kind) is not None
        else format_of(kind)
    )


def encoded(format_: str, value: Any) -> bytes:
    """The bytes of one scalar.

    Raises:
        struct.error, OverflowError, TypeError, ValueError: it does not fit.
    """
    if numpy_dtype(value) == "bool":
        value = bool(value)  # an integer, as Python's is
    encode = encoder_of(format_)
    if encode is not None:
        return struct.pack(f"={format_of(format_)}", encode(value))
    if not format_.endswith("s"):
        return struct.pack(f"={format_}", value)
    data = memoryview(value).tobytes()
    if len(data) != int(format_[:-1]):  # the struct module would cut or pad it silently
        raise struct.error(f"{len(data)} bytes")
    return data


class _Layout:
    """Places values one after another, each aligned; collects those that are packed at each launch."""

    def __init__(self) -> None:
        self.size = 0
        self.patches: list[Patch] = []

    def reserve(self, size: int, align: int) -> int:
        offset = -(-self.size // align) * align
        self.size = offset + size
        return offset

    def add(self, kind: int, source: int, format_: str, size: int, align: int) -> int:
        offset = self.reserve(size, align)
        self.patches.append((kind, source, offset, size, format_))
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
