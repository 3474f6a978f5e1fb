"""Steps of programs that run ops: on a stream or a policy's, waiting or not, in threads and in
loops that tasks are cancelled in.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

import trio

from tests.programs.deferred import Deferred
from tests.programs.model import Wrong
from tests.programs.world import Numbers, Pending, World
from tests.waiting import PATIENCE
from tilec_runtime import SingleStream, Stream, StreamPoolRoundRobin, use_device, use_policy
from tilec_runtime.errors import SchedulingError, UsedOpError


class OwnPolicy:
    """A policy that is no class of tilec: the stream that is in one place now."""

    def __init__(self, streams: list[Stream], place: int = 0) -> None:
        self.streams, self.place = streams, place

    def next_stream(self) -> Stream:
        return self.streams[self.place]


def fresh(step: Callable[[World, Numbers, Deferred], None]) -> Callable[[World, Numbers], None]:
    """Give a step an op to run; one that was used before is refused, in whatever way it is run."""

    @functools.wraps(step)
    def taken(w: World, n: Numbers) -> None:
        if not w.ops:
            return
        op = w.ops[n.a % len(w.ops)]
        if not op.used:
            step(w, n, op)
            return
        real, stream = op.real, w.site.streams[0]
        ways = (
            real.sync,
            lambda: real.sync_on(stream),
            real.future,
            lambda: real.enqueue_on(stream),
        )
        for way in ways:
            w.attempt([Wrong(UsedOpError, ("was used before", op.used, "created at"))], way)
        w.ops.remove(op)

    return taken  # type: ignore[return-value]


@fresh
def run(w: World, n: Numbers, op: Deferred) -> None:
    """Run an op, in one of the ways that wait."""
    stream, real = w.site.streams[n.c % 3], op.real
    ways: tuple[Callable[[], Any], ...] = (
        real.sync,
        lambda: real.sync_on(stream),
        lambda: real.sync_on(stream.handle),
        lambda: real.future().result(30),
        lambda: real.schedule(OwnPolicy([stream])).result(),
        lambda: in_loops([real], n.c, [])[0],
        lambda: in_threads(w, [real])[0],
        lambda: _unchecked(real, stream),
    )
    result, wrong = w.run_model(op)
    found = w.attempt(wrong, ways[n.b], settled=False)
    if n.b in (3, 4, 5, 6):  # a completion thread may be in the middle of it
        _loosen(w, result)
    if not wrong:
        w.give(result, found, keep=bool(n.d))


def _unchecked(real: Any, stream: Stream) -> Any:
    found = real.enqueue_on(stream)
    stream.sync()
    return found


@fresh
def enqueue(w: World, n: Numbers, op: Deferred) -> None:
    """Enqueue an op and go on; copies to the host would have to wait."""
    result, wrong = w.run_model(op)
    stream = w.site.streams[n.b % 3]
    found = w.attempt(wrong, lambda: op.real.enqueue_on(stream), settled=False)
    if not wrong:
        stream.sync() if n.c % 2 or _copies(result) else None
        w.give(result, found, keep=bool(n.d))


def _copies(result: Any) -> bool:
    return (
        any(map(_copies, result)) if isinstance(result, tuple) else type(result).__name__ == "Copy"
    )


@fresh
def future(w: World, n: Numbers, op: Deferred) -> None:
    result, wrong = w.run_model(op)
    real = op.real.schedule(OwnPolicy(w.site.streams, n.c % 3)) if n.b % 2 else op.real.future()
    w.add_future(Pending(real, result, wrong))
    if wrong:
        _drop_frames(real.exception())
        _loosen(w)


def _drop_frames(error: BaseException | None) -> None:
    """Drop the frames of a future's error: they and their functions' closures keep tensors."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def finish(w: World, n: Numbers) -> None:
    """Take a future's result."""
    if not w.futures:
        return
    pending = w.futures.pop(n.a % len(w.futures))
    real = pending.real
    ways = (lambda: real.result(), lambda: real.result(30), lambda: in_loops([real], n.c, [])[0])
    found = w.attempt(pending.wrong, ways[n.b % 3], settled=False)
    _loosen(w, pending.result)
    if not pending.wrong:
        assert real.done()
        assert real.exception() is None
        w.give(pending.result, found, keep=bool(n.d))


