"""Places in streams that other streams wait for, on events that are used again; and streams that go
while somebody counts on them.
"""

from __future__ import annotations

import contextlib
import weakref

from tilec_runtime.device.seam import DeviceDriver
from tilec_runtime.errors import ContextLostError
from tilec_runtime.forks import ForkLock
from tilec_runtime.tensors.uses import Line

# By device, and whether waits block.
_Pools = dict[tuple[int, bool], list[int]]
_POOLS: weakref.WeakKeyDictionary[DeviceDriver, _Pools] = weakref.WeakKeyDictionary()
# By device and handle: the lines that memory was used on, and those of the open streams of tilec.
_LINES: weakref.WeakKeyDictionary[
    DeviceDriver, weakref.WeakValueDictionary[tuple[int, int], Line]
] = weakref.WeakKeyDictionary()
_OPENED: weakref.WeakKeyDictionary[DeviceDriver, dict[tuple[int, int], Line]] = (
    weakref.WeakKeyDictionary()
)
_LOCK = ForkLock()
# The pool that was asked for last: driver, key and pool, in one object for the sake of threads.
_last: tuple[weakref.ref[DeviceDriver] | None, tuple[int, bool], list[int]] = (None, (0, False), [])


class Mark:
    """Everything that a stream had to do when this was made. The event goes back to a pool with the
    object: no call of the driver.

    Attributes:
        driver, ordinal: whose event it is. event: the handle.
        done: whether somebody knows that all of it is done, and well: nobody has to wait for it any
            more.
    """

    __slots__ = ("__weakref__", "_pool", "done", "driver", "event", "ordinal")

    def __init__(
        self,
        driver: DeviceDriver,
        ordinal: int,
        stream: int,
        since: int | None = None,
        *,
        blocking: bool = False,
    ) -> None:
        """Record an event on a stream.

        Args:
            driver: of the device.
            ordinal: the stream's device.
            stream: its handle.
            since: position of the stream where the work begins whose failure `failure` tells.
            blocking: let `sync` sleep until it is reached: it wakes up later than one that spins,
                and takes no processor meanwhile.
        """
        pool = _pool(driver, (ordinal, blocking))
        try:
            event = pool.pop()
        except IndexError:
            event = driver.create_event(ordinal, timed=False, blocking=blocking)
        self.driver = driver
        self.ordinal = ordinal
        self.event = event
        self.done = False
        self._pool = pool
        driver.record_event(ordinal, event, stream, since)

    def hold(self, ordinal: int, stream: int, *, anyway: bool = False) -> None:
        """Let what a stream (of this device) is given from now on wait; it goes on `anyway` where
        what it waits for fails.
        """
        if not self.done:
            self.driver.wait_event(ordinal, stream, self.event, anyway=anyway)

    @property
    def reached(self) -> bool:
        """Whether all of it is done; on a GPU, a failure of it is raised."""
        return self.driver.event_reached(self.ordinal, self.event)

    @property
    def failure(self) -> BaseException | None:
        """What the work before it came to, once it is reached; who asks takes care of it."""
        return self.driver.event_failure(self.ordinal, self.event)

    def sync(self) -> None:
        """Wait until all of it is done."""
        self.driver.synchronize_event(self.ordinal, self.event)

    def __del__(self) -> None:
        """Let the event be used again: who waits for it already does so for what it stood for then."""
        if hasattr(self, "_pool"):
            self._pool.append(self.event)


class PendingMark(Mark):
    """The end of work whose stream a thread is synchronizing: an event is recorded only if another
    one needs it meanwhile.
    """

    __slots__ = ("_made", "_where")

    def __init__(self, driver: DeviceDriver, ordinal: int, stream: int, since: int) -> None:
        """Record nothing."""
        self.driver = driver
        self.ordinal = ordinal
        self.done = False
        self._where = (stream, since)
        self._made: Mark | None = None

    def _mark(self) -> Mark:
        made = self._made
        if made is None:  # two threads may make one each: both are behind the work
            made = self._made = Mark(self.driver, self.ordinal, *self._where)
        return made

    def hold(self, ordinal: int, stream: int, *, anyway: bool = False) -> None:
        """As for every mark."""
        if not self.done:
            self._mark().hold(ordinal, stream, anyway=anyway)

    @property
    def reached(self) -> bool:
        """As for every mark."""
        return self.done or self._mark().reached

    @property
    def failure(self) -> BaseException | None:
        """As for every mark."""
        return None if self.done else self._mark().failure

    def sync(self) -> None:
        """As for every mark."""
        if not self.done:
            self._mark().sync()


def _pool(driver: DeviceDriver, key: tuple[int, bool]) -> list[int]:
    """The events that nobody uses. Most marks are of the same kind: to know it again costs less
    than to look it up.
    """
    global _last
    last, known, pool = _last
    if last is None or last() is not driver or known != key:
        pool = _POOLS.setdefault(driver, {}).setdefault(key, [])
        _last = weakref.ref(driver), key, pool
    return pool


def line_of(driver: DeviceDriver, ordinal: int, stream: int) -> Line:
    """The line of a stream; one that another library made has one as long as memory was used there."""
    key = (ordinal, stream)
    lines = _LINES.get(driver)
    found = None if lines is None else lines.get(key)
    if found is None:
        with _LOCK:
            lines = _LINES.setdefault(driver, weakref.WeakValueDictionary())
            found = lines.get(key)
            if found is None:
                found = lines[key] = Line(ordinal, stream)
    return found


def opened(driver: DeviceDriver, ordinal: int, stream: int) -> None:
    """A stream was made that may be closed."""
    line = Line(ordinal, stream)
    with _LOCK:
        _LINES.setdefault(driver, weakref.WeakValueDictionary())[ordinal, stream] = line
        _OPENED.setdefault(driver, {})[ordinal, stream] = line


def closing(driver: DeviceDriver, ordinal: int, stream: int) -> None:
    """A stream is about to go: who counts on it gets a mark instead."""
    with _LOCK:
        line = _OPENED.get(driver, {}).pop((ordinal, stream), None)
        if line is not None:
            del _LINES[driver][ordinal, stream]
    if line is not None:
        if line.used:
            with contextlib.suppress(ContextLostError):  # what waits for anything there is told so
                line.end = Mark(driver, ordinal, stream)
        line.open = False


def places(driver: DeviceDriver, ordinal: int) -> list[Mark]:
    """Marks behind all that the open streams of a device have to do, but for those that are
    captured.
    """
    with _LOCK:  # so that none is closed meanwhile
        streams = [stream for where, stream in list(_OPENED.get(driver, {})) if where == ordinal]
        return [
            Mark(driver, ordinal, stream)
            for stream in streams
            if not driver.capturing(ordinal, stream)
        ]
