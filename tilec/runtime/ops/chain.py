"""Chains: an op and the functions that go on with its result, in one loop, however many there are."""

# ruff: noqa: SLF001 - it does to ops, contexts and moves what their methods would in more time
from __future__ import annotations

from collections.abc import Callable, Iterator
from sys import _getframe
from types import FunctionType
from typing import Any, TypeVar, final

from tilec.errors import UsageError
from tilec.runtime.ops.context import ExecutionContext
from tilec.runtime.ops.op import COROUTINE, IS_OP, DeviceOp, require_function
from tilec.runtime.ops.passing import passing
from tilec.runtime.ops.site import Site, label, location, site
from tilec.runtime.ops.taking import hinted
from tilec.runtime.ops.tensor_steps import MOVES, RUNS
from tilec.runtime.references import LOCAL, references

U = TypeVar("U")
# A step of a chain: verb, function (None where it was called already), and place.
Step = tuple[str, Callable[[Any], Any] | None, Site]
# A call of `then`: function, code and offset of who called, and the step.
_Call = tuple[object, object, int, Any]
_NO_CALL: _Call = (None, None, 0, None)
# Steps of a chain that its repr shows.
_SHOWN = 4
_new: Any = object.__new__


class _Line:
    """What all ops of a chain share: the op that it begins with, the steps behind that, and how `then` was called last."""

    __slots__ = ("last", "name", "source", "steps")

    def __init__(self, source: DeviceOp[Any]) -> None:
        self.name = ""  # of all of it, once it has run
        self.source = source
        self.steps: list[Step] = []
        self.last: _Call = _NO_CALL

    def met(self, function: Callable[[Any], Any], place: Site) -> Step:
        """The step that a call of `then` adds: the same one for each call of a loop, which is how chains grow long."""
        if type(function) is not FunctionType or function.__code__.co_flags & COROUTINE:
            require_function("then", function)
        step: Step = ("then", function, place)
        self.last = (function, *place, step)
        return step


