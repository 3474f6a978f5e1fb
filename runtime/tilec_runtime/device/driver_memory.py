"""Memory, copies, pools, streams and events through cuda.bindings."""

from __future__ import annotations

import collections
import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

from tilec_runtime.device.driver_calls import Calls, is_final
from tilec_runtime.device.seam_types import KEEP_ALL, CopyBox, CopyKind, PoolHandle, PoolStats

_NOT_READY = 600
# Results that say that a thread has no context, or that of another device: invalid context, invalid
# handle, a context that is gone.
_ELSEWHERE = frozenset((201, 400, 709))
# `cuMemcpyAsync` finds out by itself what kinds of memory its addresses are of.
_COPIES = dict.fromkeys(CopyKind, "cuMemcpyAsync") | {
    CopyKind.TO_DEVICE: "cuMemcpyHtoDAsync",
    CopyKind.TO_HOST: "cuMemcpyDtoHAsync",
}


class MemoryCalls(Calls):
    """The part of `DeviceDriver` that moves and orders, on cuda.bindings."""

    def __init__(self, api: Any) -> None:
        """Start the driver API.

        Args:
            api: the module `cuda.bindings.driver`.
        """
        super().__init__(api)
        self._own_pools: dict[int, PoolHandle] = {}
        self._known: dict[
            int, Any
        ] = {}  # events and streams that were made here, as the bindings have them: they take a number for longer
        self._pool_lock = threading.RLock()  # the collector may free from inside
        self._leaving: collections.deque[tuple[int, PoolHandle]] = collections.deque()

    # Memory

    def pointer_device(self, address: int) -> int | None:
        """Ordinal of the device that an address belongs to; None for an address that the driver
        does not know.
        """
        result, *values = self._pointer(self._ordinal_of, address)
        if is_final(result):  # else it would look as if the address had no owner
            raise self._error("cuPointerGetAttribute", result)
        return int(values[0]) if result == self._success and int(values[0]) >= 0 else None

    def allocation(self, address: int) -> tuple[int, int] | None:
        """(first address, bytes) of the allocation that an address lies in; None where the driver
        does not know.
        """
        names = self._api.CUpointer_attribute
        bounds = []
        for name in (
            names.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            names.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        ):
            result, *values = self._pointer(
                functools.partial(self._api.cuPointerGetAttribute, name), address
            )
            if result != self._success:
                return None
            bounds.append(int(values[0]))
        return (bounds[0], bounds[1]) if all(bounds) else None

    def _pointer(self, ask: Callable[[int], Any], address: int) -> Any:
        """What an attribute of an address is. Older drivers know of none without a context; they
        are those of all, so any one is good.
        """
        answer = ask(address)
        if (
            answer[0] != self._success
            and not int(self._api.cuCtxGetCurrent()[1])
            and (context := self._some_context()) is not None
        ):
            with self._pushed(context):
                answer = ask(address)
        return answer

    def _ordinal_of(self, address: int) -> Any:
        """(result, ordinal of an address's device)."""
        name = self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        answer = self._api.cuPointerGetAttribute(name, address)
        if answer[0] != self._success or int(answer[1]) or self._count == 1:
            return answer
        # cuda.bindings 13 gives 0 whatever the driver says (NVIDIA/cuda-python#2928): of several
        # devices, the driver itself is asked.
        ordinal = ctypes.c_int()
        result = self._attribute_function(ctypes.byref(ordinal), int(name), address)
        return self._api.CUresult(result), ordinal.value

    @functools.cached_property
    def _attribute_function(self) -> Callable[..., int]:
        """cuPointerGetAttribute of the driver, of (pointer to the value, attribute, address)."""
        symbol, since = b"cuPointerGetAttribute", 4000
        function: Callable[..., int] = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64
        )(int(self._ask("cuGetProcAddress", symbol, since, 0)))
        return function

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
            return int(self._ask("cuMemHostAlloc", size, self._api.CU_MEMHOSTALLOC_PORTABLE))

    def free_pinned(self, ordinal: int, address: int) -> None:
        """Give pinned memory back; nothing may use it any more."""
        self._give_back(ordinal, "cuMemFreeHost", address)

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        """(free, total) bytes of the device."""
        with self.current(ordinal):
            result, free, total = self._api.cuMemGetInfo()
        if result != self._success:
            raise self._error("cuMemGetInfo", result, ordinal=ordinal)
        return int(free), int(total)

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
        wanted = self._api.CUDA_MEMCPY3D()
        wanted.srcMemoryType = wanted.dstMemoryType = self._api.CUmemorytype.CU_MEMORYTYPE_UNIFIED
        wanted.srcDevice, wanted.dstDevice = source, target
        wanted.srcPitch, wanted.srcHeight = box.source_pitch, box.source_slice // box.source_pitch
        wanted.dstPitch, wanted.dstHeight = box.target_pitch, box.target_slice // box.target_pitch
        wanted.WidthInBytes, wanted.Height, wanted.Depth = box.width, box.rows, box.slices
        with self.current(ordinal):
            self._ask("cuMemcpy3DAsync", wanted, stream)

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
        api = self._api
        wanted = api.CUmemPoolProps()
        wanted.allocType = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.handleTypes = api.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE
        wanted.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.location.id = ordinal
        wanted.maxSize = max_size
        with self.current(ordinal):
            pool = self._ask("cuMemPoolCreate", wanted)
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
                if int(
                    self._ask(
                        "cuMemPoolGetAttribute", pool, self._pool_attribute("USED_MEM_CURRENT")
                    )
                ):
                    self._ask("cuMemPoolTrimTo", pool, 0)
                    self._leaving.append((ordinal, pool))
                else:
                    self._ask("cuMemPoolDestroy", pool)

    def set_release_threshold(self, ordinal: int, pool: PoolHandle, size: int) -> None:
        """Set how many unused bytes a pool keeps."""
        with self.current(ordinal):
            self._ask(
                "cuMemPoolSetAttribute",
                pool,
                self._pool_attribute("RELEASE_THRESHOLD"),
                self._api.cuuint64_t(size),
            )

    def pool_stats(self, ordinal: int, pool: PoolHandle) -> PoolStats:
        """What a pool holds."""
        with self.current(ordinal):

            def fact(name: str) -> int:
                return int(self._ask("cuMemPoolGetAttribute", pool, self._pool_attribute(name)))

            return PoolStats(
                used=fact("USED_MEM_CURRENT"),
                reserved=fact("RESERVED_MEM_CURRENT"),
                used_high=fact("USED_MEM_HIGH"),
                reserved_high=fact("RESERVED_MEM_HIGH"),
                release_threshold=fact("RELEASE_THRESHOLD"),
            )

    def trim_pool(self, ordinal: int, pool: PoolHandle, keep: int) -> None:
        """Give unused memory back to the device until the pool has no more than `keep` bytes, where
        it can.
        """
        self._destroy_unused()
        with self.current(ordinal):
            self._ask("cuMemPoolTrimTo", pool, keep)

    def _pool_attribute(self, name: str) -> Any:
        return getattr(self._api.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name}")

    # Streams

    def create_stream(self, ordinal: int) -> int:
        """A stream that does not wait for the legacy default stream."""
        with self.current(ordinal):
            wrapped = self._ask(
                "cuStreamCreate", self._api.CUstream_flags.CU_STREAM_NON_BLOCKING.value
            )
        stream = int(wrapped)
        self._known[stream] = wrapped
        return stream

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Give a stream back; work on it still finishes."""
        self._known.pop(stream, None)
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
        kinds = self._api.CUevent_flags
        flags = (0 if timed else kinds.CU_EVENT_DISABLE_TIMING.value) | (
            kinds.CU_EVENT_BLOCKING_SYNC.value if blocking else 0
        )
        with self.current(ordinal):
            wrapped = self._ask("cuEventCreate", flags)
        event = int(wrapped)
        self._known[event] = wrapped
        return event

    def destroy_event(self, ordinal: int, event: int) -> None:
        """Give an event back; streams that wait for it still do."""
        self._known.pop(event, None)
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
        if (known := self._known.get(event)) is not None:  # as `_at_once`, and no answer is one too
            result = self._api.cuEventQuery(known)[0]
            if result == self._success:
                return True
            if result == _NOT_READY:
                return False
            if int(result) not in _ELSEWHERE:
                raise self._error("cuEventQuery", result, ordinal=ordinal)
        with self.current(ordinal):
            result = self._api.cuEventQuery(event)[0]
        if int(result) == _NOT_READY:
            return False
        if result != self._success:
            raise self._error("cuEventQuery", result, ordinal=ordinal)
        return True

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
        known = self._known
        if (
            handle not in known
        ):  # what others made may be the legacy default stream, which is the current context's
            return False
        try:
            result = getattr(self._api, call)(
                *[known.get(argument, argument) for argument in arguments]
            )[0]
        except ValueError:  # one that the bindings do not know
            return False
        if result == self._success:
            return True
        if int(result) in _ELSEWHERE:
            return False
        raise self._error(call, result, ordinal=ordinal)

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        """Seconds between two marks that were reached."""
        with self.current(ordinal):
            return float(self._ask("cuEventElapsedTime", start, end)) / 1e3
