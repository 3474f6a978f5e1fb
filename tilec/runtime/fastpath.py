"""The path of a launch whose facts were seen before: one function per kernel, unrolled over its parameters, since a loop would cost
more than the checks that it saves. Only numbers go into the generated text, never a word of a bundle.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tilec.runtime.arguments import READERS
from tilec.runtime.contract import Contract
from tilec.runtime.epoch import EPOCH
from tilec.runtime.fastpath_text import PATHS, TAIL
from tilec.runtime.handles import HANDLES
from tilec.runtime.packing import Block
from tilec.runtime.prepare import Plan
from tilec.runtime.reading import Nobody, key_text, ordered, reading, reading_names, tuple_text, unpacking
from tilec.runtime.references import LOCAL, followed, references
from tilec.runtime.seam_types import LaunchCall
from tilec.values import value_class

# (stream, values, choices): enqueues, or hands over to the slow path.
Launch = Callable[..., None]
# Numbers whose value stays as long as they are the same object.
CONSTANTS = frozenset((bool, int, float))
# In place of what a chain says about the next op of a kernel (`ops/taking.py`).
NO_HINT = (None, None, None, None, None)
# Launches of ops that one kernel keeps, by the tensors.
_MOST_KNOWN = 64


class SlowPath(Protocol):
    """What a launcher does about the calls that are not known."""

    def slow(self, stream: Any, values: tuple[Any, ...]) -> None:
        """Take every call that is not known, or that does not fit; raise what is wrong with it."""

    def chosen(self, stream: Any, values: tuple[Any, ...], choices: tuple[Any, ...]) -> None:
        """Take calls that choose axes."""

    def failed(self, plan: Plan, call: LaunchCall, block: Block, stream: Any, result: Any) -> None:
        """Deal with a launch that the driver refused."""


@value_class(frozen=True, kw_only=True, slots=True)
class Paths:
    """What is made for a kernel.

    Attributes:
        launch: enqueues a call, or hands it over to the slow path.
        owned: of (context of an execution, op): enqueues a launch of tensors that moved into its op, none of them twice; what the op gives.
        along: of (context of an execution, list of one op, which is taken out of it, iterator of a chain's steps, what is told of errors,
            what says where a step's next ops are made, what follows functions that only pass on): does so too, and goes on with the
            steps as long as each gives another launch of the kernel that nobody else has. What the last launch gave, and None; or what
            the last step's function gave, and that step without its function, where it is something else; or what a step is still to be
            called with, and that step, where it is no `then`.
        meet: is told tilec's type of tensors, once there is one: a program that has none need not import it.
    """

    launch: Launch
    owned: Callable[[Any, Any], tuple[Any, ...]]
    along: Callable[..., tuple[Any, Any]]
    meet: Callable[[type | None], None]


def fast_path(contract: Contract, plans: Mapping[tuple[Any, ...], Plan], slow: SlowPath, *, holds: bool, device: int) -> Paths:
    """The functions of a kernel.

    Args:
        contract: the kernel's.
        plans: plans by key; the slow path fills it.
        slow: what the launcher does about all other calls.
        holds: whether the driver holds arguments, and gets them.
        device: ordinal of the device that the kernel is on.
    """
    source = _source(contract, "(packed, values)" if holds else "0")
    nobody = Nobody()
    remembered = (*(nobody for _ in contract.params), -1, None, None, None, 0, (), (), None)
    latest = (*(nobody for _ in contract.others), -1, None, None, None, None, 0, (), ())
    known: dict[Any, Any] = {}
    names: dict[str, Any] = {
        **reading_names(),
        "Stream": getattr(sys.modules.get("tilec.runtime.streams"), "Stream", Nobody),  # None for the handle of one that is closed
        "Tensor": READERS.plain_type or Nobody,
        "chosen": slow.chosen,
        "constants": CONSTANTS,
        "device": device,
        "epoch": EPOCH,
        "failed": slow.failed,
        "followed": followed,
        "guard": (lambda *_: False, None, *(nobody for _ in (*contract.others, *contract.keyed))),
        "handles": HANDLES,
        "known": known,
        "latest": latest,
        "other": latest,
        "other_looks": operator.itemgetter(len(contract.others) + 1),
        "other_stream": operator.itemgetter(len(contract.others)),
        "leased_types": READERS.leased_types,
        "local": LOCAL,
        "n": LOCAL + 1,  # arguments: held by a variable and by their op
        "moved": LOCAL + 2,  # tensors: held by a variable, by the arguments, and by the record of moves
        "no_hint": NO_HINT,
        "none_latest": latest,
        "none_before": remembered,
        "plan_before": None,
        "plans": plans,
        "references": references,
        "repeated": functools.partial(_repeated, known),
        "recent": remembered,
        "slow": slow.slow,
        "unrolled": unrolled,
    }
    exec(compile(source, "<tilec launch path>", "exec"), names)  # noqa: S102 - built from numbers alone
    return Paths(launch=names["launch"], owned=names["owned"], along=names["along"], meet=names["meet"])


def _repeated(known: dict[Any, Any], looks: Any) -> bool:
    """Whether tensors were launched with before; if so, that launch is worth to be kept. Of those that come once, nothing is."""
    if looks in known:
        return known[looks] is None
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known[looks] = None
    return False


def unrolled(call: LaunchCall) -> tuple[Callable[..., Any], Any, Any]:
    """A function and its first two arguments, which do the same with those of the call behind them: one call less where there are such."""
    if isinstance(call, functools.partial) and len(call.args) == 2 and not call.keywords:
        return call.func, *call.args
    return (lambda _first, _second, address, held: call(address, held)), None, None


def _source(contract: Contract, held: str) -> str:
    read = reading(contract, leased=True)
    tensors, others, pairs = contract.tensors, contract.others, contract.pairs
    key, even = key_text(contract)
    free = [i for i in others if i not in contract.keyed]
    # Zeros are packed anew: 0.0 equals -0.0. So are structs: a buffer that equals itself may hold other bytes than before.
    always = bool(contract.structs)
    changed = " or ".join(["not same", *(f"not a{i}" for i in free)])
    apart = f"""
            {"".join(f"b{out}_{other}, t{out}_{other}, " for out, other in pairs).rstrip()} = plan.bounds
            if {" or ".join(f"b{out}_{other} < p{other} - p{out} < t{out}_{other}" for out, other in pairs)}:
                plan.recheck(values)
"""
    facts = {
        "unpack": unpacking(contract),
        "held": held,
        "key": key,
        **_recent(contract),
        **_guarding(contract, even),
        **_owning(contract),
    }
    tail = {
        "packed": tuple_text([*(f"p{i}" for i in tensors), *(f"a{i}" for i in free)]),
        "changed": "True" if always else changed,
        "apart": apart.strip("\n") if pairs else "",
        **facts,
    }
    again = TAIL.format(often=f"same and t is Tensor and {facts['constant']}", remember=f"recent = {facts['remembered']}", **tail)
    noted = f"other = latest; latest = known[s, looks] = {facts['noted']}"
    owned = TAIL.format(often="same or repeated((s, looks))", remember=noted, **tail)
    return PATHS.format(
        tail=again.strip("\n"),
        tail_of_owned=owned.strip("\n"),
        read="\n".join(f"            {line}" for line in read) or "                pass",
        kind=f"type(a{tensors[0]})" if tensors else "None",
        **facts,
    )


def _recent(contract: Contract) -> dict[str, str]:
    """What the last launch of tilec's own tensors is remembered as, and told by: the same looks, which no other kind of tensor has, the
    same numbers and stream. In the same epoch that is all; in another, the stream has to be in order with all memory, without claims.
    """
    own = [f"a{i}._look is q{i}" for i in contract.tensors]
    numbers = [f"a{i} is q{i}" for i in contract.others]
    free = [f"{ordered(contract, i)} and not a{i}.lease._held" for i in contract.tensors]
    kept = [f"l{i}" if i in contract.tensors else f"a{i}" for i in range(len(contract.params))]
    lasting = [*(f"type(a{i}) is Tensor" for i in contract.tensors), *(f"type(a{i}) in constants" for i in contract.others)]
    same = f"{''.join(f'q{i}, ' for i in range(len(contract.params)))}qs, function, first, second, address, parts, packed, "
    return {
        "same": f"{same}looked",
        "same_now": f"{same}now",
        "known": " and ".join(["qs == s", *own, *numbers]) if contract.tensors else "False",
        "free": " and ".join(free) or "True",
        "constant": " and ".join(lasting) or "False",
        "remembered": f"({''.join(f'{name}, ' for name in kept)}s, *unrolled(call), block.address, (plan, call, block), packed, now)",
    }


def _owning(contract: Contract) -> dict[str, str]:
    """Launches of ops: tensors have moved into them, so nobody else uses them; the execution sees to their order."""
    tensors, others = contract.tensors, contract.others
    touch, inside = [], []
    for i in tensors:
        write = contract.params[i].out
        touch += [f"m = a{i}.storage", "u = ctx._touched.get(id(m))"]
        touch += [f"if u is None{' or not u[1]' if write else ''}:", f"    ctx.{'writes' if write else 'reads'}(m)"]
        inside.append(f"a{i}._within is wrote" if write else f"(a{i}._within is read or a{i}._within is wrote)")
    return {
        "touch": "\n".join(f"        {line}" for line in touch) or "        pass",
        "inside": " and ".join(inside) or "False",
        "alone": " and ".join(f"references(a{i}) == moved" for i in tensors) or "False",
        "alone_here": " and ".join(f"count(a{i}) == there" for i in tensors) or "False",
        "latest": f"{''.join(f'q{i}, ' for i in others)}qs, ql, function, first, second, address, parts, packed",
        "second_latest": f"{''.join(f'o{i}, ' for i in others)}os, ol, ofunction, ofirst, osecond, oaddress, oparts, opacked",
        "numbers": "".join(f" and a{i} is q{i}" for i in others),
        "second_numbers": "".join(f" and a{i} is o{i}" for i in others),
        "drop": " = ".join(["values", *(f"a{i}" for i in range(len(contract.params)))]),
        "looked": "".join(f"a{i}._look, " for i in tensors).rstrip() or "()",
        "looks": "\n".join(f"        p{i}, f{i} = looks[{place}]" for place, i in enumerate(tensors)) or "        pass",
        "noted": f"({''.join(f'a{i}, ' for i in others)}s, looks, *unrolled(call), block.address, (plan, call, block), packed)",
        "raw": tuple_text([f"a{i}.raw()" if i in tensors else f"a{i}" for i in range(len(contract.params))]),
    }


def _guarding(contract: Contract, even: str) -> dict[str, str]:
    """What torch tensors are told by. Where an address decides the launch, nothing is: each has a plan of its own."""
    others, keyed = contract.others, contract.keyed
    tensors = ", ".join(f"a{i}" for i in contract.tensors)
    rest = [*(f"type(a{i}) is g{i}" for i in others), *(f"a{i} == k{i}" for i in keyed)]
    return {
        "guard": f"check, guarded, {''.join(f'g{i}, ' for i in others)}{''.join(f'k{i}, ' for i in keyed)}".rstrip(),
        "guarded": " and ".join([f"check({tensors})", *rest]),
        "guards": f"(made, plan, {''.join(f'type(a{i}), ' for i in others)}{''.join(f'a{i}, ' for i in keyed)})",
        "addresses": "; ".join(f"p{i} = a{i}.data_ptr()" for i in contract.tensors) or "pass",
        "even": "False" if contract.pointed else even,
        "tensors": tensors,
    }