@final
class Chain(DeviceOp[Any]):
    """An op and the steps behind it, in one list: a chain of thousands is as deep as one of two."""

    # `_before`: the op that this one was made of by `then`, until this one is used: the next op is made of it where nobody else has it.
    __slots__ = ("_before", "_line")
    _before: Chain | None
    _line: _Line

    @property
    def name(self) -> str:
        """`zip.then.map`."""
        line = self._line
        first, steps = line.source.name, line.steps
        if line.name:
            return line.name
        if len(steps) > _SHOWN:
            return f"{first}.{steps[0][0]} … {steps[-1][0]} ({len(steps)} steps)"
        return ".".join([first, *(verb for verb, _, _ in steps)])

    def then(self, function: Callable[[Any], DeviceOp[U]]) -> DeviceOp[U]:
        """As that of any op, in one call: chains grow step by step."""
        line, frame = self._line, _getframe(1)
        last, code, offset, step = line.last
        if function is not last or frame.f_code is not code or frame.f_lasti != offset:
            step = line.met(function, (code, frame.f_lasti) if frame.f_code is code else site(2))
        place = step[2]
        try:
            self._fresh.pop()
        except IndexError:
            raise self._used() from None
        self._gone = place
        made, self._before = self._before, None
        if made is not None and references(made) == LOCAL:
            made._fresh.append(None)
        else:
            made = _new(Chain)
            made._fresh, made._line = [None], line
        made._site, made._before = place, self
        line.steps.append(step)
        return made

    def _chain(self, verb: str, function: Callable[[Any], Any]) -> DeviceOp[Any]:
        place = site(3)
        self._take(f"moved into {verb}", place)
        return _grown(self._line, (verb, function, place))

    def _discard(self) -> None:
        self._line.source._discard()

    def _require_here(self, ctx: ExecutionContext) -> None:
        self._line.source._require_here(ctx)

    def _execute(self, ctx: ExecutionContext) -> Any:
        moves, way_of = ctx._moves, ctx._ways.get
        outside, start = ctx._joins, len(moves) + 1
        ctx._joins = start
        source, left = self._opened()
        value = source._run_in(ctx)
        del source
        here = site()
        # Chains that functions of `then` gave run in this loop too, on a stack of its own: they may be as deep as one likes.
        outer: list[tuple[Iterator[Step], int]] = []
        way: object = None  # of the launch before
        handed: list[Any] = []
        step: Step | None = None
        while True:
            if step is None:
                step = next(left, None)
                if step is None:
                    if not outer:
                        ctx._joins = outside
                        return value
                    left, start = outer.pop()
                    ctx._joins = start
                    if len(moves) > start:
                        joined(moves)
                    continue
            (verb, function, place), step = step, None
            try:
                if function is not None:
                    value = _moved(ctx, value, function) if verb in MOVES else function(value)
                    if verb not in RUNS:
                        continue
                before, way = way, getattr(value, "_way", None)  # what is no op at all has none
                launcher = way_of(way)
                if launcher is not None and references(value) == LOCAL:  # nobody sees this op any more
                    if way is before:
                        handed, value = [value], None  # it is the only one who has it
                        value, step = launcher.along(ctx, handed, left, _told, hinted, passing)
                    else:
                        try:
                            value = launcher.owned(ctx, value)
                        except BaseException as error:
                            value._failed(error)
                            raise
                    continue
                _require_op(value)
                if type(value) is not Chain:
                    value = value._run_step(ctx, here)
                    if len(moves) > start:
                        joined(moves)
                    continue
                value._take("executed as a part of another op", here)
                outer.append((left, start))
                ctx._joins = start = len(moves) + 1
                inner, left = value._opened()
                value = inner._run_in(ctx)
                del inner
            except BaseException as error:
                if handed:
                    handed.pop()._failed(error)
                _told(error, verb, place)
                raise

    def _opened(self) -> tuple[DeviceOp[Any], Iterator[Step]]:
        """What it is made of. Nothing of the chain outlives its execution: what the functions hold may be tensors."""
        self._before, line = None, self._line
        source, steps = line.source, line.steps
        line.name = self.name
        line.source, line.steps, line.last = _NOTHING, [], _NO_CALL
        return source, iter(steps)


def begun(source: DeviceOp[Any], step: Step) -> Chain:
    """The op that another one is, which was taken, with a step behind it."""
    return _grown(_Line(source), step)


def _grown(line: _Line, step: Step) -> Chain:
    """The op that a chain is with one more step."""
    made: Chain = _new(Chain)
    made._site, made._fresh, made._line, made._before = step[2], [None], line, None
    line.steps.append(step)
    return made


def joined(moves: list[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> None:
    """Let tensors that went from launch to launch go back to where the first of these had them from."""
    if len(moves[-1][0]) > 1 and moves[-1][0] == moves[-2][1]:
        _, content = moves.pop()
        moves[-1] = (moves[-1][0], content)


def _moved(ctx: ExecutionContext, value: Any, function: Callable[[Any], Any]) -> Any:
    """A step that uses a tensor up; an execution that fails undoes it."""
    made = function(value)
    if hasattr(value, "take_back"):
        ctx.moved(value, made)
    return made


def _told(error: BaseException, verb: str, place: Site) -> None:
    """Let an error say which step it came out of."""
    label(error, f"{verb}, created at {location(place)}")


def _require_op(value: Any) -> None:
    if IS_OP[type(value)]:
        return
    what = f"the function of `then` gave a {type(value).__qualname__}, and not a DeviceOp"
    raise UsageError(what, fix="return an op, value(x) for one that is only a value, or use `map`")


class _Nothing(DeviceOp[None]):
    """In place of a chain's source once it has run."""

    def _execute(self, ctx: ExecutionContext) -> None:
        """It is used up before."""


_NOTHING = _Nothing()
