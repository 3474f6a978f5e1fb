"""What a launch looks its plan up by: the class of a call, and its slots, which the programs of plans read."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from tilec_runtime.arguments import look
from tilec_runtime.contract import Contract
from tilec_runtime.layout import Look
from tilec_runtime.program import BOUND

Key = tuple[Any, ...]
Slots = list[int]


def facts_of(contract: Contract, values: tuple[Any, ...]) -> tuple[Key, Slots]:
    """Return the class of a call, and its slots.

    The class holds what no program can check: of each tensor its dtype, rank, device, whether it is read-only and whether it
    is contiguous; of every other argument its type, and by their bits the values that expressions read and that have no slot. A
    tensor that is no tensor, or that cannot be read, raises what its library raises.
    """
    return key_and_slots(contract, values, [look(values[place]) for place in contract.tensors])


def key_and_slots(contract: Contract, values: tuple[Any, ...], looks: Iterable[Look]) -> tuple[Key, Slots]:
    """Return what `facts_of` does, for tensors that were looked at."""
    slots: Slots = []
    key: list[Any] = []
    for address, shape, stride, kind in looks:
        slots.append(address)
        slots += shape
        slots += stride
        key.append(kind)
    for place in contract.others:
        value = values[place]
        key.append(type(value))
        if has_slot(value):
            slots.append(int(value))
        else:
            slots.append(0)
            if place in contract.keyed:
                key.append(_bits(value))
    return tuple(key), slots


def has_slot(value: Any) -> bool:
    """Whether programs read a scalar: a whole number of 64 bits."""
    return type(value) in (int, bool) and -BOUND < value < BOUND


def _bits(value: Any) -> object:
    """What tells values of one type apart that expressions read: 0.0 equals -0.0, and gives another argument."""
    if isinstance(value, float):
        return struct.pack("=d", float.__float__(value))
    if isinstance(value, int):
        return int.__index__(value)
    return value.tobytes() if hasattr(value, "tobytes") else repr(value)  # NumPy's


def address_slots(contract: Contract, key: Key) -> tuple[int, ...]:
    """The slots of the tensors' addresses."""
    places, end = [], 0
    for kind in key[: len(contract.tensors)]:
        places.append(end)
        end += 1 if kind is None else 1 + 2 * kind[1]
    return tuple(places)


def exact_key(contract: Contract, key: Key, slots: Slots) -> Key:
    """The key of a plan that is for one set of extents and strides: all facts of a call but addresses, and numbers that decide nothing."""
    first = len(slots) - len(contract.others)
    free = {*address_slots(contract, key), *(first + i for i, place in enumerate(contract.others) if place not in contract.keyed)}
    return key, *(slot for place, slot in enumerate(slots) if place not in free)
