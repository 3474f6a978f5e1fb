"""Lines: the streams that memory was used on, and events recorded on them."""

from __future__ import annotations

import collections
import contextlib
import threading
import weakref
from typing import TYPE_CHECKING

from tilec_runtime.device.core import LineFields
from tilec_runtime.errors import ContextLostError
from tilec_runtime.forks import ForkLock

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver

# The number of a lasting use: another library holds the memory, and may use it at any later time.
FOREVER = 2**62
# Most events that a line on the cpu device keeps, where each reports the failure of one execution.
# On other devices a line keeps its last event, which covers all work before it.
_KEPT = 64

# Unused events by device, and whether waits for them block.
_Pools = dict[tuple[int, bool], list[int]]
_POOLS: weakref.WeakKeyDictionary[DeviceDriver, _Pools] = weakref.WeakKeyDictionary()
# Lines by device, then by the stream's handle.
_LINES: weakref.WeakKeyDictionary[DeviceDriver, dict[int, dict[int, Line]]] = (
    weakref.WeakKeyDictionary()
)
_LOCK = ForkLock()


class Line(LineFields):
    """A stream as long as it is open.

    A later stream with the same handle is another line. Uses of memory on a line are numbered. When
    another stream uses the memory next, a use that is known to be complete needs no event, and one
    before an event that was recorded needs no new one.

    Attributes:
        ordinal: the device.
        handle: the stream.
        open: False once tilec has closed it.
        count: number of the last use.
        done: all uses up to this number are known to be complete.
        events: the last events recorded on it, the oldest first.
        busy: the threads of executions that are enqueueing there, by the execution's id; their uses
            have numbers already.
        own: whether tilec made the stream.
        tells: whether events report which execution failed.
    """

    __slots__ = ("busy", "events", "tells")

    def __init__(
        self, ordinal: int, handle: int, *, tells: bool = False, own: bool = False
    ) -> None:
        """Begin a line; `line_of` returns the one of a stream."""
        self.ordinal = ordinal
        self.handle = handle
        self.open = True
        self.count = 0
        self.done = 0
        self.events: collections.deque[RecordedEvent] = collections.deque(
            maxlen=_KEPT if tells else 1
        )
        self.tells = tells
        self.busy: dict[int, int] = {}
        self.own = own

    @property
    def enqueued(self) -> int:
        """All uses up to this number are enqueued; 0 if that is unknown."""
        count = self.count  # read first: an execution that begins later has higher numbers
        return 0 if self.busy else count

    @property
    def enqueued_here(self) -> int:
        """Like `enqueued`, but an execution of this thread does not count as busy."""
        count, me = self.count, threading.get_ident()
        return 0 if any(thread != me for thread in list(self.busy.values())) else count

    def complete(self, number: int, after: int = 0) -> None:
        """Record that all uses behind `after` and up to this number succeeded."""
        # In a race of two threads the lower number may stay, at the cost of one unneeded event.
        if after <= self.done:
            self.done = max(self.done, number)


