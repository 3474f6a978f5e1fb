"""Steps of programs that use tensors at once: make, move, view, borrow, share, cut, launch, read,
drop.
"""

from __future__ import annotations

import functools
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.deferred import reached
from tests.programs.model import (
    MOVABLE,
    Handle,
    Kind,
    Wrong,
    dead,
    misfit,
    not_single,
    unmovable,
    unreadable,
    unwritable,
)
from tests.programs.world import SIZES, Numbers, World
from tests.waiting import joined
from tilec_runtime import Stream, Tensor
from tilec_runtime.errors import ArgumentError

BYTES = (0x00, 0x3F, 0x40, 0x41)


def contents(byte: int, size: int) -> np.ndarray:
    return np.full(4 * size, byte, np.uint8).view(np.float32)


def uninitialized(w: World, stream: int, size: int) -> Any:
    site = w.site
    return Tensor.uninitialized(
        size,
        "f32",
        driver=site.driver,
        ordinal=site.device.ordinal,
        stream=stream,
        pool=w.pool.handle,
    )


def make(w: World, n: Numbers) -> None:
    size, byte = SIZES[n.a % 2], BYTES[n.b % 4]
    stream = w.site.streams[n.c % 3].handle
    made = uninitialized(w, stream, size)
    w.site.driver.fill(w.site.device.ordinal, made.ptr, byte, made.nbytes, stream)
    _new(w, contents(byte, size), made)


def adopt(w: World, n: Numbers) -> None:
    array = contents(BYTES[n.b % 4], SIZES[n.a % 2])
    _new(w, array.copy(), w.site.adopt(array))
    w.slots[-1].mem.foreign = True


def _new(w: World, array: np.ndarray, real: Any) -> None:
    mem = w.memory(array)
    w.add(Handle(Kind.OWNED, mem, mem.root, 0, array.size), real)


def slot(w: World, number: int, *kinds: Kind) -> Handle | None:
    """One of the program's tensors, of one of these kinds."""
    found = [handle for handle in w.slots if not kinds or handle.kind in kinds]
    return found[number % len(found)] if found else None


Step = Callable[[World, Numbers], None]


def on(*kinds: Kind) -> Callable[[Callable[[World, Numbers, Handle], None]], Step]:
    """Let a step take one of the program's tensors, of one of these kinds; without, it is none."""

    def of(step: Callable[[World, Numbers, Handle], None]) -> Step:
        @functools.wraps(step)
        def taken(w: World, n: Numbers) -> None:
            h = slot(w, n.a, *kinds)
            if h is not None:
                step(w, n, h)

        return taken  # type: ignore[return-value]

    return of


def launch(w: World, n: Numbers) -> None:
    handles = [slot(w, number) for number in (n.a, n.b, n.c)]
    if n.d % 4 and handles[0] is not None:  # mostly of one size
        same = [h for h in w.slots if h.size == handles[0].size]
        handles[1:] = [same[number % len(same)] for number in (n.b, n.c)]
    z, x, y = handles
    if z is None or x is None or y is None or z.tile not in (0, z.size):
        return
    stream = w.site.streams[n.d % 3]
    wrong = unwritable(z, w.who) + unreadable(x, w.who) + unreadable(y, w.who) + misfit(z, x, y)
    w.attempt(wrong, lambda: w.site.launch(stream, z.real, x.real, y.real))
    if not wrong:
        z.data[:] = x.data + y.data


@on(Kind.OWNED, Kind.SHARED, Kind.VIEW, Kind.MUT)
def view(w: World, n: Numbers, h: Handle) -> None:
    what = ("the view", "the slice", "the borrow")[n.b % 3]
    start, size = (
        (n.c % (h.size - min(h.size, 8) + 1), min(h.size, 8))
        if what == "the slice"
        else (0, h.size)
    )
    calls = (lambda: h.real.view(h.size), lambda: h.real[start : start + size], h.real.borrow)
    if h.kind is Kind.MUT and what != "the borrow":
        elements = range(h.start + start, h.start + start + size)
        wrong = unwritable(h, what, elements)
        w.keep(wrong, calls[n.b % 3], lambda: h.claimed(Kind.MUT, what, start, size, part=elements))
    else:
        wrong = unreadable(h, what)
        w.keep(wrong, calls[n.b % 3], lambda: h.claimed(Kind.VIEW, what, start, size))


