"""Steps of programs that build ops, and put them together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.deferred import (
    Copy,
    Deferred,
    Once,
    element,
    first_handle,
    launch,
    launch_wrong,
    listed,
    unwrap,
)
from tests.programs.model import Handle, Kind, RefusedError, Wrong, unreadable, unwritable
from tests.programs.tensor_steps import BYTES, contents, slot
from tests.programs.world import SIZES, Numbers, World
from tilec_runtime import (
    DeviceOp,
    ExecutionContext,
    SharedTensor,
    Tensor,
    TensorMut,
    TensorView,
    as_op,
    with_context,
    zip_ops,
)
from tilec_runtime.errors import NestedExecutionError, UsageError, UsedOpError
from tilec_runtime.tensors.partition import Partition


class MineError(Exception):
    """What functions of programs raise."""


def lazy(w: World, n: Numbers) -> None:
    """An op of a launch, of tensors or of ops that give them."""
    handles = [slot(w, number) for number in (n.a, n.b, n.c)]
    if n.d % 4 and handles[0] is not None:
        same = [h for h in w.slots if h.size == handles[0].size]
        handles[1:] = [same[number % len(same)] for number in (n.b, n.c)]
    arguments: list[Any] = list(handles)
    if n.d // 4 == 1 and w.ops:
        arguments[n.b % 3] = picked(w, w.ops[n.c % len(w.ops)], written=not n.b % 3)
    if None in arguments:
        return
    reals = [argument.real for argument in arguments]
    inner = [argument for argument in arguments if isinstance(argument, Deferred)]
    w.ops += inner
    wrong = launch_wrong(arguments, w.who)
    real = w.attempt(wrong, lambda: w.site.lazy(*reals))
    for op in inner:
        w.ops.remove(op)
    if wrong:
        return
    built = launch(arguments, w.who, w.site.extra)
    for op in inner:
        op.take(f"moved into {w.who}")
    w.launches.append(built)
    w.add_op(Deferred(real, built.run, [built], alone=any(op.alone for op in inner)))


def picked(w: World, op: Deferred, *, written: bool) -> Deferred | None:
    """An op that gives one tensor out of the result of another one, or the result where it has
    none.
    """
    if op.used:
        return None
    real = op.real.map(
        lambda found: found if (first := real_first(found, written=written)) is None else first
    )

    def pick(found: Any) -> Any:
        first = first_handle(found, written=written)
        return found if first is None else first

    _forget(w, op)
    return Deferred(real, pick, [], [op], alone=op.alone)


def _forget(w: World, op: Deferred) -> None:
    """An op that moved into another one has no other owner."""
    if op in w.ops and not op.lasting:
        w.ops.remove(op)


def make_later(w: World, n: Numbers) -> None:
    """An op that makes a tensor."""
    size, byte = SIZES[n.a % 2], BYTES[n.b % 4]

    def run() -> Handle:
        mem = w.memory(contents(byte, size))
        return Handle(Kind.OWNED, mem, mem.root, 0, size)

    w.add_op(Deferred(made(w, size, byte), run, []))


def made(w: World, size: int, byte: int) -> DeviceOp[Any]:
    def make(ctx: ExecutionContext) -> Any:
        found = Tensor.uninitialized(
            size,
            "f32",
            driver=ctx.driver,
            ordinal=ctx.device,
            stream=ctx.stream,
            pool=w.pool.handle,
        )
        ctx.driver.fill(ctx.device, found.ptr, byte, found.nbytes, ctx.stream)
        ctx.writes(found.storage)
        return found

    return with_context(make)


def values(w: World, n: Numbers) -> None:
    """An op of a number, of nothing, or of a tensor that stays where it is."""
    h = slot(w, n.b)
    if n.a % 3 == 2 and h is not None:
        w.add_op(Deferred(as_op(h.real), lambda: h, [h], alone=True))
    elif n.a % 3:
        w.add_op(Deferred(as_op(None), lambda: None, []))
    else:
        w.add_op(Deferred(as_op(n.b), lambda: n.b, []))


def together(w: World, n: Numbers) -> None:
    """zip_ops of two or three ops; one that is there twice is refused, and none is taken then."""
    if not w.ops:
        return
    ops = [w.ops[number % len(w.ops)] for number in (n.a, n.b, n.c)[: 2 + n.d % 2]]
    wrong = [reason for op in ops for reason in used(op)]
    if any(op is other for place, op in enumerate(ops) for other in ops[:place] if not op.lasting):
        wrong.append(Wrong(UsedOpError, ("was used before", "moved into zip_ops")))
    real = w.attempt(wrong, lambda: zip_ops(*[op.real for op in ops]))
    if wrong:
        return
    _combined(w, ops, "zip_ops", real, lambda *found: found)


def _combined(
    w: World,
    ops: list[Deferred],
    where: str,
    real: Any,
    model: Callable[..., Any],
    *,
    alone: bool = False,
    parts: Any = (),
) -> None:
    alone = alone or any(op.alone for op in ops)
    for op in ops:
        op.take(f"moved into {where}")
        _forget(w, op)

    def run(*found: Any) -> Any:
        w.sweep()  # the sources have run: what they alone kept is gone
        return model(*found)

    w.add_op(Deferred(real, run, list(parts), list(ops), alone=alone))
    for op in ops:
        if op.used:
            w.attempt(used(op), op.real.sync)


def on(step: Callable[[World, Numbers, Deferred], None]) -> Callable[[World, Numbers], None]:
    """Give a step one of the program's ops, which may be used up."""

    @functools.wraps(step)
    def taken(w: World, n: Numbers) -> None:
        if w.ops:
            step(w, n, w.ops[n.a % len(w.ops)])

    return taken  # type: ignore[return-value]


