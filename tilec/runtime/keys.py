"""The key of a launch: every fact of a call that its plan depends on."""

from __future__ import annotations

from typing import Any

from tilec.runtime.arguments import READERS
from tilec.runtime.contract import Contract

Key = tuple[Any, ...]


def addresses_and_key(contract: Contract, values: tuple[Any, ...]) -> tuple[tuple[int, ...], Key]:
    """Return the addresses of a call's tensors in order, and the key of its plan.

    Equal keys mean equal plans. The key holds all facts of each tensor but its address; whether
    there is an address, and what it leaves modulo everything that a check compares it with; the
    type of every other argument; and the values, as text, and addresses that expressions read. A tensor
    that is no tensor, or that cannot be read, raises what its library raises.
    """
    addresses: list[int] = []
    parts: list[Any] = []
    for place, modulus in zip(contract.tensors, contract.moduli, strict=True):
        value = values[place]
        address, facts = READERS[type(value)](value)
        addresses.append(address)
        parts += (facts, address % modulus, address == 0)
        if place in contract.pointed:
            parts.append(address)
    for place in contract.others:
        parts.append(type(values[place]))
        if place in contract.keyed:
            parts.append(repr(values[place]))  # 0.0 equals -0.0, and gives another argument
    return tuple(addresses), tuple(parts)
