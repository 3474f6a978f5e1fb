"""The context of an op while it runs: stream, memory, objects kept alive."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.lines import RecordedEvent
from tilec_runtime.device.scalars import bare, byte_count, whole
from tilec_runtime.device.seam import CopyKind, DeviceDriver, PoolHandle
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import CallError, SchedulingError, TensorError, TilecError
from tilec_runtime.ops.base import Op, require_op
from tilec_runtime.tensors.pool import pool_here
from tilec_runtime.tensors.storage import Storage, allocate_bytes

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")


class ExecutionContext:
    """One execution on one stream, passed to `_execute` and not usable afterwards.

    It is a stream too: launchers and other libraries accept it as one.

    Attributes:
        driver: the driver of the device.
        device: the device's ordinal.
        stream: the stream's handle.
        line: the stream's line of memory uses.
        capturing: whether enqueued work is captured into a graph.
    """

    __slots__ = (
        *("_allocated", "_blocking", "_borrowed", "_kept", "_over", "_since"),
        *("device", "driver", "line", "stream"),
    )
    capturing = False

    def __init__(self, stream: Stream, *, blocking: bool = False) -> None:
        """Begin an execution on a stream.

        Args:
            stream: the stream.
            blocking: whether waits for its end sleep instead of spinning, as completion threads
                need.

        Raises:
            SchedulingError: the stream is closed.
        """
        self.driver: DeviceDriver = stream.driver
        self.device = stream.device
        self.stream = stream.handle
        self.line = stream.line
        self._borrowed = stream.borrowed
        self._since = self.driver.position(self.device, self.stream), self.line.count
        self._kept: list[Any] = []
        self._allocated: set[int] = set()
        self._over = False
        self._blocking = blocking

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (0, handle): the protocol by which other libraries read streams."""
        return 0, self.stream

    def refuse_capture(self, what: str, *, cause: str, fix: str) -> None:
        """Refuse an op that cannot be captured, if this is a capture.

        Raises:
            GraphCaptureError: this is a capture.
        """

    def run(self, op: Op[T]) -> T:
        """Enqueue another op as a part of this one; return its result.

        The result is ready in stream order.

        Raises:
            UsedOpError: it was used before.
            CallError: the argument is not an op.
            SchedulingError: this execution is over.
        """
        self._require_running("run")
        require_op(op, "ctx.run takes an op", "pass an op; a value needs no run")
        op._take("executed as a part of another op")  # noqa: SLF001 - a method of all ops
        return op._run_in(self)  # noqa: SLF001

    # Memory of tensors

    def reads(self, storage: Storage) -> None:
        """Read memory: the stream waits for the last write, if that is on another stream."""
        self._touch(storage, write=False)

    def writes(self, storage: Storage) -> None:
        """Write memory: the stream waits for the last write and all later reads elsewhere."""
        self._touch(storage, write=True)

    def wait_for(self, event: RecordedEvent) -> None:
        """Make the stream wait for an event of another stream."""
        if event.driver is self.driver:
            event.hold(self.device, self.stream)
        else:  # drivers cannot wait for each other's streams
            event.sync()

    def record(self) -> RecordedEvent:
        """Return an event behind the work enqueued so far."""
        return RecordedEvent(self.driver, self.line, self._since, blocking=self._blocking)

    def keep(self, *things: Any) -> None:
        """Keep objects alive until the device is done with this execution.

        Raises:
            SchedulingError: this execution is over.
        """
        self._require_running("keep")
        self._kept.extend(things)

    # Memory that the op itself allocates

    @property
    def pool(self) -> PoolHandle | None:
        """The pool of `use_pool` for allocations, or None for the device's own."""
        return pool_here(self.driver, self.device)

    def malloc_async(self, nbytes: int) -> int:
        """Allocate memory in stream order; return its address.

        `free_async` frees it, in this execution or a later one. An execution that fails frees the
        memory that it allocated.

        Raises:
            OutOfMemoryError: there is no memory of this size.
            CallError: `nbytes` is not a size.
            SchedulingError: this execution is over.
        """
        self._require_running("malloc_async")
        size = byte_count("malloc_async: nbytes", nbytes)
        address = allocate_bytes(self.driver, self.device, size, self.stream, self.pool)
        self._allocated.add(address)
        return address

    def free_async(self, address: int) -> None:
        """Free memory of `malloc_async`, in stream order.

        Raises:
            CallError: `address` is not an address.
            SchedulingError: this execution is over.
        """
        self._require_running("free_async")
        address = whole("free_async: the address", bare(address))
        self._allocated.discard(address)
        self.driver.free(self.device, address, self.stream)

    def memcpy_htod_async(self, address: int, host: Any) -> None:
        """Copy host memory to the device, in stream order.

        Args:
            address: the target.
            host: a NumPy array, or an object that NumPy converts to one. It is kept alive, and must
                not change until the copy is done.

        Raises:
            CallError: `address` is not an address.
            SchedulingError: this execution is over.
        """
        import numpy as np

        self._require_running("memcpy_htod_async")
        self._copy("memcpy_htod_async", address, np.ascontiguousarray(host), CopyKind.TO_DEVICE)

    def memcpy_dtoh_async(self, host: np.ndarray[Any, Any], address: int) -> None:
        """Copy device memory to a C-contiguous NumPy array, in stream order.

        The array is kept alive.

        Raises:
            TensorError: `host` is not an array, is read-only, or is not C-contiguous.
        """
        self._require_running("memcpy_dtoh_async")
        flags = getattr(host, "flags", None)
        if not (flags is not None and flags.c_contiguous and flags.writeable):
            message = f"memcpy_dtoh_async cannot write into a {type(host).__qualname__} that is no array, read only, or not C-contiguous"
            raise TensorError(message, fix="pass a NumPy array of its own: np.empty(shape, dtype)")
        self._copy("memcpy_dtoh_async", address, host, CopyKind.TO_HOST)

    def memcpy_dtod_async(self, target: int, source: int, nbytes: int) -> None:
        """Copy device memory to device memory, in stream order.

        Raises:
            CallError: `nbytes` is not a size.
            SchedulingError: this execution is over.
        """
        self._require_running("memcpy_dtod_async")
        size = byte_count("memcpy_dtod_async: nbytes", nbytes)
        self.driver.copy_async(self.device, target, source, size, self.stream, CopyKind.ON_DEVICE)

    def _copy(
        self, activity: str, address: int, array: np.ndarray[Any, Any], kind: CopyKind
    ) -> None:
        number = whole(f"{activity}: the address", bare(address))
        if array.nbytes:
            self.keep(array)
            ends = (number, array.ctypes.data)
            target, source = ends if kind is CopyKind.TO_DEVICE else (ends[1], ends[0])
            self.driver.copy_async(self.device, target, source, array.nbytes, self.stream, kind)

    def _touch(self, storage: Storage, *, write: bool) -> None:
        self._require_running("writes" if write else "reads")
        given: object = storage
        if not isinstance(given, Storage):
            raise CallError(
                f"reads and writes take memory of tensors, and this is a {type(given).__qualname__}",
                fix="pass the storage of a tensor: ctx.reads(t.storage)",
            )
        storage.use(self.line, write=write)

    def _require_running(self, activity: str) -> None:
        if self._over:
            raise SchedulingError(
                f"ctx.{activity} was called on the context of an execution that is over",
                cause="nothing would wait for it any more, nor keep what it uses",
                fix="call it inside of _execute or of with_context's function, and keep no context",
            )

    # Start and end, for `ops.execution`

    def begin(self) -> None:
        """Mark the line as busy: from now on uses get numbers before they are enqueued."""
        self.line.busy[id(self)] = threading.get_ident()

    def finish(self, *, failed: bool = False, waited: bool = False) -> RecordedEvent | None:
        """End the execution, and return the event behind it.

        `release` gives up the kept objects.

        Args:
            failed: whether to free the memory that it allocated.
            waited: whether the caller synchronizes the stream next. This needs no event, except if
                another library may close the stream, or if events report failures.
        """
        self._over = True
        if failed:
            for address in self._allocated:
                self.driver.free(self.device, address, self.stream)
        self.line.busy.pop(id(self), None)
        if waited and not self._borrowed and not self.driver.holds_arguments:
            return None
        return self.record()

    def abandon(self) -> None:
        """End an execution that failed.

        Nothing is raised, so that the failure itself is reported.
        """
        try:
            event = self.finish(failed=True)
        except TilecError:  # the device is lost, so no work uses memory any more
            return
        assert event is not None
        self.release(event)
        # Consume a failure of this work: the next op on the stream must not report it.
        COMPLETIONS.watch(event, self.stream, _ignore)

    def leave(self, event: RecordedEvent) -> None:
        """Let the device continue without a waiter; log the error of the work if it fails."""
        self.release(event)
        COMPLETIONS.watch(event, self.stream, _log)

    def release(self, event: RecordedEvent) -> None:
        """Give up the kept objects once the event is reached."""
        kept, self._kept = self._kept, []
        if kept:
            COMPLETIONS.keep(event, self.stream, kept)


def _log(error: BaseException | None) -> None:
    if error is not None:
        import logging  # slow to import, and rarely needed

        logging.getLogger("tilec_runtime").error(
            "work of an op failed whose wait was interrupted: %s", error, exc_info=error
        )


def _ignore(_: BaseException | None) -> None:
    """Consume an error that no caller gets."""
