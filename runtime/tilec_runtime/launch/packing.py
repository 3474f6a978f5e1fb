"""Packs kernel arguments into one block, of which each launch writes a part."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from tilec_runtime.device.scalars import encoded, encoder_of, format_of, packed_format
from tilec_runtime.errors import LayoutError
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.program import SHAPE_OUTPUTS, TracedInt, concrete
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.expr import parse
from tilec_runtime.model.signature import AbiSlot, ParamKind
from tilec_runtime.model.tensormap import SIZE as MAP_SIZE

_POINTER = 8

# The next step for an extent or a stride that a kernel's index type cannot hold.
WIDER = "pass parts of the tensor whose extents and strides fit, or build the kernel with 64-bit ones (`ct.IndexedWithInt64`, `i64(…)`)"


class ArgumentBlock:
    """The argument values of one launch, and the array of their addresses.

    The driver reads the array.

    Attributes:
        values: the bytes of the values.
        address: the address of the array.
    """

    __slots__ = ("_array", "_pin", "address", "values")

    def __init__(self, template: bytes, offsets: tuple[int, ...]) -> None:
        """Lay out a block from its constant values and the arguments' offsets."""
        self.values = bytearray(template or 1)  # a kernel may have no arguments
        self._pin = (ctypes.c_char * len(self.values)).from_buffer(
            self.values
        )  # the bytearray cannot move as long as this view exists
        base = ctypes.addressof(self._pin)
        self._array = (ctypes.c_void_p * max(len(offsets), 1))(
            *[base + offset for offset in offsets]
        )
        self.address = ctypes.addressof(self._array)


Patch = tuple[int, int, int, int, str]
ADDRESS, OUTPUT, SCALAR = range(3)


class Packing:
    """The layout of the arguments of one plan.

    Attributes:
        template: the bytes of all values; a launch overwrites those in `patches` and `maps`.
        offsets: the offset of each kernel argument.
        patches: (kind, source, offset, size, format) of the values that a launch writes: a tensor's
            `ADDRESS`, an `OUTPUT` of the program, a `SCALAR` of the call. The format is that of the
            struct module, or the name of a small float.
        maps: (tensor, function from an address to its map, offset) of each tensor map.
        outputs: the number of outputs of the program, those of the launch shape included.
    """

    __slots__ = ("maps", "offsets", "outputs", "patches", "template")

    def __init__(self, call: Call, abi: tuple[AbiSlot, ...]) -> None:
        """Lay out the arguments of a checked call.

        Raises:
            LayoutError: a computed argument does not fit its slot, or a tensor allows no tensor
                map.
        """
        contract, layout, self.outputs = call.contract, Layout(), SHAPE_OUTPUTS
        placed: dict[tuple[str, str], int] = {}
        for number, index in enumerate(contract.tensors):
            placed[f"{contract.params[index].name}.ptr", "ptr"] = layout.add(
                ADDRESS, number, "Q", _POINTER, _POINTER
            )
        for index, kind, size, align in _scalars(call, abi):
            placed[contract.params[index].name, kind] = layout.add(
                SCALAR, index, packed_format(kind, size), size, align
            )
        offsets, maps = [], []
        for slot in abi:
            name = slot.expr.strip()
            key = (name, "ptr" if name.endswith(".ptr") else slot.type)
            if slot.type.startswith("tensormap:"):
                from tilec_runtime.launch.tensormaps import encoder  # few kernels take any

                at = layout.reserve(slot.size, slot.align)
                maps.append((*encoder(call, slot), at))
            elif slot.scratch:  # `scratch.with_scratch` writes the address
                at = layout.reserve(slot.size, slot.align)
            elif contract.computes(slot):
                if key not in placed:
                    placed[key] = self._computed(call, slot, layout)
                at = placed[key]
            else:
                if contract.index.get(name) in contract.keyed:
                    _constant(call, slot, call.evaluate(parse(slot.expr)))
                at = placed[key]
            offsets.append(at)
        self.template, self.offsets = layout.template, tuple(offsets)
        self.patches, self.maps = tuple(layout.patches), tuple(maps)

    def _computed(self, call: Call, slot: AbiSlot, layout: Layout) -> int:
        """Place a computed argument: an output of the program, or a constant."""
        value = call.evaluate(parse(slot.expr))
        data = _constant(call, slot, value)
        row = DTYPES.get(slot.type)
        if not isinstance(value, TracedInt):
            return layout.constant(data, slot.align)
        if row is None or encoder_of(slot.type) is not None or slot.type == "f16":
            int(value)  # programs have no outputs of this type: pin the value
            return layout.constant(data, slot.align)
        bits = {"int": row.bits, "uint": -row.bits}.get(row.kind, 0)
        value.trace.output(self.outputs, value != 0 if row.kind == "bool" else value, bits)
        self.outputs += 1
        return layout.add(OUTPUT, self.outputs - 1, format_of(slot.type), slot.size, slot.size)

    def pack(
        self, addresses: Sequence[int], outputs: Sequence[int], values: tuple[Any, ...]
    ) -> ArgumentBlock:
        """Return the arguments of one launch.

        Args:
            addresses: the addresses of the tensors, in order.
            outputs: the outputs of the plan's program.
            values: all arguments of the call.

        Raises:
            struct.error, OverflowError, TypeError, ValueError: a number does not fit.
        """
        block, sources = ArgumentBlock(self.template, self.offsets), (addresses, outputs, values)
        for kind, source, offset, size, format_ in self.patches:
            block.values[offset : offset + size] = encoded(format_, sources[kind][source])
        for index, encode, at in self.maps:
            block.values[at : at + MAP_SIZE] = encode(addresses[index])
        return block


