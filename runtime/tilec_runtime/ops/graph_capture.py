"""Captures ops into a graph, on an internal stream.

A failed capture then leaves all other streams usable.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, TypeVar

from tilec_runtime.device.lines import RecordedEvent
from tilec_runtime.device.recording import Recording, begin_recording, end_recording, own_recording
from tilec_runtime.device.seam import DeviceDriver, GraphHandle
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import GraphCaptureError, TilecError
from tilec_runtime.ops.base import Op
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.running import RUNNING, refuse_nested
from tilec_runtime.tensors.storage import Storage

T = TypeVar("T")


class CaptureContext(ExecutionContext):
    """The context of a captured op: its work runs at each replay, and not now.

    Attributes:
        recording: everything that the graph will own.
        events: events of other streams that replays have to wait for.
    """

    __slots__ = ("events", "recording")
    capturing = True

    def __init__(self, stream: Stream, recording: Recording) -> None:
        """Begin on a stream that is captured."""
        super().__init__(stream)
        self.recording = recording
        self.events: list[RecordedEvent] = []

    def refuse_capture(self, what: str, *, cause: str, fix: str) -> None:
        """Refuse the op.

        Raises:
            GraphCaptureError: always.
        """
        raise GraphCaptureError(f"{what} cannot be captured into a graph", cause=cause, fix=fix)

    def reads(self, storage: Storage) -> None:
        """Read memory: replays wait for its last write on any stream."""
        self.recording.touch(storage, write=False)

    def writes(self, storage: Storage) -> None:
        """Write memory: replays wait for its last write, and for all later reads."""
        self.recording.touch(storage, write=True)

    def wait_for(self, event: RecordedEvent) -> None:
        """Make replays wait for an event of another stream.

        An event of this capture needs no wait: it precedes later work anyway.
        """
        if isinstance(event, CapturedEvent):
            event.hold(self.device, self.stream)
        elif event.driver is self.driver:
            self.events.append(event)
        else:  # drivers cannot wait for each other's streams
            event.sync()

    def record(self) -> RecordedEvent:
        """Return an event in the graph, for which nothing outside of this capture can wait."""
        return CapturedEvent(self.driver, self.recording)

    def keep(self, *things: Any) -> None:
        """Keep objects alive as long as the graph."""
        self.recording.keep(*things)

    def free_async(self, address: int) -> None:
        """Refuse: the next replay would use memory that was freed.

        Raises:
            GraphCaptureError: always.
        """
        raise GraphCaptureError(
            f"the memory at {address:#x} cannot be freed while a graph is captured",
            cause="every replay would free it again",
            fix="free it once the graph is gone",
        )


class CapturedEvent(RecordedEvent):
    """An event in a graph that is being captured.

    Only work of the same capture can come after it.
    """

    __slots__ = ("_recording",)

    def __init__(self, driver: DeviceDriver, recording: Recording) -> None:
        """Represent the work captured so far; no event of the driver is needed."""
        self.driver = driver
        self._recording = weakref.ref(recording)

    def hold(self, ordinal: int, stream: int, *, anyway: bool = False) -> None:  # noqa: ARG002 - there is nothing that could fail
        """Do nothing in the same capture; refuse any other wait.

        Raises:
            GraphCaptureError: the stream is not captured, or belongs to another capture.
        """
        recording = self._recording()  # None once the capture is over
        if recording is None or own_recording(self.driver, ordinal, stream) is not recording:
            raise _outside()

    def sync(self) -> None:
        """Refuse: no work runs that could be waited for.

        Raises:
            GraphCaptureError: always.
        """
        raise _outside()


class Capture:
    """A capture in progress, which `end` or `abandon` ends.

    Attributes:
        driver, ordinal: the driver and the device.
        context: the context of captured ops.
    """

    def __init__(self, stream: Stream) -> None:
        """Begin a capture for replays on a stream; refuse a stream that takes no work now.

        Raises:
            SchedulingError: the stream is closed, or is known not to be on the device.
        """
        self.driver, self.ordinal = stream.driver, stream.device
        self._stream: Stream | None = None
        self.driver.position(self.ordinal, stream.handle)
        own = Stream(self.ordinal, driver=self.driver)
        try:
            self.driver.begin_capture(self.ordinal, own.handle)
        except BaseException:
            own.close()
            raise
        self._stream = own
        self.context = CaptureContext(own, begin_recording(self.driver, self.ordinal, own.handle))

    def run(self, op: Op[T]) -> T:
        """Capture an op and return its result, which replays write.

        A failure ends the capture.

        Raises:
            UsedOpError: the op was used before.
            NestedExecutionError: this thread executes another op.
            GraphCaptureError: a part of the op cannot be captured.
        """
        try:
            refuse_nested(op)
            RUNNING.op = op
            try:
                op._take("captured in a graph")  # noqa: SLF001 - a method of all ops
                return op._run_in(self.context)  # noqa: SLF001
            finally:
                RUNNING.op = None
        except BaseException:
            self.abandon()
            raise

    def end(self) -> GraphHandle:
        """End the capture and return its graph, which the caller has to destroy.

        Raises:
            DriverError: a call that cannot be captured broke the capture.
        """
        stream, self._stream = self._stream, None
        assert stream is not None
        self.context._over = True  # noqa: SLF001 - same module
        end_recording(self.driver, self.ordinal, stream.handle)
        with stream:
            return self.driver.end_capture(self.ordinal, stream.handle)

    def abandon(self) -> None:
        """End the capture without a graph, raising nothing. Further calls do nothing."""
        if self._stream is not None:
            with contextlib.suppress(TilecError):  # the error that led here is reported instead
                self.driver.destroy_graph(self.ordinal, self.end())

    def __del__(self) -> None:
        """Abandon a capture that was not ended."""
        self.abandon()


def _outside() -> GraphCaptureError:
    message = "the result of a shared op is needed outside of the graph that it was captured in"
    return GraphCaptureError(
        message,
        cause="the op was captured: it runs in replays of that graph, and has no result of its own",
        fix="run the shared op before the capture (sync), or capture all its users in one graph",
    )
