"""What a launch looks its plan up by: the class of a call, and its slots, which the programs of
plans read.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from typing import Any

from tilec_runtime.device.layout import TensorFacts, span
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.program import BOUND
from tilec_runtime.values import value_class

Key = tuple[Any, ...]
Slots = list[int]


@value_class(frozen=True, slots=True)
class Facts:
    """The facts of a call: of each tensor parameter (None for one that is not given), its class,
    and its slots.
    """

    tensors: tuple[TensorFacts | None, ...]
    key: Key
    slots: Slots


def facts_of(
    contract: Contract, values: tuple[Any, ...], tensors: Iterable[TensorFacts | None]
) -> Facts:
    """Return the facts of a call whose tensors were read.

    The class holds what no program can check: of each tensor its dtype, rank, device, whether it is
    read-only, contiguous or empty, whether it is aligned to its elements and has memory, and
    whether no stride is negative; of every other argument its type, and by their bits the values
    that expressions read and that have no slot. The slots of a tensor are its address, the
    addresses where its bytes begin and end, its extents, and its strides.
    """
    slots: Slots = []
    key: list[Any] = []
    tensors = tuple(tensors)
    for place, facts in zip(contract.tensors, tensors, strict=True):
        if facts is None:
            slots.append(0)
            key.append(None)
            continue
        slots += (facts.ptr, *span(facts), *facts.shape, *facts.stride)
        empty, size = 0 in facts.shape, facts.itemsize
        sound = size > 0 and facts.ptr % size == 0 and (facts.ptr != 0 or empty)
        ahead = min(facts.stride, default=0) >= 0
        # How a partition is cut.
        cut = values[place]._tilec_look_[3][5:] if hasattr(type(values[place]), "grid_wish") else ()
        key.append(
            (
                facts.dtype,
                len(facts.shape),
                facts.device,
                facts.readonly,
                facts.contiguous,
                empty,
                sound,
                ahead,
                *cut,
            )
        )
    for place in contract.others:
        value = values[place]
        key.append(type(value))
        if has_slot(value):
            slots.append(int(value))
        else:
            slots.append(0)
            if place in contract.keyed:
                key.append(_bits(value))
    return Facts(tensors, tuple(key), slots)


def has_slot(value: Any) -> bool:
    """Whether programs read a scalar: a whole number of 64 bits."""
    return type(value) in (int, bool) and -BOUND < value < BOUND


def _bits(value: Any) -> object:
    """What tells values of one type apart that expressions read: 0.0 equals -0.0, and gives another
    argument.
    """
    if isinstance(value, float):
        return struct.pack("=d", float.__float__(value))
    if isinstance(value, int):
        return int.__index__(value)
    return value.tobytes() if hasattr(value, "tobytes") else repr(value)  # NumPy's


def tensor_slots(contract: Contract, key: Key) -> list[tuple[int, int]]:
    """Where the slots of each tensor begin and end."""
    ends = itertools.accumulate(
        (1 if kind is None else 3 + 2 * kind[1] for kind in key[: len(contract.tensors)]), initial=0
    )
    return list(itertools.pairwise(ends))


def exact_key(contract: Contract, facts: Facts) -> Key:
    """The key of a plan that is for one set of extents and strides: all facts of a call but
    addresses, and numbers that decide nothing.
    """
    slots = facts.slots
    layouts = [slots[begin + 3 : end] for begin, end in tensor_slots(contract, facts.key)]
    numbers = zip(contract.others, slots[len(slots) - len(contract.others) :], strict=True)
    return (
        facts.key,
        *itertools.chain(*layouts),
        *(number for place, number in numbers if place in contract.keyed),
    )
