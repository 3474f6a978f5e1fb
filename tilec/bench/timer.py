"""Times launches on a device: samples are CUDA graphs, and each launch finds a cold L2 cache."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tilec.bench.clocks import Clocks
from tilec.bench.libraries import GpuLibrary
from tilec.bench.measure import MOST_LAUNCHES, Clock, ClockReading
from tilec.case.device import KernelCall
from tilec_runtime.device.events import Event
from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
from tilec_runtime.device.streams import Stream
from tilec_runtime.model.digest import sha256
from tilec_runtime.tensors.buffer import DeviceBuffer

Launch = Callable[[], object]

# Launches in a row whose host cost is timed: fewer than fill a stream and block the host.
HOST_LAUNCHES = 64
# Copies of the arguments rotate until they fill the cache this many times. Where that takes more
# than MOST_COPIES, there is a copy for each launch of a sample, and the cache is overwritten first.
TIMES_L2 = 2
MOST_COPIES = 64
# Copies take at most this part of the free memory.
_SHARE = 4


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CachePlan:
    """Method by which the L2 cache is kept cold.

    Attributes:
        cache: "as it is" (the arguments are larger than the cache, or its size is unknown),
            "rotated" (launches have copies of the arguments in turn), "flushed" (and the cache is
            overwritten before each sample) or "hot" (it holds what the last launch left).
        copies: of the arguments.
        flush: bytes to overwrite before each sample.
    """

    cache: str
    copies: int = 1
    flush: int = 0


def plan_cache(size: int, device: DeviceInfo, driver: DeviceDriver, *, cold: bool) -> CachePlan:
    """Return how to keep the cache of a device cold for arguments of `size` bytes."""
    if not cold and device.l2:
        return CachePlan(cache="hot")
    target = TIMES_L2 * device.l2
    if size >= target or not size:
        return CachePlan(cache="as it is")
    share = driver.memory_info(device.ordinal)[0] // _SHARE
    copies = -(-target // size) + 1
    if copies <= MOST_COPIES and copies * size <= share:
        return CachePlan(cache="rotated", copies=copies)
    copies = max(1, min(MOST_LAUNCHES, copies, (share - target) // size))
    return CachePlan(cache="flushed", copies=copies, flush=target)


class Timer:
    """A `Subject`: functions that each enqueue one launch on a stream, taken in turn.

    Close it after measuring: it holds graphs and memory.

    Args:
        device: the device.
        driver: of the device.
        launches: one function for each copy of the arguments.
        stream: that they launch on; closed with the timer.
        flush: bytes to overwrite before each sample.
        clocks: of the device.
        graphs: capture samples of several launches in CUDA graphs.
    """

    note = ""  # reason to doubt the times

    def __init__(
        self,
        device: DeviceInfo,
        driver: DeviceDriver,
        launches: Sequence[Launch],
        *,
        stream: Stream,
        flush: int = 0,
        clocks: Clocks | None = None,
        graphs: bool = True,
    ) -> None:
        self._device, self._driver, self._clocks = device, driver, clocks
        self._launches, self._stream, self._graphs = launches, stream, graphs
        self._ending = contextlib.ExitStack()
        self._ending.enter_context(stream)
        self._start, self._end = (
            self._ending.enter_context(Event(device, driver=driver)) for _ in range(2)
        )
        self._flush = DeviceBuffer((flush,), "u8", device, driver=driver) if flush else None
        self._replays: dict[int, Launch] = {}

    def seconds(self, launches: int) -> float:
        """Return the device time of consecutive launches in seconds."""
        if self._flush is None:
            return self._time(self._enqueuer(launches))
        taken, left = 0.0, launches
        while left:
            part = min(left, len(self._launches))
            enqueue = self._enqueuer(part)
            # Keeps the device busy while the host enqueues the timed launches.
            self._flush.fill(left & 0xFF, self._stream)
            taken += self._time(enqueue)
            left -= part
        return taken

    def clocks(self) -> ClockReading | None:
        """Return the clocks now; None where they cannot be read."""
        return self._clocks.read() if self._clocks else None

    def close(self) -> None:
        """Free graphs, events and memory. May be called more than once."""
        self._replays.clear()
        self._launches, self._flush = (), None
        self._ending.close()

    def _synchronize(self) -> None:
        self._driver.synchronize(self._device.ordinal, self._stream.handle)

    def _time(self, enqueue: Launch) -> float:
        self._start.record(self._stream)
        enqueue()
        self._end.record(self._stream)
        self._end.sync()
        return self._end.since(self._start)

    def _enqueuer(self, launches: int) -> Launch:
        """Return a function that enqueues the launches: by a graph, or by a loop."""

        def enqueue() -> None:
            for index in range(launches):
                self._launches[index % len(self._launches)]()

        if launches == 1 or not self._graphs:
            return enqueue
        if launches not in self._replays:
            for launch in self._launches:  # a capture must not load code
                launch()
            self._synchronize()
            self._replays[launches] = self._captured(enqueue)
        return self._replays[launches]

    def _captured(self, enqueue: Launch) -> Launch:
        driver, ordinal, stream = self._driver, self._device.ordinal, self._stream.handle
        driver.begin_capture(ordinal, stream)
        try:
            enqueue()
        finally:
            graph = driver.end_capture(ordinal, stream)
        try:
            executable = driver.instantiate_graph(ordinal, graph)
        finally:
            driver.destroy_graph(ordinal, graph)
        self._ending.callback(driver.destroy_executable, ordinal, executable)
        driver.upload_graph(ordinal, executable, stream)
        self._synchronize()
        return lambda: driver.launch_graph(ordinal, executable, stream)


class KernelTimer(Timer):
    """Times the kernels of a case.

    Args:
        device: the device.
        driver: of the device.
        make: returns the case's launches with a new copy of the arguments.
        clocks: of the device.
        cold: whether launches find the L2 cache cold.

    Attributes:
        cache: how it is kept cold; see `CachePlan`.
        variant: id of the variant; for a chain the ids of its steps.
        code: digest of the image or images; empty without one.
    """

    def __init__(
        self,
        device: DeviceInfo,
        driver: DeviceDriver,
        make: Callable[[], Sequence[KernelCall]],
        *,
        clocks: Clocks | None = None,
        cold: bool = True,
    ) -> None:
        first = make()
        buffers = {
            id(value): value.nbytes
            for call in first
            for value in call.arguments.values()
            if isinstance(value, DeviceBuffer)
        }
        plan = plan_cache(sum(buffers.values()), device, driver, cold=cold)
        self.cache = plan.cache
        explained = [call.explain() for call in first]
        self.variant = " -> ".join(each.variant.id for each in explained)
        digests = [each.image.digest if each.image else "" for each in explained]
        self.code = digests[0] if len(digests) == 1 else sha256(" ".join(digests).encode())
        stream = Stream(device, driver=driver)
        sets = [first, *(make() for _ in range(plan.copies - 1))]
        launches = [_together(calls, stream) for calls in sets]
        super().__init__(device, driver, launches, stream=stream, flush=plan.flush, clocks=clocks)

    def host_seconds(self, launches: int, clock: Clock) -> float | None:
        """Return the host's seconds for one launch with its checks, the mean of `launches`.

        None on the cpu device, where kernels run on the host.
        """
        if self._device.interprets is not None:
            return None
        launch, launches = self._launches[0], min(launches, HOST_LAUNCHES)
        launch()
        self._synchronize()
        begun = clock()
        for _ in range(launches):
            launch()
        taken = clock() - begun
        self._synchronize()
        return taken / launches


class RivalTimer(Timer):
    """Times calls of another library on a GPU, on a stream of tilec's.

    Calls that cannot be captured in a CUDA graph are launched one at a time, with a `note`.
    """

    def __init__(
        self,
        device: DeviceInfo,
        driver: DeviceDriver,
        library: GpuLibrary,
        calls: Sequence[Launch],
        *,
        flush: int,
        clocks: Clocks | None,
    ) -> None:
        stream = Stream(device, driver=driver)
        super().__init__(device, driver, calls, stream=stream, flush=flush, clocks=clocks)
        self._library, self.note = library, library.note

    def seconds(self, launches: int) -> float:
        """Return the device time of consecutive launches in seconds."""
        with self._library.on(self._stream.handle):
            return super().seconds(launches)

    def _captured(self, enqueue: Launch) -> Launch:
        try:
            return self._library.capture(enqueue, self._stream.handle)
        except RuntimeError as error:
            line = str(error).strip().partition("\n")[0]
            self.note = (
                f"it cannot be captured in a CUDA graph, so its time includes host time: {line}"
            )
            self._graphs = False
            return enqueue


class HostTimer:
    """Times functions that are done when they return, by the host's clock."""

    note = ""

    def __init__(self, calls: Sequence[Launch], clock: Clock) -> None:
        self._calls, self._clock = calls, clock

    def seconds(self, launches: int) -> float:
        """Return the seconds that the calls take."""
        begun = self._clock()
        for index in range(launches):
            self._calls[index % len(self._calls)]()
        return self._clock() - begun

    def clocks(self) -> None:
        """Return None: a host's clocks are not read."""

    def close(self) -> None:
        """Do nothing: it holds nothing."""


def _together(calls: Sequence[KernelCall], stream: Any) -> Launch:
    prepared = [call.prepared(stream) for call in calls]
    if len(prepared) == 1:
        return prepared[0]

    def launch() -> None:
        for each in prepared:
            each()

    return launch