def used(op: Deferred) -> list[Wrong]:
    return [Wrong(UsedOpError, ("was used before", op.used))] if op.used else []


@on
def chain(w: World, n: Numbers, op: Deferred) -> None:
    """map, inspect, first, last, unshare."""
    verb = ("map", "inspect", "first", "last", "unshare")[n.b % 5]
    functions: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
        "map": (lambda: op.real.map(lambda found: (found, n.c)), lambda found: (found, n.c)),
        "inspect": (lambda: op.real.inspect(lambda found: n.c), lambda found: found),
        "first": (lambda: op.real.first(), lambda found: element(found, 0)),
        "last": (lambda: op.real.last(), lambda found: element(found, -1)),
        "unshare": (lambda: op.real.unshare(), unwrap),
    }
    act, model = functions[verb]
    real = w.attempt(used(op), act)
    if op.used:
        return
    _combined(w, [op], verb, real, model, alone=verb == "unshare")


@on
def then(w: World, n: Numbers, op: Deferred) -> None:
    """`then` with a function that makes tensors, launches, waits, or fails."""
    if op.used:
        return
    captured = slot(w, n.c)
    kind = n.b % 8
    if kind in (0, 1) and captured is None:
        kind = 2
    real_function, model = _THEN[kind](w, captured, n.d)
    parts = [captured] if kind in (0, 1) else []
    _combined(
        w,
        [op],
        "then",
        op.real.then(real_function),
        model,
        alone=kind in (0, 1),
        parts=parts,
    )


Functions = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def _run_launch(w: World, arguments: list[Any]) -> Any:
    if wrong := launch_wrong(arguments, w.who):
        raise RefusedError(wrong)
    return launch(arguments, w.who, w.site.extra).run()


def _then_read(w: World, captured: Any, _: int) -> Functions:
    """Launch into the result, out of a tensor that the function holds."""
    x = captured.real

    def real(found: Any) -> Any:
        z = real_first(found, written=True)
        return as_op(found) if z is None else w.site.lazy(z, x, x)

    def model(found: Any) -> Any:
        z = first_handle(found, written=True)
        return found if z is None else _run_launch(w, [z, captured, captured])

    return real, model


def _then_write(w: World, captured: Any, _: int) -> Functions:
    """Launch out of the result, into a tensor that the function holds."""
    z = captured.real

    def real(found: Any) -> Any:
        x = real_first(found, written=False)
        return as_op(found) if x is None else w.site.lazy(z, x, x)

    def model(found: Any) -> Any:
        x = first_handle(found, written=False)
        return found if x is None else _run_launch(w, [captured, x, x])

    return real, model


def _then_new(w: World, _: Any, number: int) -> Functions:
    """Launch into a new tensor, out of a view of the result."""
    byte = BYTES[number % 4]

    def real(found: Any) -> Any:
        x = real_first(found, written=False)
        if x is None:
            return as_op(found)
        return (
            made(w, x.size, byte)
            .then(lambda z: w.site.lazy(z, x.borrow(), x.borrow()))
            .map(lambda all_of_it: (found, all_of_it[0]))
        )

    def model(found: Any) -> Any:
        x = first_handle(found, written=False)
        if x is None:
            return found
        if wrong := unreadable(x, "the borrow"):
            raise RefusedError(wrong)
        mem = w.memory(x.data + x.data)
        return found, Handle(Kind.OWNED, mem, mem.root, 0, x.size)

    return real, model


def _then_copy(_w: World, _: Any, __: int) -> Functions:
    """Copy the result to the host."""

    def real(found: Any) -> Any:
        x = real_first(found, written=False)
        return (
            as_op(found)
            if x is None or x.storage.owner is not None
            else with_context(lambda ctx: (found, _to_host(ctx, x)))
        )

    def model(found: Any) -> Any:
        x = first_handle(found, written=False)
        if x is None or x.mem.foreign:
            return found
        if wrong := unreadable(x, "the borrow"):
            raise RefusedError(wrong)
        return found, Copy(x.data.copy())

    return real, model