def _scalars(call: Call, abi: tuple[AbiSlot, ...]) -> Iterator[tuple[int, str, int, int]]:
    """Yield (place, type, bytes, alignment) of each type a parameter is packed in.

    Tensors are left out. Every parameter is packed in its own type too, even if no kernel argument
    has it: packing checks its range.
    """
    contract = call.contract
    for index in contract.others:
        param = contract.params[index]
        own = {ParamKind.SCALAR: contract.dtype_of(param, call.axes), ParamKind.PTR: "ptr"}.get(
            param.kind, "struct"
        )
        forms = {
            slot.type: (slot.size, slot.align) for slot in abi if slot.expr.strip() == param.name
        }
        size = param.size if own == "struct" else struct.calcsize(f"={format_of(own)}")
        forms.setdefault(own, (size, 1))
        for kind, (size, align) in forms.items():
            yield index, kind, size, align


class Layout:
    """Places values one after another, aligned; collects those that each launch packs."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.patches: list[Patch] = []

    @property
    def template(self) -> bytes:
        return bytes(self._bytes)

    def reserve(self, size: int, align: int) -> int:
        return self.constant(bytes(size), align)

    def constant(self, data: bytes, align: int) -> int:
        self._bytes += bytes(-len(self._bytes) % align)
        self._bytes += data
        return len(self._bytes) - len(data)

    def add(self, kind: int, source: int, format_: str, size: int, align: int) -> int:
        offset = self.reserve(size, align)
        self.patches.append((kind, source, offset, size, format_))
        return offset


def _constant(call: Call, slot: AbiSlot, value: Any) -> bytes:
    """Return the bytes of an argument that is the same in all launches of a plan.

    Raises:
        LayoutError: its type cannot hold the value.
    """
    try:
        return encoded(packed_format(slot.type), concrete(value))
    except (struct.error, OverflowError, TypeError) as error:
        name = call.contract.name
        message = f"{name}: {slot.expr} is {value!r}, which the kernel's {slot.type} cannot hold"
        raise LayoutError(message, fix=WIDER, kernel=name) from error
