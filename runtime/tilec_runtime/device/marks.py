"""Lines: the streams that memory was used on. Marks: events on them, which are used again."""

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

# The number of uses that last: the stream of another library may go on with the memory.
FOREVER = 2**62
# Marks that a line of the cpu device keeps: each tells which execution failed. Elsewhere the last
# one stands for all before it.
_KEPT = 64

# By device, and whether waits block.
_Pools = dict[tuple[int, bool], list[int]]
_POOLS: weakref.WeakKeyDictionary[DeviceDriver, _Pools] = weakref.WeakKeyDictionary()
# By device, then by the stream's handle.
_LINES: weakref.WeakKeyDictionary[DeviceDriver, dict[int, dict[int, Line]]] = (
    weakref.WeakKeyDictionary()
)
_LOCK = ForkLock()


class Line(LineFields):
    """A stream of a device, as long as it is open: a later one of the same handle is another line.

    Uses of memory on a line are numbered. A use that is known to be complete needs no event when
    the memory is next used elsewhere; neither does one that a mark is behind already.

    Attributes:
        ordinal: of the device.
        handle: of the stream.
        open: False once tilec has closed it.
        count: number of the last use.
        done: number up to which uses are known to be complete.
        marks: the last ones on it, the oldest first.
        busy: threads of the executions that enqueue there now, by the execution's id: their uses
            have numbers already.
        own: whether tilec made the stream.
        tells: whether marks tell which execution failed.
    """

    __slots__ = ("busy", "marks", "tells")

    def __init__(
        self, ordinal: int, handle: int, *, tells: bool = False, own: bool = False
    ) -> None:
        """Begin a line; `line_of` has one for each stream."""
        self.ordinal = ordinal
        self.handle = handle
        self.open = True
        self.count = 0
        self.done = 0
        self.marks: collections.deque[Mark] = collections.deque(maxlen=_KEPT if tells else 1)
        self.tells = tells
        self.busy: dict[int, int] = {}
        self.own = own

    @property
    def enqueued(self) -> int:
        """The number up to which all uses are enqueued; 0 where that is not known."""
        count = self.count  # first: what begins to enqueue after this has higher numbers
        return 0 if self.busy else count

    @property
    def enqueued_here(self) -> int:
        """As `enqueued`, behind the start of an execution of this thread: other threads' count."""
        count, me = self.count, threading.get_ident()
        return 0 if any(thread != me for thread in list(self.busy.values())) else count

    def complete(self, number: int, after: int = 0) -> None:
        """Note that all uses behind `after` and up to this number are over, and went well."""
        # Of two threads the lower number may stay: then an event is recorded that is not needed.
        if after <= self.done:
            self.done = max(self.done, number)


class Mark:
    """Everything that a stream had to do when this was made. The event goes back to a pool with the
    object: no call of the driver.

    Attributes:
        driver, ordinal: whose event it is.
        event: the handle.
        line: of the stream.
        number: of the last use that is known to come before it.
        after: of the use behind which it tells failures; on a GPU it tells of none.
    """

    __slots__ = ("__weakref__", "_pool", "after", "driver", "event", "line", "number", "ordinal")

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
            driver: of the device.
            line: of the stream.
            since: position of the stream where the work begins whose failure `failure` tells, and
                number of the last use before that.
            blocking: let `sync` sleep until it is reached: it wakes up later than one that spins,
                and takes no processor meanwhile.
        """
        self.driver, self.ordinal, self.line = driver, line.ordinal, line
        pool = _POOLS.setdefault(driver, {}).setdefault((line.ordinal, blocking), [])
        try:
            event = pool.pop()
        except IndexError:
            event = driver.create_event(line.ordinal, timed=False, blocking=blocking)
        self._pool = pool
        self.event = event
        position, after = since or (None, 0)
        tells = since is not None and driver.holds_arguments
        self.number = line.enqueued_here if tells else line.enqueued
        self.after = after if tells else 0
        driver.record_event(line.ordinal, event, line.handle, position)
        if self.number and tells == line.tells:  # any other mark tells of failures before the use
            line.marks.append(self)

    def hold(self, ordinal: int, stream: int, *, anyway: bool = False) -> None:
        """Let what a stream (of this device) is given from now on wait; it goes on `anyway` where
        what it waits for fails.
        """
        self.driver.wait_event(ordinal, stream, self.event, anyway=anyway)

    @property
    def reached(self) -> bool:
        """Whether all of it is done; on a GPU, a failure of it is raised."""
        return self.driver.event_reached(self.ordinal, self.event)

    @property
    def failure(self) -> BaseException | None:
        """What the work before it came to, once it is reached; who asks takes care of it."""
        error = self.driver.event_failure(self.ordinal, self.event)
        if error is None:
            self.line.complete(self.number, self.after)
        return error

    def sync(self) -> None:
        """Wait until all of it is done."""
        self.driver.synchronize_event(self.ordinal, self.event)

    def __del__(self) -> None:
        """Let the event be used again: who waits for it already does so for what it stood for then."""
        if hasattr(self, "_pool"):
            self._pool.append(self.event)


def lines_of(driver: DeviceDriver, ordinal: int) -> dict[int, Line]:
    """Return the lines of a device by their handles, which the launch core reads."""
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
    """Return the line of a stream that tilec made, and may close."""
    line = Line(ordinal, stream, tells=driver.holds_arguments, own=True)
    lines_of(driver, ordinal)[stream] = line
    return line


def closing(driver: DeviceDriver, line: Line) -> None:
    """Record a mark behind all uses on a stream that is about to go."""
    lines = lines_of(driver, line.ordinal)
    with _LOCK:
        if lines.get(line.handle) is line:
            del lines[line.handle]
    if line.count:
        with contextlib.suppress(ContextLostError):  # what waits for anything there is told so
            mark = Mark(driver, line)
            mark.number = FOREVER
            line.marks.append(mark)
    line.open = False


def places(driver: DeviceDriver, ordinal: int) -> list[Mark]:
    """Return marks behind all that the open streams of tilec on a device have to do, but for those
    that are captured.
    """
    with _LOCK:  # so that none is closed meanwhile
        lines = [line for line in list(lines_of(driver, ordinal).values()) if line.own]
        return [Mark(driver, line) for line in lines if not driver.capturing(ordinal, line.handle)]


def mark_behind(driver: DeviceDriver, line: Line, number: int, *, blocking: bool = False) -> Mark:
    """Return the first mark behind a use; a new one where there is none."""
    for mark in list(line.marks):
        if mark.after < number <= mark.number:
            return mark
    return Mark(driver, line, blocking=blocking)
