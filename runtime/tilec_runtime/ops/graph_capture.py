"""Captures ops into a graph: on a stream that no other code has, so that whatever becomes of a
capture, all streams stay usable.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any, TypeVar

from tilec_runtime.device.marks import Mark
from tilec_runtime.device.recording import Recording, begin_recording, end_recording, own_recording
from tilec_runtime.device.seam import DeviceDriver, GraphHandle
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import GraphCaptureError, TilecError
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.running import RUNNING, Runnable, refuse_nested
from tilec_runtime.tensors.storage import Storage

T = TypeVar("T")


class CaptureContext(ExecutionContext):
    """The context of an op that is captured: what it enqueues is done at each replay, and not now.

    Attributes:
        recording: what the graph will own.
        marks: places in other streams that replays have to come after.
    """

    __slots__ = ("marks", "recording")
    capturing = True

    def __init__(self, stream: Stream, recording: Recording) -> None:
        """Begin on a stream that is captured."""
        super().__init__(stream)
        self.recording = recording
        self.marks: list[Mark] = []

    def refuse_capture(self, what: str, *, cause: str, fix: str) -> None:
        """Refuse it."""
        raise GraphCaptureError(f"{what} cannot be captured into a graph", cause=cause, fix=fix)

    def reads(self, storage: Storage) -> None:
        """Use memory that others may use too: replays wait for the last write, wherever that was."""
        self.recording.touch(storage, write=False)

    def writes(self, storage: Storage) -> None:
        """Use memory alone: replays wait for its last write and for all reads since then, wherever
        they were.
        """
        self.recording.touch(storage, write=True)

    def wait_for(self, mark: Mark) -> None:
        """Let replays wait for a place in another stream; one in this capture comes before what
        follows anyway.
        """
        if isinstance(mark, CapturedMark):
            mark.hold(self.device, self.stream)
        elif mark.driver is self.driver:
            self.marks.append(mark)
        else:  # drivers cannot wait for each other's streams
            mark.sync()

    def mark(self) -> Mark:
        """A place in the graph: there is nothing that others could wait for."""
        return CapturedMark(self.driver, self.device, self.recording)

    def keep(self, *things: Any) -> None:
        """Keep objects as long as the graph."""
        self.recording.keep(*things)

    def refuse_allocation(self, nbytes: int) -> None:
        """Refuse it: each replay would need memory of its own."""
        if nbytes:
            raise _no_memory(nbytes)

    def malloc_async(self, nbytes: int) -> int:
        """Refused: each replay would need memory of its own.

        Raises:
            GraphCaptureError: always.
        """
        raise _no_memory(nbytes)

    def free_async(self, address: int) -> None:
        """Refused: the next replay would use memory that is gone.

        Raises:
            GraphCaptureError: always.
        """
        raise GraphCaptureError(
            f"the memory at {address:#x} cannot be freed while a graph is captured",
            cause="every replay would free it again",
            fix="free it once the graph is gone",
        )


class CapturedMark(Mark):
    """A place in a graph that is being captured. Only the same capture can come after it."""

    __slots__ = ("_recording",)

    def __init__(self, driver: DeviceDriver, ordinal: int, recording: Recording) -> None:
        """Stand for what was captured so far: no event is needed."""
        self.driver = driver
        self.ordinal = ordinal
        self.event = 0
        self.number = 0
        self._recording = weakref.ref(recording)

    def hold(self, ordinal: int, stream: int, *, anyway: bool = False) -> None:  # noqa: ARG002 - there is nothing that could fail
        """Let the same capture go on.

        Raises:
            GraphCaptureError: it is another one, or a stream that is not captured.
        """
        recording = self._recording()  # it goes with the capture
        if recording is None or own_recording(self.driver, ordinal, stream) is not recording:
            raise _outside()

    @property
    def reached(self) -> bool:
        """It is never reached; only replays of the graph get there."""
        raise _outside()

    @property
    def failure(self) -> BaseException | None:
        """Nothing was done that could fail."""
        return None

    def sync(self) -> None:
        """There is nothing to wait for.

        Raises:
            GraphCaptureError: always.
        """
        raise _outside()


class Capture:
    """A capture that is going on. It ends with `end` or with `abandon`.

    Attributes:
        driver, ordinal: of the device.
        context: what ops that are captured run in.
    """

    def __init__(self, driver: DeviceDriver, ordinal: int) -> None:
        """Begin."""
        self.driver = driver
        self.ordinal = ordinal
        self._exit: contextlib.ExitStack | None = None
        with contextlib.ExitStack() as stack:
            line = stack.enter_context(capture_stream(driver, ordinal))
            driver.begin_capture(ordinal, line)
            recording = begin_recording(driver, ordinal, line)
            self._exit = stack.pop_all()
        self.context = CaptureContext(Stream.borrow_raw(line, ordinal, driver=driver), recording)

    @classmethod
    def of(cls, stream: Stream) -> Capture:
        """Begin a capture of work that a stream will replay: one that takes no work is refused now,
        and not at the first replay.

        Raises:
            SchedulingError: it is closed, or none of the device, where that is known.
        """
        stream.driver.position(stream.device, stream.handle)
        return cls(stream.driver, stream.device)

    def run(self, op: Runnable[T]) -> T:
        """Capture an op; its result, which replays make. Where it fails, the capture is given up.

        Raises:
            UsedOpError: the op was used before.
            NestedExecutionError: this thread executes another one.
            GraphCaptureError: something in it cannot be captured.
        """
        try:
            refuse_nested(op)
            RUNNING.op = op
            try:
                op._take("captured in a graph")  # noqa: SLF001 - of every op
                return op._run_in(self.context)  # noqa: SLF001
            finally:
                RUNNING.op = None
        except BaseException:
            self.abandon()
            raise

    def end(self) -> GraphHandle:
        """The graph, which is to be destroyed.

        Raises:
            DriverError: a call that cannot be captured broke the capture.
        """
        stack, self._exit = self._exit, None
        assert stack is not None
        self.context._over = True  # noqa: SLF001 - the two are one thing
        end_recording(self.driver, self.ordinal, self.context.stream)
        with stack:
            return self.driver.end_capture(self.ordinal, self.context.stream)

    def abandon(self) -> None:
        """End it without a graph; nothing is raised, and a second time is nothing."""
        if self._exit is not None:
            with contextlib.suppress(TilecError):  # the error that led here is what matters
                self.driver.destroy_graph(self.ordinal, self.end())

    def __del__(self) -> None:
        """Give up a capture that was not ended."""
        self.abandon()


@contextlib.contextmanager
def capture_stream(driver: DeviceDriver, ordinal: int) -> Iterator[int]:
    """A stream that no other code has, so that whatever becomes of a capture, all streams stay
    usable.
    """
    stream = driver.create_stream(ordinal)
    try:
        yield stream
    finally:
        with contextlib.suppress(TilecError):
            driver.destroy_stream(ordinal, stream)


def _no_memory(nbytes: int) -> GraphCaptureError:
    return GraphCaptureError(
        f"{nbytes} bytes cannot be allocated while a graph is captured",
        cause="a graph uses the addresses that it was captured with: memory has to be there before, and to stay",
        fix="allocate before, and pass the tensors to the op that is captured",
    )


def _outside() -> GraphCaptureError:
    what = "the result of a shared op is needed outside of the graph that it was captured in"
    return GraphCaptureError(
        what,
        cause="the op was captured: it runs in replays of that graph, and has no result of its own",
        fix="run the shared op before the capture (sync), or capture all its users in one graph",
    )
