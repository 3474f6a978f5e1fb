"""Launches of a kernel on a device as something to measure: in a CUDA graph, every launch on other memory, so that the L2 cache is cold."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from tilec.bench.measure import ClockReading
from tilec.runtime.events import Event
from tilec.runtime.memory import DeviceBuffer
from tilec.runtime.streams import Stream

if TYPE_CHECKING:
    from tilec.bench.clocks import Clocks
    from tilec.runtime.bound import BoundLaunch
    from tilec.runtime.load import Module
    from tilec.runtime.seam import DeviceDriver

# Copies of the arguments go round until they are this many times the cache; with more copies than this the cache is written over instead.
TIMES_L2 = 2
MOST_COPIES = 64
# Copies take no more than this part of the memory that is free.
_SHARE = 4

Arguments = Mapping[str, Any]


@final
class LaunchSubject:
    """Launches of one variant. Close it when it is measured: it holds graphs and memory.

    How the cache is kept cold is in `cache`: `as it is` (the device has none that is known, or the arguments are larger than it), `rotated`
    (each launch has its own copy of the arguments) or `flushed` (it is written over before each launch, which is then timed alone).

    Args:
        module: a bundle on a device.
        driver: what it is loaded through.
        kernel: which.
        axes: values of the axes that a caller chooses.
        make: gives a new set of arguments on the device, by name.
        clocks: of the device.
    """

    def __init__(
        self,
        module: Module,
        driver: DeviceDriver,
        kernel: str,
        axes: Mapping[str, Any],
        make: Callable[[], Arguments],
        *,
        clocks: Clocks | None = None,
    ) -> None:
        self._driver, self._device, self._clocks = driver, module.device, clocks
        self._ending = contextlib.ExitStack()
        self._graphs: dict[int, Any] = {}
        self._stream = self._ending.enter_context(Stream(module.device, driver=driver))
        self._start, self._end = (self._ending.enter_context(Event(module.device, driver=driver)) for _ in range(2))
        launcher = module.kernels[kernel]
        first = make()
        copies, self._flush, self.cache = self._plan(first)
        sets = [first, *(make() for _ in range(copies - 1))]
        self._launches: Sequence[BoundLaunch] = [launcher.bind(**arguments, **axes) for arguments in sets]
        self.variant = launcher.explain(**first, **axes).variant

    def seconds(self, launches: int) -> float:
        """Seconds that the device is busy with so many launches in a row."""
        if self._flush is not None:
            return sum(self._alone(place) for place in range(launches))
        if launches == 1:
            return self._between(lambda: self._launches[0].launch(self._stream))
        graph = self._graphs.get(launches) or self._captured(launches)
        return self._between(lambda: self._driver.launch_graph(self._device.ordinal, graph, self._stream.handle))

    def clocks(self) -> ClockReading | None:
        """The clocks now; None where they cannot be read."""
        return self._clocks.read() if self._clocks else None

    def close(self) -> None:
        """Give graphs, marks and memory back. May be called more than once."""
        for graph in self._graphs.values():
            self._driver.destroy_executable(self._device.ordinal, graph)
        self._graphs.clear()
        self._launches, self._flush = (), None
        self._ending.close()

    def __enter__(self) -> LaunchSubject:
        """The subject itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give everything back."""
        self.close()

    def _plan(self, arguments: Arguments) -> tuple[int, DeviceBuffer | None, str]:
        """How many copies of the arguments there are to be, or what the cache is written over with."""
        cold = TIMES_L2 * self._device.l2
        size = sum(value.nbytes for value in arguments.values() if isinstance(value, DeviceBuffer))
        if size >= cold or not size:
            return 1, None, "as it is"
        free, _ = self._driver.memory_info(self._device.ordinal)
        copies = -(-cold // size) + 1
        if copies <= MOST_COPIES and copies * size <= free // _SHARE:
            return copies, None, "rotated"
        return 1, DeviceBuffer((cold,), "u8", self._device, driver=self._driver), "flushed"

    def _captured(self, launches: int) -> Any:
        driver, ordinal, stream = self._driver, self._device.ordinal, self._stream.handle
        for bound in self._launches:  # loads what has to be loaded, which a capture must not
            bound.launch(self._stream)
        driver.synchronize(ordinal, stream)
        driver.begin_capture(ordinal, stream)
        try:
            for place in range(launches):
                self._launches[place % len(self._launches)].launch(self._stream)
        finally:
            graph = driver.end_capture(ordinal, stream)
        try:
            executable = self._graphs[launches] = driver.instantiate_graph(ordinal, graph)
        finally:
            driver.destroy_graph(ordinal, graph)
        driver.upload_graph(ordinal, executable, stream)
        driver.synchronize(ordinal, stream)
        return executable

    def _alone(self, place: int) -> float:
        """Seconds of one launch with a cold cache: the device is busy writing it over while the launch is enqueued."""
        assert self._flush is not None
        self._flush.fill(place & 0xFF, self._stream)
        return self._between(lambda: self._launches[0].launch(self._stream))

    def _between(self, enqueue: Callable[[], None]) -> float:
        self._start.record(self._stream)
        enqueue()
        self._end.record(self._stream)
        self._end.sync()
        return self._end.since(self._start)
