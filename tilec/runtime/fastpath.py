"""The path of a launch whose facts were seen before: one function per kernel, unrolled over its parameters, since a loop would cost
more than the checks that it saves. Only numbers go into the generated text, never a word of a bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilec.runtime.arguments import READERS, torch_strided
from tilec.runtime.contract import Contract
from tilec.runtime.memory import DeviceBuffer
from tilec.runtime.prepare import Plan
from tilec.runtime.streams import HANDLES

# (stream, values): enqueues, or hands over to the slow path. And values -> key, for the slow path to remember its plan by.
Launch = Callable[[Any, tuple[Any, ...]], None]
KeyOf = Callable[[tuple[Any, ...]], tuple[Any, ...]]

_TEMPLATE = """
def key_of(values):
    {unpack} = values
{look}
    return {key}

def launch(stream, values):
    try:
        {unpack} = values
        s = stream if type(stream) is int else handles[type(stream)](stream)
{read}
        plan = plans[{key}]
        call = plan.calls[s]
    except Exception:
        plan = None
    if plan is None:
        return slow(stream, values)
    try:
        block = plan.blocks.pop()
    except IndexError:
        block = plan.new_block()
    packed = {packed}
    if {changed}:
        if plan.plain:
{apart}
            try:
                plan.pack(block.values, 0, *packed)
                block.packed = packed
            except Exception:
                plan.refill(block, packed, values)
        else:
            plan.refill(block, packed, values)
    result = call(block.address, {held})[0]
    if result:
        failed(plan, call, block, stream, result)
    plan.blocks.append(block)
"""
# Tensors of tilec's own see to the order of streams, and refuse what their leases forbid.
_LEASED = """    elif t in leased_types:
        p{i}, f{i} = a{i}.{method}(s, device)
"""
# torch's attributes are read in place: a call per tensor would cost as much as two of them.
_READ = """
    t = type(a{i})
    if t is Buffer:
        p{i}, f{i} = a{i}._tilec_look_
{leased}    elif t in torch_types:
        p{i} = a{i}.data_ptr()
        f{i} = (a{i}.dtype, a{i}.shape, a{i}.get_device()) if a{i}.is_contiguous() and not a{i}.is_neg() else torch_strided(a{i})
    else:
        p{i}, f{i} = readers[t](a{i})
"""


def fast_path(
    contract: Contract,
    plans: Mapping[tuple[Any, ...], Plan],
    slow: Launch,
    failed: Callable[..., None],
    *,
    holds: bool,
    device: int,
) -> tuple[Launch, KeyOf]:
    """The launch function of a kernel, and the function that gives the key of a call.

    Equal keys mean equal plans: the key holds, per tensor, all facts but its address; the address modulo what any check compares it
    with, and whether there is one, unless all are aligned and there; the types of the other arguments; and the value of each that an
    expression reads.

    Args:
        contract: the kernel's.
        plans: plans by key; the slow path fills it.
        slow: takes every call that is not known, or that does not fit; raises what is wrong with it.
        failed: deals with a launch that the driver refused.
        holds: whether the driver holds arguments, and gets them.
        device: ordinal of the device that the kernel is on.
    """
    source = _source(contract, "(packed, values)" if holds else "0")
    names: dict[str, Any] = {
        "__name__": __name__,  # frames of tilec are no place that messages name
        "Buffer": DeviceBuffer,
        "device": device,
        "failed": failed,
        "handles": HANDLES,
        "leased_types": READERS.leased_types,
        "plans": plans,
        "readers": READERS,
        "slow": slow,
        "torch_strided": torch_strided,
        "torch_types": READERS.torch_types,
    }
    exec(compile(source, "<tilec launch path>", "exec"), names)  # noqa: S102 - built from numbers alone
    return names["launch"], names["key_of"]


def _source(contract: Contract, held: str) -> str:
    count = len(contract.params)
    looked, read = _reading(contract, leased=False), _reading(contract, leased=True)
    moduli = dict(zip(contract.tensors, contract.moduli, strict=True))
    checked = [i for i in contract.tensors if moduli[i] > 1]
    parts = [*(f"f{i}" for i in contract.tensors), *(f"type(a{i})" for i in contract.others)]
    parts += [*(f"a{i}" for i in contract.keyed), *(f"p{i}" for i in contract.pointed)]
    key = _tuple(parts)
    if contract.tensors:
        # Aligned addresses of something are the usual case, and one test finds out for all.
        powers = all(moduli[i] & (moduli[i] - 1) == 0 for i in checked)
        mask = max((moduli[i] for i in checked), default=1) - 1
        # An address of 0 bits below the modulus leaves nothing.
        odd = f"({' | '.join(f'p{i}' for i in checked)}) & {mask} or " if checked and powers else "True or " if checked else ""
        whole = " and ".join(f"p{i}" for i in contract.tensors)
        deeper = _tuple([*parts, *(f"p{i} % {moduli[i]}" for i in checked), *(f"not p{i}" for i in contract.tensors)])
        key = f"{deeper} if {odd}not ({whole}) else {key}"
    free = [i for i in contract.others if i not in contract.keyed]
    # Zeros are packed anew: 0.0 equals -0.0. So are structs: a buffer that equals itself may hold other bytes than before.
    always = bool(contract.structs)
    changed = " or ".join(["packed != block.packed", *(f"not a{i}" for i in free)])
    unpack = "".join(f"a{i}, " for i in range(count)).rstrip() if count else "()"
    pairs = contract.pairs
    apart = f"""
            {"".join(f"b{out}_{other}, t{out}_{other}, " for out, other in pairs).rstrip()} = plan.bounds
            if {" or ".join(f"b{out}_{other} < p{other} - p{out} < t{out}_{other}" for out, other in pairs)}:
                plan.recheck(values)
"""
    return _TEMPLATE.format(
        unpack=unpack,
        held=held,
        look="\n".join(looked) or "    pass",
        read="\n".join(f"    {line}" for line in read),
        key=key,
        packed=_tuple([*(f"p{i}" for i in contract.tensors), *(f"a{i}" for i in free)]),
        changed="True" if always else changed,
        apart=apart.strip("\n") if pairs else "",
    )


def _reading(contract: Contract, *, leased: bool) -> list[str]:
    """The lines that read all tensors; with leases, that tell those of tilec's own what the launch does."""
    lines = []
    for i in contract.tensors:
        method = "_tilec_write_" if contract.params[i].out else "_tilec_read_"
        own = _LEASED.format(i=i, method=method) if leased else ""
        lines += _READ.format(i=i, leased=own).strip("\n").split("\n")
    return lines


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
