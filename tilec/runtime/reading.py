"""How the functions that are made for a kernel read a call's tensors, and the key of a call: first launches need no more of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tilec.runtime.arguments import READERS, torch_strided
from tilec.runtime.contract import Contract

# Values -> key, for the slow path to remember its plan by.
KeyOf = Callable[[tuple[Any, ...]], tuple[Any, ...]]
KEY_OF = """
def key_of(values):
    {unpack} = values
{look}
    return {key}
"""
# Tensors of tilec's own see to the order of streams, and refuse what their leases forbid; of the usual kind all is read in place.
LEASED = """    elif t is Tensor and {ordered} and not a{i}.lease._held:
        p{i}, f{i} = l{i} = a{i}._look
    elif t in leased_types:
        p{i}, f{i} = l{i} = a{i}.{method}(s, device)
"""
# torch's attributes are read in place: a call per tensor would cost as much as two of them.
READ = """
    t = type(a{i})
    if t is Buffer:
        p{i}, f{i} = a{i}._tilec_look_
{leased}    elif t in torch_types:
        p{i} = a{i}.data_ptr()
        f{i} = (a{i}.dtype, a{i}.shape, a{i}.get_device()) if a{i}.is_contiguous() and not a{i}.is_neg() else torch_strided(a{i})
    else:
        p{i}, f{i} = readers[t](a{i})
"""


def key_path(contract: Contract) -> KeyOf:
    """What gives the key of a kernel's call. It is made apart from the rest, which takes ten times as long, and no first launch needs.

    Equal keys mean equal plans: the key holds, per tensor, all facts but its address; the address modulo what any check compares it
    with, and whether there is one, unless all are aligned and there; the types of the other arguments; and the value of each that an
    expression reads.
    """
    names = reading_names()
    key, _ = key_text(contract)
    source = KEY_OF.format(unpack=unpacking(contract), look="\n".join(reading(contract, leased=False)) or "    pass", key=key)
    exec(compile(source, "<tilec launch key>", "exec"), names)  # noqa: S102 - built from numbers alone
    key_of: KeyOf = names["key_of"]
    return key_of


def reading_names() -> dict[str, Any]:
    """What reading tensors takes."""
    return {
        "__name__": __name__,  # frames of tilec are no place that messages name
        "Buffer": getattr(sys.modules.get("tilec.runtime.memory"), "DeviceBuffer", Nobody),  # later ones are read as foreign tensors are
        "readers": READERS,
        "torch_strided": torch_strided,
        "torch_types": READERS.torch_types,
    }


def unpacking(contract: Contract) -> str:
    """What the arguments are assigned to: `a0, a1,`."""
    return "".join(f"a{i}, " for i in range(len(contract.params))).rstrip() or "()"


def key_text(contract: Contract) -> tuple[str, str]:
    """The key of a call, and the test whether the addresses add nothing to it."""
    tensors, others = contract.tensors, contract.others
    parts = [*(f"f{i}" for i in tensors), *(f"type(a{i})" for i in others)]
    parts += [*(f"a{i}" for i in contract.keyed), *(f"p{i}" for i in contract.pointed)]
    key, even = tuple_text(parts), "True"
    if tensors:
        odd, whole = _alignment(contract)
        moduli = dict(zip(tensors, contract.moduli, strict=True))
        deeper = tuple_text([*parts, *(f"p{i} % {moduli[i]}" for i in tensors if moduli[i] > 1), *(f"not p{i}" for i in tensors)])
        key = f"{deeper} if {odd}not ({whole}) else {key}"
        even = f"not ({odd}not ({whole}))"
    return key, even


def reading(contract: Contract, *, leased: bool) -> list[str]:
    """The lines that read all tensors; with leases, that tell those of tilec's own what the launch does."""
    lines = []
    for i in contract.tensors:
        method = "_tilec_write_" if contract.params[i].out else "_tilec_read_"
        own = LEASED.format(i=i, method=method, ordered=ordered(contract, i)) if leased else ""
        lines += READ.format(i=i, leased=own).strip("\n").split("\n")
    return lines


def ordered(contract: Contract, i: int) -> str:
    """The test whether the stream is in order with a tensor's memory, for what the launch does to it."""
    alone = f"a{i}.storage.sole == s"
    return alone if contract.params[i].out else f"({alone} or s in a{i}.storage.readers)"


def _alignment(contract: Contract) -> tuple[str, str]:
    """The tests whether an address is not aligned, and whether all are there: aligned addresses of something are the usual case, and one
    test finds out for all.
    """
    moduli = dict(zip(contract.tensors, contract.moduli, strict=True))
    checked = [i for i in contract.tensors if moduli[i] > 1]
    powers = all(moduli[i] & (moduli[i] - 1) == 0 for i in checked)
    mask = max((moduli[i] for i in checked), default=1) - 1
    # An address of 0 bits below the modulus leaves nothing.
    odd = f"({' | '.join(f'p{i}' for i in checked)}) & {mask} or " if checked and powers else "True or " if checked else ""
    return odd, " and ".join(f"p{i}" for i in contract.tensors)


def tuple_text(parts: list[str]) -> str:
    """A tuple of expressions."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


class Nobody:
    """What no argument is."""