def _to_host(ctx: ExecutionContext, x: Any) -> np.ndarray:
    with x.borrow() as read:
        back = np.empty(x.shape, np.float32)
        ctx.reads(read.storage)
        ctx.memcpy_dtoh_async(back, read.ptr)
        return back


def _then_raise(_w: World, _: Any, number: int) -> Functions:
    def real(_: Any) -> Any:
        raise MineError(f"number {number}")

    return real, _refuse(Wrong(MineError, (f"number {number}",)))


def _then_nothing(_w: World, _: Any, __: int) -> Functions:
    return lambda _: 5, _refuse(Wrong(UsageError, ("the function of `then` gave a int",)))


def _then_nested(w: World, _: Any, number: int) -> Functions:
    def real(_: Any) -> Any:
        inner = as_op(number)
        return inner.future() if number % 2 else inner.sync_on(w.site.streams[0])

    return real, _refuse(
        Wrong(NestedExecutionError, ("cannot be executed while this thread executes",))
    )


def _refuse(wrong: Wrong) -> Callable[[Any], Any]:
    def model(_: Any) -> Any:
        raise RefusedError([wrong])

    return model


_THEN = (
    _then_read,
    _then_write,
    _then_new,
    _then_copy,
    _then_new,
    _then_raise,
    _then_nothing,
    _then_nested,
)


@on
def unchecked(w: World, n: Numbers, op: Deferred) -> None:
    """`then_unchecked` with a function that executes a launch itself, in one of the ways to do so,
    maybe on another stream.
    """
    if op.used:
        return
    captured = slot(w, n.c)
    kind = n.b % 3 if captured is not None else 2
    real_function, model = _THEN[kind](w, captured, n.d)
    ways: tuple[Callable[[Any], Any], ...] = (
        lambda inner: inner.sync(),
        lambda inner: inner.sync_on(
            w.site.streams[n.d % 3]
        ),  # the one of then: streams are closed and replaced
        lambda inner: inner.enqueue_on(w.site.streams[n.d % 3]),
        lambda inner: inner.future().result(30),
    )

    def nested(found: Any) -> Any:
        return as_op(ways[n.b // 2](real_function(found)))

    parts = [captured] if kind in (0, 1) else []
    _combined(
        w,
        [op],
        "then_unchecked",
        op.real.then_unchecked(nested),
        model,
        alone=kind in (0, 1),
        parts=parts,
    )


@on
def share_op(w: World, n: Numbers, op: Deferred) -> None:
    real = w.attempt(used(op), op.real.shared)
    if op.used:
        return
    if op.lasting:
        w.add_op(Deferred(real, op.body, op.parts, alone=op.alone, lasting=True))
        return
    op.take("moved into shared")
    _forget(w, op)
    once = Once(op)
    w.add_op(Deferred(real, once.share, [once], alone=op.alone, lasting=True))


@on
def unzip(w: World, n: Numbers, op: Deferred) -> None:
    count = 2 + n.b % 3
    reals = w.attempt(used(op), lambda: op.real.unzip(count))
    if op.used:
        return
    op.take("moved into")
    _forget(w, op)
    once = Once(Deferred(None, listed, [], [op]))
    for place in range(count):
        w.add_op(
            Deferred(
                reals[place], lambda place=place: once.pick(place, count), [once], alone=op.alone
            )
        )  # type: ignore[misc]


def real_first(found: Any, *, written: bool) -> Any:
    """As `first_handle`, of what is really there."""
    if isinstance(found, tuple):
        return next(
            (first for part in found if (first := real_first(part, written=written)) is not None),
            None,
        )
    return (
        found
        if isinstance(
            found, (Tensor, TensorMut, Partition) if written else (Tensor, SharedTensor, TensorView)
        )
        else None
    )


def broken(w: World, n: Numbers) -> None:
    """A kernel fails: who waits is told, and everything else goes on, also what was borrowed for
    the launch.
    """
    x, t = slot(w, n.a), slot(w, n.b, Kind.OWNED)
    if (
        x is None
        or t is None
        or x.size != t.size
        or x.mem is t.mem
        or unreadable(x, "it")
        or unwritable(t, "it")
        or x.kind in _MOVES
    ):
        return
    with t.real.borrow_mut() as z:
        op = w.site.broken(z, x.real, x.real)
        if op is None:
            return
        runs = (
            op.sync,
            lambda: op.sync_on(w.site.streams[n.c % 3]),
            lambda: op.future().result(),
            lambda: _raised(op.future()),
        )
        w.attempt([Wrong(OSError, ("the kernel failed",))], runs[n.d % 4], settled=False)
        if x.claim is not None:
            x.claim.let_go()
        w.site.launch(w.site.streams[n.d % 3], z, x.real, x.real)
    t.mem.loose = x.mem.loose = True  # errors have frames
    t.data[:] = x.data + x.data


_MOVES = (Kind.OWNED, Kind.PART)


def _raised(future: Any) -> None:
    error = future.exception()
    assert error is not None
    raise error
