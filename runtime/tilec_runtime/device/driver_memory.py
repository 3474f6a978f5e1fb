"""Memory, copies, pools, streams and events of the CUDA driver."""

from __future__ import annotations

import collections
import ctypes
import threading
from typing import Any

from tilec_runtime.device.driver_calls import Calls
from tilec_runtime.device.libcuda import Copy3D, PoolProperties
from tilec_runtime.device.seam_types import KEEP_ALL, CopyBox, CopyKind, PoolHandle, PoolStats

_NOT_READY = 600
# Attributes of addresses; kinds of memory and flags.
_ORDINAL, _START, _SIZE = 9, 11, 12
_UNIFIED, _PINNED, _ON_DEVICE, _PORTABLE = 4, 1, 1, 1
_NON_BLOCKING, _BLOCKING_SYNC, _NO_TIMING = 1, 1, 2
# Attributes of pools.
_THRESHOLD, _RESERVED, _RESERVED_HIGH, _USED, _USED_HIGH = range(4, 9)
# Results that say that a thread has no context, or that of another device: invalid context, invalid
# handle, a context that is gone.
_ELSEWHERE = (201, 400, 709)
# `cuMemcpyAsync` finds out by itself what kinds of memory its addresses are of.
_COPIES = dict.fromkeys(CopyKind, "cuMemcpyAsync") | {
    CopyKind.TO_DEVICE: "cuMemcpyHtoDAsync",
    CopyKind.TO_HOST: "cuMemcpyDtoHAsync",
}


