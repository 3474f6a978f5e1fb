"""Memory, copies, pools, streams and events of the CUDA driver."""

from __future__ import annotations

import collections
import ctypes
import threading
from typing import Any

from tilec_runtime.device.driver_calls import Calls
from tilec_runtime.device.libcuda import Copy3D, PoolProperties
from tilec_runtime.device.seam import KEEP_ALL, CopyBox, CopyKind, PoolHandle, PoolStats

_NOT_READY = 600
# Attributes of addresses; kinds of memory and flags.
_ORDINAL, _START, _SIZE = 9, 11, 12
_UNIFIED, _PINNED, _ON_DEVICE, _PORTABLE = 4, 1, 1, 1
_NON_BLOCKING, _BLOCKING_SYNC, _NO_TIMING = 1, 1, 2
# Attributes of pools.
_THRESHOLD, _RESERVED, _RESERVED_HIGH, _USED, _USED_HIGH = range(4, 9)
# Results of a call in a thread with no context, or with another device's: invalid context, invalid
# handle, destroyed context.
_ELSEWHERE = (201, 400, 709)
# `cuMemcpyAsync` determines the kinds of memory from the addresses.
_COPIES = dict.fromkeys(CopyKind, "cuMemcpyAsync") | {
    CopyKind.TO_DEVICE: "cuMemcpyHtoDAsync",
    CopyKind.TO_HOST: "cuMemcpyDtoHAsync",
}


