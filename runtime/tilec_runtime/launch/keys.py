"""The facts of a call: its cache key, and the slots that programs read."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.layout import TensorFacts
from tilec_runtime.errors import ArgumentError
from tilec_runtime.launch.binding import stream_by_name
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.program import BOUND, Trace
from tilec_runtime.model.signature import Param
from tilec_runtime.tensors.facts import UnreadableError, tensor_facts
from tilec_runtime.values import replace, value_class

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver

Key = tuple[Any, ...]
Slots = list[int]
_CONFIG = "leave it out: the manifest has grid and block; .grid(...) of an op gives another grid, and AsyncKernelLaunch takes configs"
_OP = "run the op first (sync_on), or call the package's function, which takes ops and gives one"


@value_class(frozen=True)
class CallFacts:
    """The facts of each tensor parameter (None for absent ones), the key, the slots."""

    tensors: tuple[TensorFacts | None, ...]
    key: Key
    slots: Slots

    @property
    def addresses(self) -> tuple[int, ...]:
        """Addresses of the tensors, 0 for absent ones."""
        return tuple([0 if facts is None else facts.ptr for facts in self.tensors])


def facts_of(contract: Contract, values: tuple[Any, ...], driver: DeviceDriver) -> CallFacts:
    """Read the facts of a call.

    The key holds the facts that no program checks:

    - of a tensor: dtype, rank, device; whether it is read-only, contiguous, empty, aligned with
      memory (`sound`), and without negative strides (`ahead`);
    - of any other argument: its type, and its bits if an expression reads it and it has no slot.

    The slots of a tensor are its address, the addresses of its first byte and behind its last, its
    extents, and its strides.

    Raises:
        ArgumentError: a tensor cannot be read.
    """
    slots: Slots = []
    key: list[Any] = []
    tensors: list[TensorFacts | None] = []
    for index in contract.tensors:
        param, value = contract.params[index], values[index]
        absent = value is None and param.optional
        facts = None if absent else _read(contract, param, value, driver)
        tensors.append(facts)
        if facts is None:
            slots.append(0)
            key.append(None)
            continue
        slots += (facts.ptr, *facts.span, *facts.shape, *facts.stride)
        key.append(
            (
                facts.dtype,
                len(facts.shape),
                facts.device,
                facts.readonly,
                facts.contiguous,
                facts.empty,
                facts.sound,
                facts.ahead,
                *(value.cut if is_cut(value) else ()),
            )
        )
    for index in contract.others:
        value = values[index]
        key.append(type(value))
        if has_slot(value):
            slots.append(int(value))
        else:
            slots.append(0)
            if index in contract.keyed:
                key.append(_bits(value))
    return CallFacts(tuple(tensors), tuple(key), slots)


def _read(contract: Contract, param: Param, value: Any, driver: DeviceDriver) -> TensorFacts:
    try:
        return tensor_facts(value, driver.pointer_device)
    except UnreadableError as error:
        fault = f"takes a tensor (DLPack or __cuda_array_interface__): {error}"
        fix = ""
        if hasattr(type(value), "enqueue_on"):
            fix = _OP
        elif hasattr(value, "for_num_elems"):
            fix = _CONFIG
        elif param is contract.params[0]:
            fix = stream_by_name(contract, (value,))
        raise contract.refuse(ArgumentError, param, fault, fix) from error


def has_slot(value: Any) -> bool:
    """Whether programs read a scalar: it is an int that fits 64 bits."""
    return type(value) in (int, bool) and -BOUND < value < BOUND


def _bits(value: Any) -> object:
    """Return the bits of a number that expressions read, or None for any other value.

    Equality would not do: 0.0 equals -0.0, and is another kernel argument.
    """
    if isinstance(value, float):
        return struct.pack("=d", float.__float__(value))
    if isinstance(value, int):
        return int.__index__(value)
    return value.tobytes() if hasattr(value, "tobytes") else None  # NumPy scalars


def is_cut(value: Any) -> bool:
    """Whether an argument is a partition."""
    return hasattr(type(value), "grid_wish")


class TracedTensor(TensorFacts):
    """The facts of a tensor whose address, extents and strides are traced.

    All other facts are in the call's key.
    """

    __slots__ = ("_facts", "_span")
    _facts: TensorFacts
    _span: tuple[int, int]

    def __init__(self, facts: TensorFacts, trace: Trace, first: int) -> None:
        """Trace a tensor whose slots begin at `first`."""
        rank = len(facts.shape)
        numbers = (facts.ptr, *facts.span, *facts.shape, *facts.stride)
        ptr, start, end, *layout = itertools.starmap(trace.slot, enumerate(numbers, first))
        if rank and facts.contiguous:
            layout[-1] = 1
        super().__init__(
            ptr=ptr,
            shape=tuple(layout[:rank]),
            stride=tuple(layout[rank:]),
            dtype=facts.dtype,
            device=facts.device,
            readonly=facts.readonly,
        )
        object.__setattr__(self, "_facts", facts)
        object.__setattr__(self, "_span", (start, end))

    @property
    def span(self) -> tuple[int, int]:
        """Address of the first byte, and the address behind the last byte."""
        return self._span

    @property
    def contiguous(self) -> bool:
        """The tensor's own fact."""
        return self._facts.contiguous

    @property
    def empty(self) -> bool:
        """The tensor's own fact."""
        return self._facts.empty

    @property
    def sound(self) -> bool:
        """The tensor's own fact."""
        return self._facts.sound

    @property
    def ahead(self) -> bool:
        """The tensor's own fact."""
        return self._facts.ahead

    @property
    def order(self) -> list[int]:
        """The tensor's own order of strides: a guess, which `overlaps_itself` verifies."""
        return self._facts.order

    @property
    def pinned(self) -> TensorFacts:
        """The tensor with extents and strides pinned, and its address traced."""
        for number in (*self.shape, *self.stride):
            int(number)
        return replace(self._facts, ptr=self.ptr)


def traced(
    contract: Contract, values: tuple[Any, ...], facts: CallFacts, trace: Trace
) -> tuple[dict[str, TensorFacts], dict[str, int]]:
    """Return the traced tensors of a call, and the traced numbers that decide it."""
    tensors: dict[str, TensorFacts] = {}
    first = 0
    for index, read in zip(contract.tensors, facts.tensors, strict=True):
        if read is not None:
            tensors[contract.params[index].name] = TracedTensor(read, trace, first)
        first += 1 if read is None else 3 + 2 * len(read.shape)
    numbers = {
        contract.params[index].name: trace.slot(slot, facts.slots[slot])
        for slot, index in enumerate(contract.others, first)
        if index in contract.keyed and has_slot(values[index])
    }
    return tensors, numbers