@on(Kind.MUT)
def part(w: World, n: Numbers, h: Handle) -> None:
    """A half or a quarter of a mutable borrow, or of a part of one, to write."""
    if h.size < 8:
        return
    size = max(4, h.size // (2, 4)[n.b % 2])
    start = n.c % (h.size // size) * size
    elements = range(h.start + start, h.start + start + size)
    w.keep(
        unwritable(h, "the slice", elements),
        lambda: h.real[start : start + size],
        lambda: h.claimed(Kind.MUT, "the slice", start, size, part=elements),
    )


@on(Kind.OWNED)
def borrow_mut(w: World, n: Numbers, h: Handle) -> None:
    what = "the mutable borrow"
    w.keep(unwritable(h, what), h.real.borrow_mut, lambda: h.claimed(Kind.MUT, what))


@on(Kind.OWNED, Kind.MUT)
def partition(w: World, n: Numbers, h: Handle) -> None:
    tile = h.size if n.c else h.size // 4
    if h.kind is Kind.MUT or n.b % 2:
        what = "the partition in place"
        call = h.real.partition if h.kind is Kind.MUT else h.real.partition_mut
        w.keep(
            unwritable(h, what),
            lambda: call(tile),
            lambda: h.claimed(Kind.PLACE, what, tile=tile),
        )
    else:
        what = "the partition"
        w.keep(
            unmovable(h, what),
            lambda: h.real.partition(tile),
            lambda: h.moved(what, kind=Kind.PART, tile=tile),
        )


@on(Kind.PART, Kind.PLACE)
def unpartition(w: World, n: Numbers, h: Handle) -> None:
    if h.kind is Kind.PART:
        w.keep(
            unmovable(h, "unpartition"),
            h.real.unpartition,
            lambda: h.moved("unpartition", kind=Kind.OWNED, tile=0),
        )
    else:
        w.keep(
            dead(h, "unpartition"),
            h.real.unpartition,
            lambda: Handle(Kind.MUT, h.mem, h.scope, h.start, h.size, h.claim),
        )


@on(Kind.PART)
def deal(w: World, n: Numbers, h: Handle) -> None:
    w.keep(unmovable(h, "map"), lambda: h.real.map(1), lambda: h.moved("map", tile=h.size))


@on(Kind.OWNED)
def share(w: World, n: Numbers, h: Handle) -> None:
    def made() -> Handle:
        h.go("share")
        return h.shared()

    w.keep(unmovable(h, "share"), h.real.share, made)


@on(Kind.SHARED)
def clone(w: World, n: Numbers, h: Handle) -> None:
    who = ("clone", "reshape", "reinterpret")[n.b % 3]
    calls = (
        h.real.clone,
        lambda: h.real.reshape(h.size),
        lambda: h.real.reinterpret("f32", h.size),
    )
    w.keep(dead(h, who), calls[n.b % 3], h.shared)


@on(Kind.SHARED)
def unwrap(w: World, n: Numbers, h: Handle) -> None:
    w.sweep()
    cut = n.b % 4 == 0
    who = "try_partition" if cut else "try_unwrap"
    kind = {"kind": Kind.PART, "tile": h.size} if cut else {"kind": Kind.OWNED}

    def made() -> Handle:
        h.mem.owners.clear()
        return h.moved(who, **kind)

    call = (lambda: h.real.try_partition(h.size)) if cut else h.real.try_unwrap
    w.keep(not_single(h, who), call, made)


@on(Kind.OWNED)
def reshape(w: World, n: Numbers, h: Handle) -> None:
    who = ("reshape", "reinterpret")[n.b % 2]
    calls = (
        lambda: h.real.reshape(4, -1).reshape(h.size),
        lambda: h.real.reinterpret("f32", h.size),
    )
    w.keep(unmovable(h, who), calls[n.b % 2], lambda: h.moved(who))


@on(Kind.VIEW, Kind.MUT, Kind.PLACE, Kind.SHARED)
def release(w: World, n: Numbers, h: Handle) -> None:
    if h.kind is Kind.SHARED:
        h.real.drop()
        h.gone = h.gone or "drop"
    else:
        h.real.release()
        assert h.claim is not None
        h.claim.close()


@on()
def read(w: World, n: Numbers, h: Handle) -> None:
    wrong = unreadable(h, "__array_interface__")
    found = w.attempt(wrong, lambda: w.site.read(h.real))
    assert wrong or found.tolist() == h.data.tolist()


def drop(w: World, n: Numbers) -> None:
    if not w.slots:
        return
    handle = w.slots.pop(n.a % len(w.slots))
    box = [handle.real]
    if handle not in reached(w.roots)[0]:
        handle.real = None
    if n.b % 4 == 1:
        thread = threading.Thread(target=box.clear)
        thread.start()
        joined(thread)
    elif n.b % 4 == 2:
        box.append(box)  # for the collector, whenever it comes and on whatever thread
        handle.mem.loose = True
    del box


def drop_op(w: World, n: Numbers) -> None:
    if w.ops:
        del w.ops[n.a % len(w.ops)]


def drop_future(w: World, n: Numbers) -> None:
    if w.futures:
        w.lose(w.futures.pop(n.a % len(w.futures)).result)


def collect(_w: World, _n: Numbers) -> None:
    gc.collect()


def close_stream(w: World, n: Numbers) -> None:
    """Close a stream, and have a new one in its place; the old one takes nothing any more."""
    place, h = n.a % len(w.site.streams), slot(w, n.b, *MOVABLE)
    old = w.site.streams[place]
    w.site.streams[place] = Stream(w.site.device, driver=w.site.driver)
    old.close()
    if h is not None:
        w.attempt(
            [Wrong(ArgumentError, (w.site.kernel, "the stream is closed"))],
            lambda: w.site.launch(old, h.real, h.real, h.real),
        )


def nothing(_w: World, _n: Numbers) -> None:
    """What programs shrink to."""