class MemoryCalls(Calls):
    """The part of `DeviceDriver` for memory, copies, pools, streams and events."""

    def __init__(self, api: Any) -> None:
        """Start the driver API.

        Args:
            api: a `Libcuda`, or a test double.
        """
        super().__init__(api)
        self._own_pools: dict[int, PoolHandle] = {}
        self._own: set[int] = set()  # events and streams that this driver created
        self._pool_lock = threading.RLock()  # the garbage collector may free under the lock
        self._leaving: collections.deque[tuple[int, PoolHandle]] = collections.deque()

    # Memory

    def pointer_device(self, address: int) -> int | None:
        """Return the ordinal of an address's device, or None if the address is unknown."""
        result, *values = self._pointer(_ORDINAL, address)
        if self._is_final(result):  # a lost context, not an address that is unknown
            raise self._error("cuPointerGetAttribute", result)
        ordinal = -1 if result else ctypes.c_int(values[0]).value
        return ordinal if ordinal >= 0 else None

    def allocation(self, address: int) -> tuple[int, int] | None:
        """Return (first address, bytes) of an address's allocation, or None."""
        answers = [self._pointer(attribute, address) for attribute in (_START, _SIZE)]
        if any(result or not value for result, value in answers):
            return None
        return answers[0][1], answers[1][1]

    def _pointer(self, attribute: int, address: int) -> Any:
        """Return (result, attribute of an address).

        Older drivers know no address in a thread without a context. Any context will do, because
        all share one address space.
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
        """Allocate device memory; with a stream, in stream order out of a pool.

        The pool is by default tilec's own for the device.
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
        """Free device memory; with a stream, in stream order."""
        with self.current(ordinal):
            if stream is None:
                self._ask("cuMemFree", address)
            else:
                self._ask("cuMemFreeAsync", address, stream)

    def allocate_pinned(self, ordinal: int, size: int) -> int:
        """Allocate pinned host memory, which the device copies without the host."""
        with self.current(ordinal):
            return int(self._ask("cuMemHostAlloc", size, _PORTABLE))

    def free_pinned(self, ordinal: int, address: int) -> None:
        """Free pinned memory; nothing may use it any more."""
        self._give_back(ordinal, "cuMemFreeHost", address)

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        """Return (free, total) bytes of the device."""
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
        """Copy in stream order.

        Host memory must not change until the copy is done. Copies of host memory that is not pinned
        may block the host.
        """
        with self.current(ordinal):
            self._ask(_COPIES[kind], target, source, size, stream)

    def copy_box(
        self, ordinal: int, target: int, source: int, box: CopyBox, stream: int, kind: CopyKind
    ) -> None:
        """Copy separated rows of bytes in stream order.

        Host memory must not change until the copy is done.
        """
        if box.rows == box.slices == 1:
            self.copy_async(ordinal, target, source, box.width, stream, kind)
            return
        # The two-dimensional calls may refuse pitches that the driver did not choose; this call
        # takes any.
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
        """Return the default pool of allocations, which keeps all unused memory.

        The driver's own default pool is shared by the process. Other libraries set its attributes,
        and by default it keeps no unused memory, so that each allocation after a wait maps its
        memory anew.
        """
        pool = self._own_pools.get(ordinal)
        if pool is None:
            with self._pool_lock:
                pool = self._own_pools.get(ordinal)
                if pool is None:
                    pool = self._own_pools[ordinal] = self.create_pool(ordinal, KEEP_ALL)
        return pool

    def create_pool(self, ordinal: int, release_threshold: int, max_size: int = 0) -> PoolHandle:
        """Create a pool; `max_size` bounds its memory, and 0 does not."""
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
        """Destroy a pool once all its memory is freed.

        Until then the pool keeps no unused memory. The driver's documentation allows to destroy a
        pool whose memory is in use. But a program that freed such memory afterwards was seen to
        crash when the next pool was destroyed.
        """
        if ordinal in self._losses:
            return
        self.set_release_threshold(ordinal, pool, 0)
        self._leaving.append((ordinal, pool))  # from here on any thread may destroy it
        self._destroy_unused()

    def _destroy_unused(self) -> None:
        """Destroy the pools that wait for it and have no allocated memory left."""
        for _ in range(len(self._leaving)):
            try:
                ordinal, pool = self._leaving.popleft()
            except IndexError:  # another thread took it, or a finalizer on this one
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
        """Return the memory that a pool holds."""
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
        """Return unused memory to the device down to `keep` bytes, if possible."""
        self._destroy_unused()
        with self.current(ordinal):
            self._ask("cuMemPoolTrimTo", pool, keep)

    # Streams

    def create_stream(self, ordinal: int) -> int:
        """Create a stream that does not wait for the legacy default stream."""
        with self.current(ordinal):
            stream: int = self._ask("cuStreamCreate", _NON_BLOCKING)
        self._own.add(stream)
        return stream

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Destroy a stream; work on it still finishes."""
        self._own.discard(stream)
        self._give_back(ordinal, "cuStreamDestroy", stream)

    def synchronize(self, ordinal: int, stream: int) -> None:
        """Wait for all work on a stream."""
        if not self._at_once(ordinal, "cuStreamSynchronize", stream, stream):
            with self.current(ordinal):
                self._ask("cuStreamSynchronize", stream)

    def synchronize_device(self, ordinal: int) -> None:
        """Wait for all work on all streams of a device."""
        with self.current(ordinal):
            self._ask("cuCtxSynchronize")

    # Events

    def create_event(self, ordinal: int, *, timed: bool = True, blocking: bool = False) -> int:
        """Create an event; one that is not `timed` costs less.

        Threads that wait for a `blocking` event sleep; for others they spin.
        """
        flags = (0 if timed else _NO_TIMING) | (_BLOCKING_SYNC if blocking else 0)
        with self.current(ordinal):
            event: int = self._ask("cuEventCreate", flags)
        self._own.add(event)
        return event

    def destroy_event(self, ordinal: int, event: int) -> None:
        """Destroy an event; streams that wait for it still do."""
        self._own.discard(event)
        self._give_back(ordinal, "cuEventDestroy", event)

    def position(self, ordinal: int, stream: int) -> int:  # noqa: ARG002 - only drivers that attribute failures count
        """Return 0: failures end the context, and are not attributed to positions."""
        return 0

    def record_event(self, ordinal: int, event: int, stream: int, since: int | None = None) -> None:  # noqa: ARG002 - see `position`
        """Record an event behind all work enqueued on a stream so far."""
        if not self._at_once(ordinal, "cuEventRecord", stream, event, stream):
            with self.current(ordinal):
                self._ask("cuEventRecord", event, stream)

    def event_failure(self, ordinal: int, event: int) -> BaseException | None:  # noqa: ARG002 - see `position`
        """Return None: `event_reached` and waits raise a failure."""
        return None

    def wait_event(self, ordinal: int, stream: int, event: int, *, anyway: bool = False) -> None:  # noqa: ARG002 - see `position`
        """Make later work on a stream wait for an event.

        An event never recorded counts as reached.
        """
        if not self._at_once(ordinal, "cuStreamWaitEvent", stream, stream, event, 0):
            with self.current(ordinal):
                self._ask("cuStreamWaitEvent", stream, event, 0)

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Whether all work before the event is done."""
        (result,) = self._api.cuEventQuery(event) if event in self._own else (_ELSEWHERE[0],)
        if result in _ELSEWHERE:  # another context is current, see `_at_once`
            with self.current(ordinal):
                (result,) = self._api.cuEventQuery(event)
        if result not in (0, _NOT_READY):
            raise self._error("cuEventQuery", result, ordinal=ordinal)
        return not result

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until an event is reached."""
        if not self._at_once(ordinal, "cuEventSynchronize", event, event):
            with self.current(ordinal):
                self._ask("cuEventSynchronize", event)

    def _at_once(self, ordinal: int, call: str, handle: int, *arguments: int) -> bool:
        """Make a call about an own handle in any context; return whether it worked.

        Such a call works in most contexts, because the handle identifies its own. If it does not,
        the caller repeats it in the right context. A call that fails for another reason raises and
        is not repeated: it may have broken a capture, and a second call would report that instead.
        """
        # Another handle may be the legacy default stream, which belongs to the current context.
        if handle not in self._own:
            return False
        (result,) = getattr(self._api, call)(*arguments)
        if result and result not in _ELSEWHERE:
            raise self._error(call, result, ordinal=ordinal)
        return not result

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        """Return the seconds between two reached events."""
        with self.current(ordinal):
            return float(self._ask("cuEventElapsedTime", start, end)) / 1e3
