"""What an op has while it runs: its stream, the memory that it uses there, and what must live until
the device is done.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.marks import Mark
from tilec_runtime.device.scalars import bare, byte_count, whole
from tilec_runtime.device.seam import CopyKind, DeviceDriver, PoolHandle
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import CallError, SchedulingError, TensorError, TilecError
from tilec_runtime.running import Runnable
from tilec_runtime.tensors.pool import pool_here
from tilec_runtime.tensors.storage import Storage, allocate_bytes

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")


class ExecutionContext:
    """One execution on one stream. `_execute` gets it; afterwards it is of no use.

    It is a stream too: launchers and other libraries take it as one.

    Attributes:
        driver: of the device.
        device: its ordinal.
        stream: the stream's handle.
        line: of its uses of memory. capturing: whether a graph captures what is enqueued.
    """

    __slots__ = (
        *("_allocated", "_blocking", "_borrowed", "_kept", "_over", "_since"),
        *("device", "driver", "line", "stream"),
    )
    capturing = False

    def __init__(self, stream: Stream, *, blocking: bool = False) -> None:
        """Begin on a stream.

        Args:
            stream: where.
            blocking: let waits for its end sleep, and not spin: for those of a completion thread.

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
        """Return (0, handle), as other libraries read it."""
        return 0, self.stream

    def refuse_capture(self, what: str, *, cause: str, fix: str) -> None:
        """Refuse an op that makes no sense in a graph, if this is a capture.

        Raises:
            GraphCaptureError: it is; the arguments say what was refused, why, and what to do.
        """

    def refuse_allocation(self, nbytes: int) -> None:
        """Refuse an allocation of more than 0 bytes, if this is a capture.

        Raises:
            GraphCaptureError: it is.
        """

    def run(self, op: Runnable[T]) -> T:
        """Enqueue another op here, as a part of this one; return its result, which is ready when
        the stream gets there.

        Raises:
            UsedOpError: it was used before.
            CallError: it is no op.
            SchedulingError: this execution is over.
        """
        self._require_running("run")
        require_op(op, "ctx.run", "pass an op; a value needs no run")
        op._take("executed as a part of another op")  # noqa: SLF001 - of every op
        return op._run_in(self)  # noqa: SLF001

    # Memory that ops share

    def reads(self, storage: Storage) -> None:
        """Use memory that others may read too: the stream waits for the last write on any other."""
        self._touch(storage, write=False)

    def writes(self, storage: Storage) -> None:
        """Use memory alone: the stream waits for the last write, and all reads since, on any other."""
        self._touch(storage, write=True)

    def wait_for(self, mark: Mark) -> None:
        """Let the stream wait for a place in another one."""
        if mark.driver is self.driver:
            mark.hold(self.device, self.stream)
        else:  # drivers cannot wait for each other's streams
            mark.sync()

    def mark(self) -> Mark:
        """Return a mark behind what was enqueued so far."""
        return Mark(self.driver, self.line, self._since, blocking=self._blocking)

    def keep(self, *things: Any) -> None:
        """Keep objects alive until the device is done with this execution.

        Raises:
            SchedulingError: it is over.
        """
        self._require_running("keep")
        self._kept.extend(things)

    # Memory of the op's own

    @property
    def pool(self) -> PoolHandle | None:
        """The pool of `use_pool` that new memory comes from; None for the device's own."""
        return pool_here(self.driver, self.device)

    def malloc_async(self, nbytes: int) -> int:
        """Allocate memory in stream order; return its address. `free_async` gives it back, in this
        execution or a later one.

        An execution that fails gives back what it allocated.

        Raises:
            OutOfMemoryError: there is no memory of this size.
            CallError: it is no size.
            SchedulingError: this execution is over.
        """
        self._require_running("malloc_async")
        size = byte_count("malloc_async: nbytes", nbytes)
        address = allocate_bytes(self.driver, self.device, size, self.stream, self.pool)
        self._allocated.add(address)
        return address

    def free_async(self, address: int) -> None:
        """Give memory of `malloc_async` back, in stream order.

        Raises:
            CallError: it is no address.
            SchedulingError: this execution is over.
        """
        self._require_running("free_async")
        address = whole("free_async: the address", bare(address))
        self._allocated.discard(address)
        self.driver.free(self.device, address, self.stream)

    def memcpy_htod_async(self, address: int, host: Any) -> None:
        """Copy host memory to the device, in stream order.

        Args:
            address: where to.
            host: a NumPy array, or anything that NumPy makes one of. It is kept alive, and must not
                change until the copy is done.

        Raises:
            CallError: it is no address.
            SchedulingError: this execution is over.
        """
        import numpy as np

        self._require_running("memcpy_htod_async")
        self._copy("memcpy_htod_async", address, np.ascontiguousarray(host), CopyKind.TO_DEVICE)

    def memcpy_dtoh_async(self, host: np.ndarray[Any, Any], address: int) -> None:
        """Copy device memory into a C-contiguous NumPy array, in stream order. It is kept alive.

        Raises:
            TensorError: it is no array, read only, or not C-contiguous.
        """
        self._require_running("memcpy_dtoh_async")
        flags = getattr(host, "flags", None)
        if not (flags is not None and flags.c_contiguous and flags.writeable):
            what = f"memcpy_dtoh_async cannot write into a {type(host).__qualname__} that is no array, read only, or not C-contiguous"
            raise TensorError(what, fix="pass a NumPy array of its own: np.empty(shape, dtype)")
        self._copy("memcpy_dtoh_async", address, host, CopyKind.TO_HOST)

    def memcpy_dtod_async(self, target: int, source: int, nbytes: int) -> None:
        """Copy device memory to device memory, in stream order.

        Raises:
            CallError: `nbytes` is no size.
            SchedulingError: this execution is over.
        """
        self._require_running("memcpy_dtod_async")
        size = byte_count("memcpy_dtod_async: nbytes", nbytes)
        self.driver.copy_async(self.device, target, source, size, self.stream, CopyKind.ON_DEVICE)

    def _copy(self, what: str, address: int, array: np.ndarray[Any, Any], kind: CopyKind) -> None:
        number = whole(f"{what}: the address", bare(address))
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

    def _require_running(self, what: str) -> None:
        if self._over:
            raise SchedulingError(
                f"ctx.{what} was called on the context of an execution that is over",
                cause="nothing would wait for it any more, nor keep what it uses",
                fix="call it inside of _execute or of with_context's function, and keep no context",
            )

    # Its end, for what runs ops

    def begin(self) -> None:
        """Note that uses of memory are numbered from now on before they are enqueued."""
        self.line.busy[id(self)] = threading.get_ident()

    def finish(self, *, failed: bool = False, waited: bool = False) -> Mark | None:
        """End it, and return the mark behind it. `release` gives up what it keeps.

        Args:
            failed: give back what was allocated.
            waited: the caller synchronizes the stream next, which needs no mark but where another
                library may close the stream, and where the mark tells whose work failed.
        """
        self._over = True
        if failed:
            for address in self._allocated:
                self.driver.free(self.device, address, self.stream)
        self.line.busy.pop(id(self), None)
        if waited and not self._borrowed and not self.driver.holds_arguments:
            return None
        return self.mark()

    def abandon(self) -> None:
        """End an execution that failed, whose error matters: nothing is raised here."""
        try:
            mark = self.finish(failed=True)
        except TilecError:  # the device is lost: nothing uses memory any more
            return
        assert mark is not None
        self.release(mark)
        # The next op on the stream must not be told of a failure of this work.
        COMPLETIONS.watch(mark, self.stream, _ignore)

    def leave(self, mark: Mark) -> None:
        """Let the device go on without a waiter: log the error of the work if it fails."""
        self.release(mark)
        COMPLETIONS.watch(mark, self.stream, _log)

    def release(self, mark: Mark) -> None:
        """Give up what was kept once the mark is reached."""
        kept, self._kept = self._kept, []
        if kept:
            COMPLETIONS.keep(mark, self.stream, kept)


def require_op(given: object, method: str, fix: str = "") -> None:
    """Check that a method was given an op.

    Raises:
        CallError: it was not.
    """
    if not hasattr(given, "_run_in"):
        raise CallError(f"{method} takes an op, and this is a {type(given).__qualname__}", fix=fix)


def _log(error: BaseException | None) -> None:
    if error is not None:
        logging.getLogger("tilec_runtime").error(
            "work of an op failed whose wait was interrupted: %s", error, exc_info=error
        )


def _ignore(_: BaseException | None) -> None:
    """Take an error that is reported to no caller."""
