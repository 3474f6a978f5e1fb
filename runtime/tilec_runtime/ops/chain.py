"""Chains: an op and the functions that go on with its result, in one loop, however many there are."""

# ruff: noqa: SLF001 - it does to ops and contexts what their methods would in more time
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, final

from tilec_runtime.errors import CallError, Location
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.ops.site import label
from tilec_runtime.ops.tensor_steps import RUNS
from tilec_runtime.running import executing
from tilec_runtime.sites import created, site

# A step of a chain: verb, function, and call site.
Step = tuple[str, Callable[[Any], Any], Location | None]
# Steps of a chain that its repr shows.
_SHOWN = 4
# The step whose function may execute ops itself.
_UNCHECKED = "then_unchecked"


class _Line:
    """What all ops of a chain share: the op that it begins with, and the steps behind that."""

    __slots__ = ("name", "source", "steps", "unchecked")

    def __init__(self, source: DeviceOp[Any]) -> None:
        self.name = ""  # of all of it, once it has run
        self.source = source
        self.steps: list[Step] = []
        self.unchecked = False  # whether a step is `then_unchecked`


@final
class Chain(DeviceOp[Any]):
    """An op and the steps behind it, in one list: a chain of thousands is as deep as one of two."""

    __slots__ = ("_line",)

    def __init__(self, line: _Line, step: Step) -> None:
        """Add a step; made by the methods of ops."""
        self._line = line
        line.steps.append(step)
        line.unchecked |= step[0] == _UNCHECKED

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

    def _chain(self, verb: str, function: Callable[[Any], Any]) -> DeviceOp[Any]:
        place = site()
        self._take(f"moved into {verb}", place)
        return Chain(self._line, (verb, function, place))

    def _discard(self) -> None:
        self._line.source._discard()

    def _require_here(self, ctx: ExecutionContext) -> None:
        self._require_now(ctx)
        self._line.source._require_here(ctx)

    def _require_now(self, ctx: ExecutionContext) -> None:
        if self._line.unchecked:
            cause = "its function may execute ops, which is done now and not at each replay"
            ctx.refuse_capture(
                _UNCHECKED,
                cause=cause,
                fix="use `then`, or capture the ops step by step: CudaGraph.scope",
            )

    def _execute(self, ctx: ExecutionContext) -> Any:
        self._require_now(ctx)
        source, steps = self._opened()
        value = source._run_in(ctx)
        del source
        # Chains that functions of `then` return run in this loop too, on a stack of its own, so
        # that their depth has no limit.
        outer: list[Iterator[tuple[int, Step]]] = []
        while True:
            numbered = next(steps, None)
            if numbered is None:
                if not outer:
                    return value
                steps = outer.pop()
                continue
            number, (verb, function, place) = numbered
            try:
                if verb == _UNCHECKED:
                    with executing(None):
                        value = function(value)
                else:
                    value = function(value)
                    if verb not in RUNS:
                        continue
                _require_op(value, verb)
                value._take("executed as a part of another op")
                if type(value) is Chain:
                    outer.append(steps)
                    value, steps = value._opened()
                value = value._run_in(ctx)
            except BaseException as error:
                label(error, created(verb, place), "" if place else f", step {number}")
                raise

    def _opened(self) -> tuple[DeviceOp[Any], Iterator[tuple[int, Step]]]:
        """What it is made of. Nothing of the chain outlives its execution: what the functions hold
        may be tensors.
        """
        line = self._line
        source, steps = line.source, line.steps
        line.name = self.name
        line.source, line.steps = _NOTHING, []
        return source, iter(enumerate(steps, 1))


def begun(source: DeviceOp[Any], step: Step) -> Chain:
    """The op that another one is, which was taken, with a step behind it."""
    return Chain(_Line(source), step)


def _require_op(value: Any, verb: str) -> None:
    if isinstance(value, DeviceOp):
        return
    what = f"the function of `{verb}` gave a {type(value).__qualname__}, and not a DeviceOp"
    raise CallError(what, fix="return an op, value(x) for one that is only a value, or use `map`")


class _Nothing(DeviceOp[None]):
    """In place of a chain's source once it has run."""

    def _execute(self, ctx: ExecutionContext) -> None:
        """It is used up before."""


_NOTHING = _Nothing()
