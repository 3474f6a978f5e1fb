"""One piece of device memory: lease, last uses, and the free after them."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.frees import FREES, Release
from tilec_runtime.device.lines import Line, RecordedEvent, event_behind, line_of, record_all
from tilec_runtime.device.recording import recording_of
from tilec_runtime.device.seam import DeviceDriver, PoolHandle
from tilec_runtime.errors import DriverError, GraphCaptureError, OutOfMemoryError, SchedulingError
from tilec_runtime.tensors.lease import Lease
from tilec_runtime.tensors.pool import trim_all
from tilec_runtime.tensors.uses import Uses

# The line of the host, which is not a stream.
_HOST = Line(-9, 0)
_PER_THREAD = 2
_NO_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
# Cause and fix if memory runs out: on the device, or in a pool although the device has enough.
_DEVICE_FULL = (
    "tensors that are still alive, memory that a framework caches, or other processes take the rest",
    "drop tensors that are not needed any more, let frameworks give back what they cache (torch.cuda.empty_cache), or use smaller inputs",
)
_POOL_FULL = (
    "the pool of use_pool takes no more of the device: its tensors that are still alive fill its max_size, or this is larger than that",
    "drop tensors of the pool that are not needed any more, or make it with a larger max_size",
)


class Storage:
    """Memory of one device.

    When the object is finalized, the memory is freed in stream order, after its last use on any
    stream.

    Attributes:
        driver, ordinal: the driver and the device.
        address, nbytes: the memory; 0 for none.
        lease: the lease of all of it, for ops that have not run and for borrows.
        uses: the last uses.
        owner: the owner of another library's memory; None for tilec's own.
        readonly: whether it must never be written.
    """

    __slots__ = (
        "__weakref__",
        "_release",
        "address",
        "driver",
        "lease",
        "nbytes",
        "ordinal",
        "owner",
        "readonly",
        "uses",
    )

    def __init__(
        self,
        driver: DeviceDriver,
        ordinal: int,
        address: int,
        nbytes: int,
        *,
        owner: Any = None,
        readonly: bool = False,
    ) -> None:
        """Describe another library's memory, which exists as long as `owner`.

        `allocate` makes memory of tilec's own.

        Args:
            driver: the driver of the device.
            ordinal: the device.
            address: address of the first byte.
            nbytes: size in bytes.
            owner: an object to keep alive until the last use is complete.
            readonly: whether it must never be written.
        """
        self.driver = driver
        self.ordinal = ordinal
        self.address = address
        self.nbytes = nbytes
        self.owner = owner
        self.readonly = readonly
        self.lease = Lease()
        self.uses = Uses()
        self._release: Release | None = None
        if owner is not None:
            FREES.drain()
            self._release = Release(functools.partial(_let_go, driver, owner, self.uses))

    @classmethod
    def allocate(
        cls,
        driver: DeviceDriver,
        ordinal: int,
        nbytes: int,
        stream: int,
        pool: PoolHandle | None = None,
    ) -> Storage:
        """Allocate uninitialized memory in the order of a stream.

        Args:
            driver: the driver of the device.
            ordinal: the device.
            nbytes: size in bytes; 0 allocates nothing.
            stream: handle of the stream.
            pool: the pool to allocate from; None for tilec's own pool of the device.

        Raises:
            OutOfMemoryError: there is no memory of this size.
            DriverError: the driver fails otherwise.
        """
        storage = cls(
            driver,
            ordinal,
            allocate_bytes(driver, ordinal, nbytes, stream, pool) if nbytes else 0,
            nbytes,
        )
        if nbytes:
            storage._release = Release(
                functools.partial(_free, driver, ordinal, storage.address, storage.uses)
            )
        storage.uses.note(storage.line(stream), write=True)  # its first use
        return storage

    def line(self, stream: int, ordinal: int | None = None) -> Line:
        """Return the line of a stream, by default of the memory's device.

        Raises:
            SchedulingError: the handle means another stream in each thread.
        """
        if stream == _PER_THREAD:
            message = "the per-thread default stream (handle 2) cannot use tensors of tilec: each thread means another stream by it"
            raise SchedulingError(
                message, fix="use a stream with a handle of its own, or the legacy default stream"
            )
        return line_of(self.driver, self.ordinal if ordinal is None else ordinal, stream)

    def wait_for_uses(self, line: Line, *, write: bool) -> None:
        """Make later work on a stream wait for the last write; a write for reads too."""
        for use in self.uses.before(line, write=write):
            event = event_behind(self.driver, *use)
            # A writer does not need the results of work that failed, so it goes on.
            event.hold(line.ordinal, line.handle, anyway=write)

    def use(self, line: Line, *, write: bool, lasting: bool = False) -> None:
        """Let later work on a stream use the memory; `lasting` is that of `Uses.note`."""
        self.wait_for_uses(line, write=write)
        self.uses.note(line, write=write, lasting=lasting)

    def pass_through(self, stream: int, *, write: bool, lasting: bool = False) -> None:
        """Make a `use` by the handle of a stream of the memory's device.

        If the stream is captured, record the use for the graph instead: each replay is a use.
        """
        recording = recording_of(self.driver, self.ordinal, stream)
        if recording is not None:
            recording.touch(self, write=write)
        else:
            self.use(self.line(stream), write=write, lasting=lasting)

    def sync(self, *, write: bool, line: Line | None = None) -> None:
        """Wait until the host may read or write the memory.

        A failure of work waited for is raised.

        Args:
            write: whether the host is going to write.
            line: a line whose own uses need no wait.
        """
        line = line or _HOST
        for use in self.uses.before(line, write=write):
            event_behind(self.driver, *use).sync()
        # Only writes can have failed to produce the contents, so ignore failed reads.
        for use in self.uses.before(line, write=False):
            event = event_behind(self.driver, *use)
            event.sync()
            if (failure := event.failure) is not None:
                raise failure

    @property
    def foreign(self) -> bool:
        """Whether another library owns the memory."""
        return self.owner is not None or self._release is None


def allocate_bytes(
    driver: DeviceDriver,
    ordinal: int,
    nbytes: int,
    stream: int | None,
    pool: PoolHandle | None = None,
) -> int:
    """Allocate memory and return its address; retry after reclaiming unused memory.

    With a stream, the memory is allocated in its order; with None, at once.

    Raises:
        OutOfMemoryError: there is no memory of this size; the error has the sizes.
        GraphCaptureError: the stream is captured.
    """
    FREES.drain()
    if stream is not None and recording_of(driver, ordinal, stream) is not None:
        raise GraphCaptureError(
            f"{nbytes} bytes cannot be allocated on a stream that is captured into a graph",
            cause="a graph uses the addresses that it was captured with: memory has to be there before, and to stay",
            fix="allocate before the capture, and pass the tensors to what is captured",
        )
    try:
        return driver.allocate(ordinal, nbytes, stream, pool)
    except DriverError as error:
        if error.result != _NO_MEMORY:
            raise
    if nbytes <= driver.memory_info(ordinal)[1]:
        _reclaim(driver, ordinal, stream)
    try:
        return driver.allocate(ordinal, nbytes, stream, pool)
    except DriverError as error:
        if error.result != _NO_MEMORY:
            raise
        raise _out_of_memory(driver, ordinal, nbytes, pool) from error


def _free(driver: DeviceDriver, ordinal: int, address: int, uses: Uses) -> None:
    """Free memory after its last uses, without waiting for the device."""
    if _captured(driver, uses):
        FREES.later(
            functools.partial(_free, driver, ordinal, address, uses)
        )  # during the capture, the free would become a node of the graph
        return
    with driver.outside_captures(ordinal):
        _free_now(driver, ordinal, address, uses)


def _free_now(driver: DeviceDriver, ordinal: int, address: int, uses: Uses) -> None:
    last = uses.last
    line = last[0].line if last else uses.written
    if len(last) <= 1 and line is not None and line.ordinal == ordinal and line.open:
        driver.free(ordinal, address, line.handle)  # in stream order behind the last use
        return
    # An internal stream, never closed: waits on it delay no other work.
    home = freeing_stream(driver, ordinal)
    for use in last:
        event_behind(driver, *use).hold(ordinal, home, anyway=True)
    driver.free(ordinal, address, home)


def _let_go(driver: DeviceDriver, owner: Any, uses: Uses) -> None:
    """Keep the owner of foreign memory alive until its last uses are complete."""
    if _captured(driver, uses):
        FREES.later(functools.partial(_let_go, driver, owner, uses))
        return
    for use in uses.last:
        COMPLETIONS.keep(event_behind(driver, *use, blocking=True), use.line.handle, owner)


def _captured(driver: DeviceDriver, uses: Uses) -> bool:
    """Whether a stream of the memory's last uses is being captured."""
    return any(
        use.line.open and driver.capturing(use.line.ordinal, use.line.handle) for use in uses.last
    )


