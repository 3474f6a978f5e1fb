"""Completion threads: each blocks on the events of one stream.

It then calls futures, or releases objects that the device used.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tilec_runtime.device.lines import RecordedEvent
from tilec_runtime.device.lost import PENDING, Losses

# Takes the error of the work before an event, or None.
Callback = Callable[["BaseException | None"], None]
# Seconds without work after which a thread ends; seconds that a process waits for the device at
# its end.
_LINGER, _PATIENCE = 0.5, 2.0
# (id of the driver, device, stream)
_Key = tuple[int, int, int]


class _Entry(NamedTuple):
    """An event, the callback to call when it is reached, and an object to keep."""

    event: RecordedEvent
    callback: Callback | None
    kept: Any


class _StreamWaits:
    """The entries of one stream, in the order of their events, and its thread."""

    def __init__(self, changed: threading.Condition) -> None:
        self.entries: collections.deque[_Entry | None] = (
            collections.deque()
        )  # None once an entry is handled
        self.changed = changed
        self.thread: threading.Thread | None = None


class Completions:
    """Waits for events. A stream has a thread as long as a caller waits for its work.

    One thread for all streams would report a short op only after a long one on another stream.
    """

    def __init__(self) -> None:
        """Start without threads."""
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._lines: dict[_Key, _StreamWaits] = {}
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether any thread waits for an event."""
        with self._lock:
            return any(line.entries for line in self._lines.values())

    def watch(self, event: RecordedEvent, stream: int, callback: Callback) -> None:
        """Call a function on a stream's completion thread once an event is reached."""
        self._add(stream, _Entry(event, callback, None))

    def keep(self, event: RecordedEvent, stream: int, thing: Any) -> None:
        """Keep an object alive until an event is reached.

        Errors of the work stay with the stream.
        """
        self._add(stream, _Entry(event, None, thing))

    def pending(self, losses: Losses, ordinal: int) -> list[str]:
        """Return the labels of futures that wait for a device of a driver's contexts.

        The first future of each stream comes first.

        Args:
            losses: the lost contexts of the driver.
            ordinal: the device.
        """
        with self._lock:
            lines = [
                [entry for entry in line.entries if entry is not None]
                for line in self._lines.values()
            ]
        return [
            label
            for entry in itertools.chain.from_iterable(itertools.zip_longest(*lines))
            if entry is not None
            and entry.event.ordinal == ordinal
            and getattr(entry.event.driver, "_losses", None) is losses
            and (label := getattr(entry.callback, "label", ""))
        ]

    def drain(self, seconds: float) -> bool:
        """Wait at most this long for every callback; return whether all are done."""
        with self._lock:
            return self._idle.wait_for(lambda: not self.busy, seconds)

    def close(self, seconds: float) -> None:
        """End the threads at the end of the process; wait this long for the device.

        Later waits run on the calling thread, because the interpreter must not end beside a running
        thread.
        """
        end = time.monotonic() + seconds
        self.drain(seconds)
        with self._lock:
            self._closed = True
            lines = list(self._lines.values())
            for line in lines:
                line.changed.notify()
        for line in lines:
            if line.thread is not None and line.thread is not threading.current_thread():
                line.thread.join(max(end - time.monotonic(), 0.0))

    def renew(self) -> None:
        """Start over in a forked child, which has no threads of its parent."""
        self.__init__()  # type: ignore[misc]

    def _add(self, stream: int, entry: _Entry) -> None:
        key = (id(entry.event.driver), entry.event.ordinal, stream)
        with (
            self._lock,
            contextlib.suppress(RuntimeError),
        ):  # a RuntimeError: the interpreter is ending, and starts no threads
            if not self._closed:
                line = self._lines.get(key) or self._started(key)
                line.entries.append(entry)
                line.changed.notify()
                return
        _deal_with(entry)

    def _started(self, key: _Key) -> _StreamWaits:
        """Start the thread of a stream; it first waits for the lock that the caller holds."""
        line = _StreamWaits(threading.Condition(self._lock))
        # A daemon: a process must be able to end while a device hangs.
        line.thread = threading.Thread(
            target=self._run, args=(key, line), name="tilec-completion", daemon=True
        )
        line.thread.start()
        self._lines[key] = line
        return line

    def _run(self, key: _Key, line: _StreamWaits) -> None:
        while (entry := self._next(key, line)) is not None:
            _deal_with(entry)
            line.entries[0] = entry = (
                None  # before it counts as done, and without the lock: finalizers may run now
            )
            with self._lock:
                line.entries.popleft()
                self._idle.notify_all()

    def _next(self, key: _Key, line: _StreamWaits) -> _Entry | None:
        with self._lock:
            line.changed.wait_for(lambda: bool(line.entries) or self._closed, _LINGER)
            if line.entries:
                return line.entries[0]
            del self._lines[key]
            return None


def _deal_with(entry: _Entry) -> None:
    error = _wait(entry)
    if entry.callback is None:
        return
    try:
        entry.callback(error)
    except BaseException:
        import logging  # slow to import, and rarely needed

        logging.getLogger("tilec_runtime").exception("a callback of a DeviceFuture failed")


def _wait(entry: _Entry) -> BaseException | None:
    """Wait for an event; return the error of the work before it if a callback takes it."""
    event = entry.event
    try:
        with event.driver.outside_captures(
            event.ordinal
        ):  # otherwise a wait breaks captures in the global mode, in all threads
            event.sync()
            return None if entry.callback is None else event.failure
    except Exception as error:  # noqa: BLE001 - the device is lost, and the callback must run
        return error.with_traceback(None)  # the frames of a traceback would keep the entry alive


COMPLETIONS = Completions()
PENDING.append(COMPLETIONS.pending)
os.register_at_fork(after_in_child=COMPLETIONS.renew)
atexit.register(COMPLETIONS.close, _PATIENCE)