class RecordedEvent:
    """An event behind all work enqueued on a stream when it was made.

    The driver's event returns to a pool with the object, without a call of the driver.

    Attributes:
        driver, ordinal: the event's driver and device.
        handle: the driver's event.
        line: the stream's line.
        number: number of the last use that is known to come before it.
        after: `failure` covers the uses behind this number (on the cpu device).
    """

    __slots__ = ("__weakref__", "_pool", "after", "driver", "handle", "line", "number", "ordinal")

    def __init__(
        self,
        driver: DeviceDriver,
        line: Line,
        since: tuple[int, int] | None = None,
        *,
        blocking: bool = False,
    ) -> None:
        """Record an event on a stream.

        Args:
            driver: the driver of the device.
            line: the stream's line.
            since: position in the stream from which `failure` covers the work, and number of the
                last use before it.
            blocking: whether `sync` sleeps. A sleeping thread wakes up later than a spinning one,
                and uses no processor.
        """
        self.driver, self.ordinal, self.line = driver, line.ordinal, line
        pool = _POOLS.setdefault(driver, {}).setdefault((line.ordinal, blocking), [])
        try:
            handle = pool.pop()
        except IndexError:
            handle = driver.create_event(line.ordinal, timed=False, blocking=blocking)
        self._pool = pool
        self.handle = handle
        position, after = since or (None, 0)
        tells = since is not None and driver.holds_arguments
        self.number = line.enqueued_here if tells else line.enqueued
        self.after = after if tells else 0
        driver.record_event(line.ordinal, handle, line.handle, position)
        # On the cpu device, an event without `since` would report failures of earlier executions.
        if self.number and tells == line.tells:
            line.events.append(self)

    def hold(self, ordinal: int, stream: int, *, anyway: bool = False) -> None:
        """Make later work on a stream wait for the event.

        With `anyway`, the stream goes on if the work before the event fails.
        """
        self.driver.wait_event(ordinal, stream, self.handle, anyway=anyway)

    @property
    def reached(self) -> bool:
        """Whether all work before it is done; on a GPU, raises the work's failure."""
        return self.driver.event_reached(self.ordinal, self.handle)

    @property
    def failure(self) -> BaseException | None:
        """The error of the work before it, once it is reached, or None.

        The caller becomes responsible for the error.
        """
        error = self.driver.event_failure(self.ordinal, self.handle)
        if error is None:
            self.line.complete(self.number, self.after)
        return error

    def sync(self) -> None:
        """Wait until all work before it is done."""
        self.driver.synchronize_event(self.ordinal, self.handle)

    def __del__(self) -> None:
        """Return the event to the pool; waits made before refer to its earlier recording."""
        if hasattr(self, "_pool"):
            self._pool.append(self.handle)


def lines_of(driver: DeviceDriver, ordinal: int) -> dict[int, Line]:
    """Return the lines of a device by stream handle; the launch core reads them."""
    lines = _LINES.get(driver)
    if lines is None or ordinal not in lines:
        with _LOCK:
            lines = _LINES.setdefault(driver, {})
            lines.setdefault(ordinal, {})
    return lines[ordinal]


def line_of(driver: DeviceDriver, ordinal: int, stream: int) -> Line:
    """Return the line of a stream."""
    lines = lines_of(driver, ordinal)
    line = lines.get(stream)
    return line or lines.setdefault(stream, Line(ordinal, stream, tells=driver.holds_arguments))


def opened(driver: DeviceDriver, ordinal: int, stream: int) -> Line:
    """Begin and return the line of a stream that tilec made, and may close."""
    line = Line(ordinal, stream, tells=driver.holds_arguments, own=True)
    lines_of(driver, ordinal)[stream] = line
    return line


def closing(driver: DeviceDriver, line: Line) -> None:
    """Record an event behind all uses on a stream that is about to be destroyed."""
    lines = lines_of(driver, line.ordinal)
    with _LOCK:
        if lines.get(line.handle) is line:
            del lines[line.handle]
    if line.count:
        with contextlib.suppress(ContextLostError):  # later waits on the device raise it
            event = RecordedEvent(driver, line)
            event.number = FOREVER
            line.events.append(event)
    line.open = False


def record_all(driver: DeviceDriver, ordinal: int) -> list[RecordedEvent]:
    """Record events behind all work on tilec's open streams of a device.

    Captured streams are left out.
    """
    with _LOCK:  # no stream may be closed meanwhile
        lines = [line for line in list(lines_of(driver, ordinal).values()) if line.own]
        return [
            RecordedEvent(driver, line)
            for line in lines
            if not driver.capturing(ordinal, line.handle)
        ]


def event_behind(
    driver: DeviceDriver, line: Line, number: int, *, blocking: bool = False
) -> RecordedEvent:
    """Return the first event behind a use, or record one."""
    for event in list(line.events):
        if event.after < number <= event.number:
            return event
    return RecordedEvent(driver, line, blocking=blocking)