_STREAMS: weakref.WeakKeyDictionary[DeviceDriver, dict[int, int]] = weakref.WeakKeyDictionary()


def freeing_stream(driver: DeviceDriver, ordinal: int) -> int:
    """Return the device's stream for frees of memory that several streams used.

    It is created at its first use.
    """
    streams = _STREAMS.setdefault(driver, {})
    if ordinal not in streams:
        streams[ordinal] = driver.create_stream(ordinal)
    return streams[ordinal]


def _reclaim(driver: DeviceDriver, ordinal: int, stream: int | None) -> None:
    """Wait for frees in stream order, and return unused memory of pools to the device.

    It waits for streams and not for the device, because the latter would break captures of any
    library. Of other libraries' streams only `stream` is known.
    """
    with driver.outside_captures(ordinal):
        events = record_all(driver, ordinal)
        events += [
            RecordedEvent(driver, line_of(driver, ordinal, known))
            for known in (stream, _STREAMS.get(driver, {}).get(ordinal))
            if known is not None
        ]
        for event in events:
            event.sync()
        trim_all(driver, ordinal)


def _out_of_memory(
    driver: DeviceDriver, ordinal: int, nbytes: int, pool: PoolHandle | None
) -> OutOfMemoryError:
    stats = driver.pool_stats(ordinal, driver.default_pool(ordinal) if pool is None else pool)
    free, total = driver.memory_info(ordinal)
    message = (
        f"{driver.device(ordinal)} has no memory of {nbytes} bytes: the pool uses {stats.used} of {stats.reserved} that it has reserved, "
        f"and {free} of the device's {total} are free"
    )
    causes = _DEVICE_FULL if pool is None or nbytes > free else _POOL_FULL
    return OutOfMemoryError(
        message,
        device=ordinal,
        requested=nbytes,
        used=stats.used,
        reserved=stats.reserved,
        free=free,
        total=total,
        cause=causes[0],
        fix=causes[1],
    )