class MemoryCalls(Calls):
    """The part of `DeviceDriver` that moves and orders."""

    def __init__(self, api: Any) -> None:
        """Start the driver API.

        Args:
            api: a `Libcuda`, or a double in its place.
        """
        super().__init__(api)
        self._own_pools: dict[int, PoolHandle] = {}
        self._own: set[int] = set()  # events and streams that were made here
        self._pool_lock = threading.RLock()  # the collector may free from inside
        self._leaving: collections.deque[tuple[int, PoolHandle]] = collections.deque()

    # Memory

    def pointer_device(self, address: int) -> int | None:
        """Ordinal of the device that an address belongs to; None for an address that the driver
        does not know.
        """
        result, *values = self._pointer(_ORDINAL, address)
        if self._is_final(result):  # else it would look as if the address had no owner
            raise self._error("cuPointerGetAttribute", result)
        ordinal = -1 if result else ctypes.c_int(values[0]).value
        return ordinal if ordinal >= 0 else None

    def allocation(self, address: int) -> tuple[int, int] | None:
        """(first address, bytes) of the allocation that an address lies in; None where the driver
        does not know.
        """
        answers = [self._pointer(attribute, address) for attribute in (_START, _SIZE)]
        if any(result or not value for result, value in answers):
            return None
        return answers[0][1], answers[1][1]

    def _pointer(self, attribute: int, address: int) -> Any:
        """(result, attribute of an address). Older drivers know of none without a context; they are
        those of all, so any one is good.
        """
        answer = self._api.cuPointerGetAttribute(attribute, address)
        if (
            answer[0]
            and not self._api.cuCtxGetCurrent()[1]
            and (context := self._some_context()) is not None
        ):
            with self._pushed(context):
                answer = self._api.cuPointerGetAttribute(attribute, address)
        return answer

    def allocate(
        self, ordinal: int, size: int, stream: int | None, pool: PoolHandle | None = None
    ) -> int:
        """Device memory, in stream order where a stream is given; then out of a pool, tilec's own
        for the device by default.
        """
        with self.current(ordinal):
            if stream is None:
                return int(self._ask("cuMemAlloc", size))
            return int(
                self._ask(
                    "cuMemAllocFromPoolAsync",
                    size,
                    self.default_pool(ordinal) if pool is None else pool,
                    stream,
                )
            )

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Give memory back, in stream order where a stream is given."""
        with self.current(ordinal):
            if stream is None:
                self._ask("cuMemFree", address)
            else:
                self._ask("cuMemFreeAsync", address, stream)

    def allocate_pinned(self, ordinal: int, size: int) -> int:
        """Host memory that the device copies from and to by itself."""
        with self.current(ordinal):
            return int(self._ask("cuMemHostAlloc", size, _PORTABLE))

    def free_pinned(self, ordinal: int, address: int) -> None:
        """Give pinned memory back; nothing may use it any more."""
        self._give_back(ordinal, "cuMemFreeHost", address)

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        """(free, total) bytes of the device."""
        with self.current(ordinal):
            result, free, total = self._api.cuMemGetInfo()
        if result:
            raise self._error("cuMemGetInfo", result, ordinal=ordinal)
        return free, total

    # Copies

    def copy_in(self, ordinal: int, address: int, source: int, size: int, stream: int) -> None:
        """Copy host memory (address `source`) to the device and wait for it."""
        with self.current(ordinal):
            self._ask("cuMemcpyHtoDAsync", address, source, size, stream)
            self._ask("cuStreamSynchronize", stream)

    def copy_out(self, ordinal: int, target: int, address: int, size: int, stream: int) -> None:
        """Copy device memory to host memory (address `target`) and wait for it."""
        with self.current(ordinal):
            self._ask("cuMemcpyDtoHAsync", target, address, size, stream)
            self._ask("cuStreamSynchronize", stream)

    def copy_async(
        self, ordinal: int, target: int, source: int, size: int, stream: int, kind: CopyKind
    ) -> None:
        """Copy in stream order. Host memory must stay as it is until the copy is done; only pinned
        memory is copied without waiting.
        """
        with self.current(ordinal):
            self._ask(_COPIES[kind], target, source, size, stream)

    def copy_box(
        self, ordinal: int, target: int, source: int, box: CopyBox, stream: int, kind: CopyKind
    ) -> None:
        """Copy rows of bytes that lie apart, in stream order. Host memory must stay as it is until
        the copy is done.
        """
        if box.rows == box.slices == 1:
            self.copy_async(ordinal, target, source, box.width, stream, kind)
            return
        # The two-dimensional calls may refuse pitches that the driver did not choose itself; this
        # one takes any.
        wanted = Copy3D(width=box.width, height=box.rows, depth=box.slices)
        for end, address, pitch, apart in (
            (wanted.source, source, box.source_pitch, box.source_slice),
            (wanted.target, target, box.target_pitch, box.target_slice),
        ):
            end.kind, end.device, end.pitch, end.height = _UNIFIED, address, pitch, apart // pitch
        with self.current(ordinal):
            self._ask("cuMemcpy3DAsync", ctypes.byref(wanted), stream)

    def fill(self, ordinal: int, address: int, byte: int, size: int, stream: int) -> None:
        """Set every byte of device memory, in stream order."""
        with self.current(ordinal):
            self._ask("cuMemsetD8Async", address, byte, size, stream)

    # Pools

    def default_pool(self, ordinal: int) -> PoolHandle:
        """The pool that allocations in stream order come from unless they name another. It keeps
        all that is freed.

        The driver's default pool is the whole process's: other libraries set its attributes, and by
        itself it keeps nothing, so that each allocation after a wait maps its memory anew.
        """
        pool = self._own_pools.get(ordinal)
        if pool is None:
            with self._pool_lock:
                pool = self._own_pools.get(ordinal)
                if pool is None:
                    pool = self._own_pools[ordinal] = self.create_pool(ordinal, KEEP_ALL)
        return pool

    def create_pool(self, ordinal: int, release_threshold: int, max_size: int = 0) -> PoolHandle:
        """A pool of its own; `max_size` bounds what it takes from the device, 0 does not."""
        self._destroy_unused()
        wanted = PoolProperties(
            allocation=_PINNED, location=_ON_DEVICE, ordinal=ordinal, most=max_size
        )
        with self.current(ordinal):
            pool = self._ask("cuMemPoolCreate", ctypes.byref(wanted))
            try:
                self.set_release_threshold(ordinal, pool, release_threshold)
            except BaseException:
                self._ask("cuMemPoolDestroy", pool)
                raise
        return pool

    def destroy_pool(self, ordinal: int, pool: PoolHandle) -> None:
        """Give a pool back, as soon as nothing of it is allocated: until then it keeps nothing of
        what is freed.

        By its documentation, the driver destroys pools whose memory is still used, too. But a
        program that freed such memory afterwards was seen to crash where the next pool was
        destroyed.
        """
        if ordinal in self._losses:
            return
        self.set_release_threshold(ordinal, pool, 0)
        self._leaving.append((ordinal, pool))  # from here on any thread may destroy it
        self._destroy_unused()

    def _destroy_unused(self) -> None:
        """Destroy pools that were given back and that nothing is allocated of any more."""
        for _ in range(len(self._leaving)):
            try:
                ordinal, pool = self._leaving.popleft()
            except IndexError:  # another thread has dealt with it, or the collector
                return
            if ordinal in self._losses:
                continue
            with self.current(ordinal):
                if self._ask("cuMemPoolGetAttribute", pool, _USED):
                    self._ask("cuMemPoolTrimTo", pool, 0)
                    self._leaving.append((ordinal, pool))
                else:
                    self._ask("cuMemPoolDestroy", pool)

    def set_release_threshold(self, ordinal: int, pool: PoolHandle, size: int) -> None:
        """Set how many unused bytes a pool keeps."""
        with self.current(ordinal):
            value = ctypes.c_uint64(size)
            self._ask("cuMemPoolSetAttribute", pool, _THRESHOLD, ctypes.byref(value))

    def pool_stats(self, ordinal: int, pool: PoolHandle) -> PoolStats:
        """What a pool holds."""
        facts = {
            "used": _USED,
            "reserved": _RESERVED,
            "used_high": _USED_HIGH,
            "reserved_high": _RESERVED_HIGH,
            "release_threshold": _THRESHOLD,
        }
        with self.current(ordinal):
            return PoolStats(
                **{
                    name: self._ask("cuMemPoolGetAttribute", pool, fact)
                    for name, fact in facts.items()
                }
            )

    def trim_pool(self, ordinal: int, pool: PoolHandle, keep: int) -> None:
        """Give unused memory back to the device until the pool has no more than `keep` bytes, where
        it can.
        """
        self._destroy_unused()
        with self.current(ordinal):
            self._ask("cuMemPoolTrimTo", pool, keep)

    # Streams

    def create_stream(self, ordinal: int) -> int:
        """A stream that does not wait for the legacy default stream."""
        with self.current(ordinal):
            stream: int = self._ask("cuStreamCreate", _NON_BLOCKING)
        self._own.add(stream)
        return stream

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Give a stream back; work on it still finishes."""
        self._own.discard(stream)
        self._give_back(ordinal, "cuStreamDestroy", stream)

    def synchronize(self, ordinal: int, stream: int) -> None:
        """Wait for everything on a stream."""
        if not self._at_once(ordinal, "cuStreamSynchronize", stream, stream):
            with self.current(ordinal):
                self._ask("cuStreamSynchronize", stream)

    def synchronize_device(self, ordinal: int) -> None:
        """Wait for everything on all streams of a device."""
        with self.current(ordinal):
            self._ask("cuCtxSynchronize")

    # Events

    def create_event(self, ordinal: int, *, timed: bool = True, blocking: bool = False) -> int:
        """A mark that can be set in streams; one without times costs less. Waits for a `blocking`
        one sleep, and do not spin.
        """
        flags = (0 if timed else _NO_TIMING) | (_BLOCKING_SYNC if blocking else 0)
        with self.current(ordinal):
            event: int = self._ask("cuEventCreate", flags)
        self._own.add(event)
        return event

    def destroy_event(self, ordinal: int, event: int) -> None:
        """Give an event back; streams that wait for it still do."""
        self._own.discard(event)
        self._give_back(ordinal, "cuEventDestroy", event)

    def position(self, ordinal: int, stream: int) -> int:  # noqa: ARG002 - only drivers that tell works apart count
        """A failed work fails the context: there is nothing to tell apart."""
        return 0

    def record_event(self, ordinal: int, event: int, stream: int, since: int | None = None) -> None:  # noqa: ARG002 - as `position`
        """Set the mark behind what a stream has to do; it was elsewhere before."""
        if not self._at_once(ordinal, "cuEventRecord", stream, event, stream):
            with self.current(ordinal):
                self._ask("cuEventRecord", event, stream)

    def event_failure(self, ordinal: int, event: int) -> BaseException | None:  # noqa: ARG002 - as `position`
        """Nothing: a failure is raised by the call that asks whether the mark is reached."""
        return None

    def wait_event(self, ordinal: int, stream: int, event: int, *, anyway: bool = False) -> None:  # noqa: ARG002 - as `position`
        """Let what a stream is given from now on wait until the mark is reached; one that was never
        set is.
        """
        if not self._at_once(ordinal, "cuStreamWaitEvent", stream, stream, event, 0):
            with self.current(ordinal):
                self._ask("cuStreamWaitEvent", stream, event, 0)

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Whether everything before the mark is done."""
        (result,) = self._api.cuEventQuery(event) if event in self._own else (_ELSEWHERE[0],)
        if result in _ELSEWHERE:  # as `_at_once`
            with self.current(ordinal):
                (result,) = self._api.cuEventQuery(event)
        if result not in (0, _NOT_READY):
            raise self._error("cuEventQuery", result, ordinal=ordinal)
        return not result

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until the mark is reached."""
        if not self._at_once(ordinal, "cuEventSynchronize", event, event):
            with self.current(ordinal):
                self._ask("cuEventSynchronize", event)

    def _at_once(self, ordinal: int, call: str, handle: int, *arguments: int) -> bool:
        """Make a call about an event or a stream that this driver made, whatever context the thread
        has: most have one, and the handles say whose they are. Whether it was made: if not, the
        caller makes it in the right context.

        A call that fails for another reason is not made again: it may have broken a capture, of
        which the next one would tell instead.
        """
        # What others made may be the legacy default stream, which is the current context's.
        if handle not in self._own:
            return False
        (result,) = getattr(self._api, call)(*arguments)
        if result and result not in _ELSEWHERE:
            raise self._error(call, result, ordinal=ordinal)
        return not result

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        """Seconds between two marks that were reached."""
        with self.current(ordinal):
            return float(self._ask("cuEventElapsedTime", start, end)) / 1e3
