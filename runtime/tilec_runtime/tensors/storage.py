"""One piece of device memory: who may use it, where it was used last, and that it is given back
after that, in stream order.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.frees import FREES, Release
from tilec_runtime.device.marks import Line, Mark, line_of, mark_behind, places
from tilec_runtime.device.recording import recording_of
from tilec_runtime.device.seam import DeviceDriver, PoolHandle
from tilec_runtime.errors import DriverError, GraphCaptureError, OutOfMemoryError, SchedulingError
from tilec_runtime.tensors.lease import Lease
from tilec_runtime.tensors.pool import trim_all
from tilec_runtime.tensors.uses import Uses

# No stream: the host itself.
_HOST = Line(-9, 0)
_PER_THREAD = 2
_NO_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
# Cause and fix where memory runs out: of the device, and of a pool while the device has as much.
_DEVICE_FULL = (
    "tensors that are still alive, memory that a framework caches, or other processes take the rest",
    "drop tensors that are not needed any more, let frameworks give back what they cache (torch.cuda.empty_cache), or use smaller inputs",
)
_POOL_FULL = (
    "the pool of use_pool takes no more of the device: its tensors that are still alive fill its max_size, or this is larger than that",
    "drop tensors of the pool that are not needed any more, or make it with a larger max_size",
)


class Storage:
    """Memory of one device. When the object goes, the memory follows in stream order, after its
    last use on whatever stream.

    Attributes:
        driver, ordinal: of its device.
        address, nbytes: of the memory; 0 for none.
        lease: of all of it, for what was made and not yet run, and for borrows.
        uses: the last ones.
        owner: the owner of foreign memory; None for tilec's own.
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
        """Describe foreign memory, which stays there as long as `owner` does; `allocate`
        makes memory of tilec's own.

        Args:
            driver: of the device.
            ordinal: of the device.
            address: of the first byte.
            nbytes: how many.
            owner: whom to keep alive until the last use is over.
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
        """Take memory in the order of a stream; the contents are whatever was there.

        Args:
            driver: of the device.
            ordinal: of the device.
            nbytes: how many; for 0 there is no memory and no address.
            stream: in whose order.
            pool: out of which pool; None for the one that tilec has for the device.

        Raises:
            OutOfMemoryError: there is no memory of this size.
            DriverError: the driver refuses otherwise.
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
        """The line of a stream, of the memory's device where no other is named.

        Raises:
            SchedulingError: the handle names another stream in each thread.
        """
        if stream == _PER_THREAD:
            what = "the per-thread default stream (handle 2) cannot use tensors of tilec: each thread means another stream by it"
            raise SchedulingError(
                what, fix="use a stream with a handle of its own, or the legacy default stream"
            )
        return line_of(self.driver, self.ordinal if ordinal is None else ordinal, stream)

    def wait_for_uses(self, line: Line, *, write: bool) -> None:
        """Let what a stream is given next wait for the last write, and for reads too where it is
        going to write.
        """
        for use in self.uses.before(line, write=write):
            mark = mark_behind(self.driver, *use)
            # Failed work left nothing that a writer needs.
            mark.hold(line.ordinal, line.handle, anyway=write)

    def use(self, line: Line, *, write: bool, lasting: bool = False) -> None:
        """Let what a stream is given next use the memory; `lasting` as for `Uses.note`."""
        self.wait_for_uses(line, write=write)
        self.uses.note(line, write=write, lasting=lasting)

    def pass_through(self, stream: int, *, write: bool, lasting: bool = False) -> None:
        """`use`, by the handle of a stream of the memory's device.

        Where that is captured, the use comes with each replay of the graph: it is the graph that
        learns of it.
        """
        recording = recording_of(self.driver, self.ordinal, stream)
        if recording is not None:
            recording.touch(self, write=write)
        else:
            self.use(self.line(stream), write=write, lasting=lasting)

    def sync(self, *, write: bool, line: Line | None = None) -> None:
        """Wait until the host may read the memory, or write it; a failure of the work that it waits
        for is raised.

        Args:
            write: whether it is going to write.
            line: in whose name it waits: for uses there it need not.
        """
        line = line or _HOST
        for use in self.uses.before(line, write=write):
            mark_behind(self.driver, *use).sync()
        # Reads that failed left the contents as they were.
        for use in self.uses.before(line, write=False):
            mark = mark_behind(self.driver, *use)
            mark.sync()
            if (failure := mark.failure) is not None:
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
    """Address of new memory in the order of a stream; at once for None. Where there is none, what
    tilec keeps is given back first.

    Raises:
        OutOfMemoryError: with what was asked for and what there is.
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
    """Give memory back after its last uses. Nothing here waits for the device."""
    if _captured(driver, uses):
        FREES.later(
            functools.partial(_free, driver, ordinal, address, uses)
        )  # now it would become a part of the graph
        return
    with driver.outside_captures(ordinal):
        _free_now(driver, ordinal, address, uses)


def _free_now(driver: DeviceDriver, ordinal: int, address: int, uses: Uses) -> None:
    last = uses.last
    line = last[0].line if last else uses.written
    if len(last) <= 1 and line is not None and line.ordinal == ordinal and line.open:
        driver.free(ordinal, address, line.handle)  # the stream's own order is enough
        return
    # An internal stream, never closed: what waits there holds up no other work.
    home = freeing_stream(driver, ordinal)
    for use in last:
        mark_behind(driver, *use).hold(ordinal, home, anyway=True)
    driver.free(ordinal, address, home)


def _let_go(driver: DeviceDriver, owner: Any, uses: Uses) -> None:
    """Keep the owner of foreign memory until its last uses are over."""
    if _captured(driver, uses):
        FREES.later(functools.partial(_let_go, driver, owner, uses))
        return
    for use in uses.last:
        COMPLETIONS.keep(mark_behind(driver, *use, blocking=True), use.line.handle, owner)


def _captured(driver: DeviceDriver, uses: Uses) -> bool:
    """Whether a stream that used memory last is captured now."""
    return any(
        use.line.open and driver.capturing(use.line.ordinal, use.line.handle) for use in uses.last
    )


_STREAMS: weakref.WeakKeyDictionary[DeviceDriver, dict[int, int]] = weakref.WeakKeyDictionary()


def freeing_stream(driver: DeviceDriver, ordinal: int) -> int:
    """The stream of a device in whose order memory is freed that several streams used; made when it
    is first needed.
    """
    streams = _STREAMS.setdefault(driver, {})
    if ordinal not in streams:
        streams[ordinal] = driver.create_stream(ordinal)
    return streams[ordinal]


def _reclaim(driver: DeviceDriver, ordinal: int, stream: int | None) -> None:
    """Wait for memory that is freed in the order of streams, and give back what pools keep of it.

    It is streams that are waited for, and not the device: that would break captures of whomever.
    Streams of other libraries are not known here, but for the one that memory is wanted on.
    """
    with driver.outside_captures(ordinal):
        marks = places(driver, ordinal)
        marks += [
            Mark(driver, line_of(driver, ordinal, known))
            for known in (stream, _STREAMS.get(driver, {}).get(ordinal))
            if known is not None
        ]
        for mark in marks:
            mark.sync()
        trim_all(driver, ordinal)


def _out_of_memory(
    driver: DeviceDriver, ordinal: int, nbytes: int, pool: PoolHandle | None
) -> OutOfMemoryError:
    stats = driver.pool_stats(ordinal, driver.default_pool(ordinal) if pool is None else pool)
    free, total = driver.memory_info(ordinal)
    what = (
        f"{driver.device(ordinal)} has no memory of {nbytes} bytes: the pool uses {stats.used} of {stats.reserved} that it has reserved, "
        f"and {free} of the device's {total} are free"
    )
    causes = _DEVICE_FULL if pool is None or nbytes > free else _POOL_FULL
    return OutOfMemoryError(
        what,
        device=ordinal,
        requested=nbytes,
        used=stats.used,
        reserved=stats.reserved,
        free=free,
        total=total,
        cause=causes[0],
        fix=causes[1],
    )
