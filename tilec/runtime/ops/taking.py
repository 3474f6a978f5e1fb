"""The arguments of a launch that runs later, in the usual case: tensors that nobody else uses, and numbers. One function per kernel moves
them all in; like fast paths, it is unrolled over the parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from tilec.runtime.contract import Contract
from tilec.runtime.fastpath import CONSTANTS
from tilec.runtime.tensors.lease import Holder
from tilec.runtime.tensors.tensor import Tensor

# (values, who) -> what they moved to, in the same places; None where that takes a closer look.
Take = Callable[[tuple[Any, ...], Holder], "tuple[Any, ...] | None"]

_TEMPLATE = """
def take(values, who):
    {unpack} = values
    if not ({plain}):
        return None
    {none}None
    try:
{moves}
    except BaseException:
        undo(values, {moved})
        raise
    return {moved}
"""
# What `Tensor.move` does, which raises where something has changed meanwhile.
_MOVE = """
        m = a{i}.storage
        with m.lock:
            look = a{i}._look
            if look is None or a{i}.lease._held:
                look = a{i}.move(who)._look
            a{i}._look = None
            a{i}._moved = who
        b = new(Tensor)
        b.storage = m
        b.lease = m.lease
        b._facts = a{i}._facts
        b._look = look
        b._moved = None
        b{i} = b
"""


def take_function(contract: Contract) -> Take:
    """The function of a kernel."""
    tensors, count = contract.tensors, len(contract.params)
    if not tensors:
        return lambda _values, _who: None
    plain = [f"type(a{i}) is Tensor and a{i}._look is not None and not a{i}.lease._held" for i in tensors]
    plain += [f"not a{i}._facts.readonly" for i in contract.outs]
    plain += [f"a{i} is not a{j}" for i, j in itertools.combinations(tensors, 2)]
    plain += [f"type(a{i}) in constants" for i in contract.others]
    source = _TEMPLATE.format(
        unpack="".join(f"a{i}, " for i in range(count)).rstrip(),
        plain=" and ".join(plain),
        none="".join(f"b{i} = " for i in tensors),
        moves="\n".join(_MOVE.format(i=i).strip("\n") for i in tensors),
        moved=f"({''.join(f'b{i}, ' if i in tensors else f'a{i}, ' for i in range(count))})",
    )
    names: dict[str, Any] = {"__name__": __name__, "Tensor": Tensor, "constants": CONSTANTS, "new": object.__new__, "undo": give_back}
    exec(compile(source, "<tilec taking>", "exec"), names)  # noqa: S102 - built from numbers alone
    take: Take = names["take"]
    return take


def give_back(values: Iterable[Any], moved: Iterable[Any]) -> None:
    """Let tensors own again what moved from them, and nobody else has. Takes no lock: the collector may do this anywhere."""
    for origin, content in zip(values, moved, strict=True):
        if content is not None and content is not origin:
            origin.take_back(content)
