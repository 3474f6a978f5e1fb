"""Launches of a kernel on a device as something to measure: in a CUDA graph, every launch on other
memory, so that the L2 cache is cold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, final

from tilec.bench.coldness import plan_cache
from tilec.bench.measure import MOST_LAUNCHES, Clock, ClockReading
from tilec_runtime.device.events import Event
from tilec_runtime.device.streams import Stream
from tilec_runtime.tensors.buffer import DeviceBuffer

if TYPE_CHECKING:
    from tilec.bench.clocks import Clocks
    from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
    from tilec_runtime.model.kernel import VariantInfo

Arguments = Mapping[str, Any]
# Launches that are enqueued in a row to find what one costs the host: fewer than a stream takes
# before it makes the host wait.
HOST_LAUNCHES = 64


class Explained(Protocol):
    """What a launch takes: a variant, and an image (by its digest), if there is one for the device."""

    @property
    def variant(self) -> VariantInfo:
        """The variant."""

    @property
    def image(self) -> Any:
        """The image, which has a `digest`; None where there is none."""


class Launched(Protocol):
    """What launches: the launcher of a kernel, or all of a chain's in one."""

    def __call__(self, stream: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Launch, with all checks."""

    def explain(self, *args: Any, **kwargs: Any) -> Explained:
        """What a launch with these arguments takes."""


class Launchers(Protocol):
    """A bundle on a device, or what stands for one: `kernels` are what launches, by name."""

    @property
    def device(self) -> DeviceInfo:
        """Where it is."""

    @property
    def kernels(self) -> Mapping[str, Launched]:
        """By name."""


@final
class LaunchSubject:
    """Launches of one variant. Close it when it is measured: it holds graphs and memory.

    How the cache is kept cold is in `cache`, a value of `coldness.Cache`; `variant` and `code`, a
    digest, say what is launched.

    Args:
        module: a bundle on a device.
        driver: what it is loaded through.
        kernel: which.
        axes: values of the axes that a caller chooses.
        make: gives a new set of arguments on the device, by name, in the launcher's order.
        clocks: of the device.
        cold: whether launches find the L2 cache cold.
    """

    def __init__(
        self,
        module: Launchers,
        driver: DeviceDriver,
        kernel: str,
        axes: Mapping[str, Any],
        make: Callable[[], Arguments],
        *,
        clocks: Clocks | None = None,
        cold: bool = True,
    ) -> None:
        self._driver, self._device, self._clocks = driver, module.device, clocks
        self._ending = contextlib.ExitStack()
        self._graphs: dict[int, Any] = {}
        self._stream = self._ending.enter_context(Stream(module.device, driver=driver))
        self._start, self._end = (
            self._ending.enter_context(Event(module.device, driver=driver)) for _ in range(2)
        )
        self._launcher, self._axes = module.kernels[kernel], axes
        self._first = make()
        size = sum(
            value.nbytes for value in self._first.values() if isinstance(value, DeviceBuffer)
        )
        free, _ = driver.memory_info(module.device.ordinal)
        plan = plan_cache(size, l2=module.device.l2, free=free, launches=MOST_LAUNCHES, cold=cold)
        self.cache = plan.cache.value
        self._flush = (
            DeviceBuffer((plan.flush,), "u8", module.device, driver=driver) if plan.flush else None
        )
        sets = [self._first, *(make() for _ in range(plan.copies - 1))]
        self._sets: Sequence[tuple[Any, ...]] = [tuple(arguments.values()) for arguments in sets]
        explained = self._launcher.explain(**self._first, **axes)
        self.variant = explained.variant
        self.code = str(explained.image.digest) if explained.image else ""

    def seconds(self, launches: int) -> float:
        """Seconds that the device is busy with so many launches in a row."""
        if self._flush is None:
            return self._sample(launches)
        taken, left = 0.0, launches
        while left:
            # The device is busy writing over the cache while what is timed is enqueued.
            part = min(left, len(self._sets))
            self._prepare(part)
            self._flush.fill(left & 0xFF, self._stream)
            taken += self._sample(part)
            left -= part
        return taken

    def host_seconds(self, launches: int, clock: Clock) -> float | None:
        """Seconds of the host for one call of the launcher, which checks and enqueues: the mean of
        so many in a row, up to `HOST_LAUNCHES`.

        None on the cpu device, where the kernels themselves take the host's time.
        """
        if self._device.interprets is not None:
            return None
        launches = min(launches, HOST_LAUNCHES)
        values, axes, launcher, stream = (
            tuple(self._first.values()),
            dict(self._axes),
            self._launcher,
            self._stream,
        )
        launcher(*values, **axes, stream=stream)
        self._driver.synchronize(self._device.ordinal, stream.handle)
        begun = clock()
        for _ in range(launches):
            launcher(*values, **axes, stream=stream)
        taken = clock() - begun
        self._driver.synchronize(self._device.ordinal, stream.handle)
        return taken / launches

    def clocks(self) -> ClockReading | None:
        """The clocks now; None where they cannot be read."""
        return self._clocks.read() if self._clocks else None

    def close(self) -> None:
        """Give graphs, marks and memory back. May be called more than once."""
        for graph in self._graphs.values():
            self._driver.destroy_executable(self._device.ordinal, graph)
        self._graphs.clear()
        self._sets, self._flush, self._first = (), None, {}
        self._ending.close()

    def __enter__(self) -> LaunchSubject:
        """The subject itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give everything back."""
        self.close()

    def _sample(self, launches: int) -> float:
        if launches == 1:
            return self._between(lambda: self._launch(0))
        graph = self._prepare(launches)
        return self._between(
            lambda: self._driver.launch_graph(self._device.ordinal, graph, self._stream.handle)
        )

    def _launch(self, place: int) -> None:
        """Launch with one set of arguments."""
        self._launcher(*self._sets[place], **self._axes, stream=self._stream)

    def _prepare(self, launches: int) -> Any:
        """The graph of so many launches."""
        return None if launches == 1 else self._graphs.get(launches) or self._captured(launches)

    def _captured(self, launches: int) -> Any:
        driver, ordinal, stream = self._driver, self._device.ordinal, self._stream.handle
        for place in range(
            len(self._sets)
        ):  # loads what has to be loaded, which a capture must not
            self._launch(place)
        driver.synchronize(ordinal, stream)
        driver.begin_capture(ordinal, stream)
        try:
            for place in range(launches):
                self._launch(place % len(self._sets))
        finally:
            graph = driver.end_capture(ordinal, stream)
        try:
            executable = self._graphs[launches] = driver.instantiate_graph(ordinal, graph)
        finally:
            driver.destroy_graph(ordinal, graph)
        driver.upload_graph(ordinal, executable, stream)
        driver.synchronize(ordinal, stream)
        return executable

    def _between(self, enqueue: Callable[[], None]) -> float:
        self._start.record(self._stream)
        enqueue()
        self._end.record(self._stream)
        self._end.sync()
        return self._end.since(self._start)