def together(w: World, n: Numbers) -> None:
    """Run ops at the same time: in threads, or in tasks of which some are cancelled on the way."""
    ops = [op for op in w.ops if not op.used and not op.alone][: 2 + n.a % 3]
    if not ops:
        return
    if n.b % 3 and ops[0].lasting:
        ops = [ops[0]] * 3 + ops[1:]
    cancelled = [place for place in range(len(ops)) if n.b % 3 and n.d >> place & 1]
    models = [w.run_model(op) for op in ops]
    reals = [op.real for op in ops]
    found = (
        in_loops(reals, n.c, cancelled, alone=False)
        if n.b % 3
        else in_threads(w, reals, raising=False)
    )
    for place, ((result, wrong), real) in enumerate(zip(models, found, strict=True)):
        if place in cancelled:
            w.lose(result)
        elif wrong:
            assert any(reason.fits(real) for reason in wrong), f"{real!r} for {wrong}"
        else:
            assert not isinstance(real, BaseException), repr(real)
            w.give(result, real)
    _loosen(w, tuple(result for result, _ in models))


def _loosen(w: World, result: Any = None) -> None:
    """Tracebacks and loops hold on to things until the collector comes."""
    w.lose(result)
    for handle in w.slots:
        handle.mem.loose = True


def in_threads(w: World, reals: list[Any], *, raising: bool = True) -> list[Any]:
    """Results of ops, or their errors, each in a thread of its own."""
    found: list[Any] = [None] * len(reals)
    start = threading.Barrier(len(reals), timeout=PATIENCE)

    def use(place: int, op: Any) -> None:
        start.wait(30)
        with use_device(w.site.device):
            try:
                found[place] = op.sync()
            except Exception as error:  # noqa: BLE001 - is looked at by who started the thread
                found[place] = error

    threads = [threading.Thread(target=use, args=pair) for pair in enumerate(reals)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "an op hangs"
    errors = [error for error in found if isinstance(error, Exception)]
    if raising and errors:
        raise errors[0]
    return found


def in_loops(
    reals: list[Any], number: int, cancelled: list[int], *, alone: bool = True
) -> list[Any]:
    """Results of ops that are awaited under asyncio or trio, or their errors where there are
    several; tasks are cancelled once they have begun.
    """
    if number % 2:
        return asyncio.run(_in_asyncio(reals, cancelled, alone))
    return trio.run(_in_trio, reals, cancelled, alone)


async def _awaited(op: Any) -> Any:
    return await op


async def _in_asyncio(reals: list[Any], cancelled: list[int], alone: bool) -> list[Any]:
    tasks = [asyncio.ensure_future(_awaited(op)) for op in reals]
    await asyncio.sleep(0)
    for place in cancelled:
        tasks[place].cancel()
    return list(await asyncio.gather(*tasks, return_exceptions=not alone))


async def _in_trio(reals: list[Any], cancelled: list[int], alone: bool) -> list[Any]:
    found: list[Any] = [None] * len(reals)
    scopes = [trio.CancelScope() for _ in reals]

    async def one(place: int) -> None:
        with scopes[place]:
            try:
                found[place] = await reals[place]
            except Exception as error:  # noqa: BLE001 - is looked at by who started the loop
                found[place] = error

    async with trio.open_nursery() as tasks:
        for place in range(len(reals)):
            tasks.start_soon(one, place)
        await trio.lowlevel.checkpoint()
        for place in cancelled:
            scopes[place].cancel()
    if alone and isinstance(found[0], Exception):
        raise found[0]
    return found


@fresh
def closed(w: World, n: Numbers, op: Deferred) -> None:
    """A stream or a policy that is closed runs nothing, and the op can be run elsewhere."""
    stream = Stream(w.site.device, driver=w.site.driver)
    stream.close()
    policy = SingleStream(w.site.device)
    policy.close()
    calls = (
        lambda: op.real.sync_on(stream),
        lambda: op.real.enqueue_on(stream),
        lambda: op.real.schedule(policy).result(),
    )
    w.attempt([Wrong(SchedulingError, ("is closed",))], calls[n.b % 3], settled=False)


def policy(w: World, n: Numbers) -> None:
    """The rest of the program is run with another policy."""
    device = w.site.device
    made = (None, SingleStream(device), StreamPoolRoundRobin(2, device), OwnPolicy(w.site.streams))[
        n.a % 4
    ]
    old, w.policy = w.policy, made
    with contextlib.suppress(AttributeError):
        old.close()


def within(w: World) -> Any:
    """The defaults that a step runs with."""
    return contextlib.nullcontext() if w.policy is None else use_policy(w.policy)
