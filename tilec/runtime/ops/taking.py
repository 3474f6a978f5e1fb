"""Lazy launches in the usual case: tensors that nobody else uses, and numbers. One function per kernel takes the tensors and makes the op;
like fast paths, it is unrolled over the parameters. No new tensors are made for what moves in and comes out again unless others see them.
"""

# ruff: noqa: SLF001 - it does to tensors and contexts what their methods would in more time
from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from tilec.runtime.contract import Contract
from tilec.runtime.epoch import EPOCH
from tilec.runtime.fastpath import CONSTANTS, NO_HINT
from tilec.runtime.ops.codes import by_code
from tilec.runtime.ops.context import ExecutionContext
from tilec.runtime.references import LOCAL, TURNS, references
from tilec.runtime.tensors.described import Look
from tilec.runtime.tensors.lease import site
from tilec.runtime.tensors.tensor import Tensor

if TYPE_CHECKING:
    from tilec.runtime.ops.lazy import LazyLaunch

Looks = tuple[Look, ...]
# (values, choices, depth) -> an op; `depth` is how many functions lie between this and who is named as the place of the op.
Make = Callable[..., "LazyLaunch[Any]"]
# What a maker finds: at most one op that has run and that nobody has any more, kept for the next launch of the kernel; a hint; and what
# tells the two sets that were taken last. A hint is place, who is noted, two sets, and the epoch in which nobody has claims on them:
# launches of these tensors are made at that place.
Spare = list[Any]
Hint = tuple[Any, Any, Any, Any, Any]

# Between the first look that is taken and the last mark that is set lies nothing at which the interpreter lets other threads run, or raises
# what a signal asks for: calls, and jumps back. A test reads the instructions.
_TEMPLATE = """
def make(values, choices=(), depth=2):
    global before, earlier, caller
    {unpack} = values
    if choices:
        axes, way = chosen(choices)
    op, place, who, one, two, free, _ = spare
    spare[0] = None
    if op is None or op._way is not usual and not choices or free is None and references(op) != {alone}:
        op = new()
        op._axes, op._way = {{}}, usual
    if free is epoch.now:
        try:
            {hint} = one
{expected}
            {hint} = two
{expected}
            if not ({hinted}): who = None
        except AttributeError:
            who = None
    else:
        who = None
    if who is None:
        frame = getframe(depth)
        code, offset, place, who = caller
        if frame.f_code is not code or frame.f_lasti != offset:
            place = (code, frame.f_lasti) if frame.f_code is code else site(depth + 1)
            who = what, place
            if place[0] is frame.f_code:
                caller = *place, place, who
    try:
        {known} = before
        if {same}: {taken} = None; {mark} = who
        else:
            {known} = earlier
            if {same}: {taken} = None; {mark} = who
            else: again = None
    except AttributeError:
        again = None
    if again is None:
        if not ({plain}):
            return make_any(values, choices)
        {take}
        if {refused}:
            {restore}
            return make_any(values, choices)
        {mark} = who
        again = {looks}
        before, earlier = {remembered}, before
    op._values = values
    op._looks = again
    op._site = place
    if choices:
        op._axes, op._way = axes, way
    return op

def latest():
    return before, earlier
"""
# The tensors are those of a set that a hint expects: its text stands in `make` twice, for a loop would cost more.
_EXPECTED = """            if {expected_same}:
                {taken} = None; {mark} = who; op._values = values; op._looks = again; op._site = place
                if choices:
                    op._axes, op._way = axes, way
                return op"""


def make_function(
    contract: Contract,
    new: Callable[[], LazyLaunch[Any]],
    make_any: Make,
    chosen: Callable[[tuple[Any, ...]], tuple[dict[str, Any], object]],
) -> tuple[Make, Spare]:
    """The function that makes ops of a kernel, and where it looks for one that it can use again.

    Args:
        contract: the kernel's.
        new: makes an op without arguments.
        make_any: does the same for all arguments, whatever they are.
        chosen: axes that a caller chose by place, and the way that launches with them have.
    """
    tensors, count = contract.tensors, len(contract.params)
    spare: Spare = [None, *NO_HINT, None]
    if not tensors or not TURNS:
        return make_any, spare
    others, claims = contract.others, " or ".join(f"h{i}" for i in tensors)
    kept = [f"l{i}" if i in tensors else f"a{i}" for i in range(count)]
    plain = [f"type(a{i}) is Tensor" for i in tensors]
    plain += [f"not a{i}._facts.readonly" for i in contract.outs]
    plain += [f"type(a{i}) in constants" for i in others]
    same = " and ".join([*(f"a{i}._look is r{i}" for i in tensors), *(f"a{i} is r{i}" for i in others)])
    taken = {
        "taken": " = ".join(f"a{i}._look" for i in tensors),
        "mark": " = ".join(f"a{i}._moved" for i in tensors),
    }
    source = _TEMPLATE.format(
        **taken,
        same=f"{same} and not ({claims})",
        expected=_EXPECTED.format(expected_same=same, **taken),
        hint=f"{''.join(f'r{i}, ' for i in range(count))}again",
        unpack="".join(f"a{i}, " for i in range(count)).rstrip(),
        # Nobody but the step that a hint is for has what it is about: whatever threads make launches of the kernel, no other one meets it.
        hinted=" or ".join(f"a{tensors[0]}._look is r{i}" for i in tensors),
        alone=LOCAL,  # who follows the calls of an execution may have kept it
        plain=" and ".join(plain),
        take="\n        ".join(f"l{i}, a{i}._look = a{i}._look, None" for i in tensors),
        refused=" or ".join([*(f"l{i} is None" for i in tensors), *(f"a{i}.lease._held" for i in tensors)]),
        restore="\n            ".join(f"if l{i} is not None: a{i}._look = l{i}" for i in tensors),
        looks=f"({''.join(f'l{i}, ' for i in tensors)})",
        # What was taken last, and before that, by its looks: those are the tensor's, and its next owners', alone. Claims are in the same
        # object for as long. Two, for tensors that change places with each step.
        known=f"{''.join(f'r{i}, ' for i in range(count))}{''.join(f'h{i}, ' for i in tensors)}again",
        remembered=f"({''.join(f'{name}, ' for name in kept)}{''.join(f'a{i}.lease._held, ' for i in tensors)}again)",
    )
    nobody = (*(object() for _ in range(count)), *(None for _ in tensors), None)
    names: dict[str, Any] = {
        "__name__": __name__,  # frames of tilec are no place that messages name
        "Tensor": Tensor,
        "before": nobody,
        "caller": (None, 0, None, None),  # who called last, if that is outside of tilec: most calls come from there again
        "chosen": chosen,
        "getframe": _getframe,
        "constants": CONSTANTS,
        "earlier": nobody,
        "epoch": EPOCH,
        "make_any": make_any,
        "new": new,
        "usual": chosen(())[1],
        "references": references,
        "site": site,
        "spare": spare,
        "what": f"the launch of {contract.name}",
    }
    exec(compile(source, "<tilec taking>", "exec"), names)  # noqa: S102 - built from numbers alone
    spare[-1] = names["latest"]
    return names["make"], spare


def hinted(step: object, op: LazyLaunch[Any]) -> Hint:
    """What the next ops of a chain's step are made of, and where, as far as messages tell, so that it is not looked for; none where that
    cannot be known.

    Args:
        step: a function that a chain calls over and over.
        op: what it gave last, from the function of this module.
    """
    now, place, latest = EPOCH.now, op._site, op._origin.spare[-1]
    if op._looks is not None and type(step) is FunctionType and place[0] is step.__code__ and _on_one_line(place[0]):
        tensors = [value for value in op._values if type(value) is Tensor]
        mark = tensors[0]._moved
        looks = {id(look) for look in op._looks}
        # Another thread's, which may have come between, is about other tensors.
        sets = [taken for taken in latest() if taken[-1] is not None and {id(look) for look in taken[-1]} == looks]
        if sets and type(mark) is tuple and mark[1] is place and not any(tensor.lease._held for tensor in tensors):
            first, last = [(*taken[: len(op._values)], taken[-1]) for taken in (sets[0], sets[-1])]
            return place, mark, first, last, now
    return NO_HINT


@by_code
def _on_one_line(code: CodeType) -> bool:
    """Whether all that some code calls is on one line: nothing else of a place is shown."""
    from opcode import opmap

    begin = opmap.get("RESUME")  # on the line of `def`
    units = code.co_code
    lines = {line for start, end, line in code.co_lines() if line is not None and not (end - start == 2 and units[start] == begin)}
    return len(lines) == 1


def settle(ctx: ExecutionContext, values: tuple[Any, ...], looks: Looks, *, alone: bool) -> tuple[Any, ...]:
    """What a launch that was enqueued gives of the tensors that it took: those that nobody else has themselves, a new owner of the others.

    Args:
        ctx: context of the execution.
        values: all arguments.
        looks: that were taken of the tensors among them.
        alone: whether nobody but the caller, and who called that, has `values`.
    """
    given, origins, contents = list(values), [], []
    taken = iter(looks)
    for place in range(len(values)):
        tensor = values[place]
        if type(tensor) is not Tensor:
            continue
        made, mark = tensor, ctx._wrote if ctx._wrote_to(tensor.storage) else ctx._read
        inside = tensor._within is ctx._wrote or tensor._within is ctx._read
        # Held by two variables here and one where the launch was enqueued, the arguments, what is given, and the record of moves.
        if alone and inside and references(tensor) == LOCAL + 5:
            tensor._look, tensor._moved = next(taken), None
        else:
            made = given[place] = owner_of(tensor, next(taken))
            origins.append(tensor)
            contents.append(made)
        made._within = mark
    if origins:
        ctx._moves.append((tuple(origins), tuple(contents)))  # who runs it gives them back where it fails
    return tuple(given)


def give_back(values: tuple[Any, ...], looks: Looks) -> None:
    """Let tensors own again what was taken of them. Takes no lock: the collector may do this anywhere."""
    for tensor, look in zip((value for value in values if type(value) is Tensor), looks, strict=True):
        tensor._look = look
        tensor._moved = None


def owner_of(tensor: Tensor, look: Look) -> Tensor:
    """A new owner of what was taken of a tensor."""
    made = object.__new__(Tensor)
    made.storage, made.lease, made._facts, made._look = tensor.storage, tensor.lease, tensor._facts, look
    made._moved = made._within = None
    EPOCH.end()
    return made
