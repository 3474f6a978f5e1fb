"""A cpu device that is lost with its first failed launch, as a GPU is: what runs on real queues can
be tried against a lost context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.cpu.launch import CpuOptions, Launching, QueuedCall
from tilec_runtime.cpu.queue import Queue
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.device.lost import Losses
from tilec_runtime.device.seam import LaunchCall, LaunchParts, LaunchShape, PoolHandle

_Work = Callable[[Callable[[], bool]], None]


class FragileCpuDriver(CpuDriver):
    """`CpuDriver` whose every call fails after a launch failed."""

    def __init__(
        self, options: CpuOptions | None = None, *, pace: Callable[[], None] | None = None
    ) -> None:
        """Make a device, with the options of a `CpuDriver`."""
        self._losses = Losses()
        super().__init__(options, pace=pace)

    def bind_launch(
        self, ordinal: int, function: Program, shape: LaunchShape, stream: int, parts: LaunchParts
    ) -> LaunchCall:
        """A call that takes the arguments and enqueues the run."""
        call = super().bind_launch(ordinal, function, shape, stream, parts)
        assert isinstance(call, QueuedCall)
        self._losses.suspect(ON_CPU, parts.kernel, shape, stream)
        prepare = call.launching.prepare

        def fragile(parameters: int, held: tuple[tuple[Any, ...], tuple[Any, ...]]) -> _Work:
            return self._fragile(prepare(parameters, held), parts.kernel)

        call.launching = _Fragile(call.launching, fragile)
        return call

    def allocate(
        self, ordinal: int, size: int, stream: int | None, pool: PoolHandle | None = None
    ) -> int:
        """Host memory, unless the device is lost."""
        self._losses.check(ON_CPU)
        return super().allocate(ordinal, size, stream, pool)

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Give memory back, unless the device is lost."""
        self._losses.check(ON_CPU)
        super().free(ordinal, address, stream)

    def load_module(self, ordinal: int, data: bytes) -> Any:
        """Read Tile IR, unless the device is lost."""
        self._losses.check(ON_CPU)
        return super().load_module(ordinal, data)

    def create_event(self, ordinal: int, *, timed: bool = True, blocking: bool = False) -> int:
        """A mark that can be set in streams, unless the device is lost."""
        self._losses.check(ON_CPU)
        return super().create_event(ordinal, timed=timed, blocking=blocking)

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Whether everything before the mark is done, unless the device is lost."""
        self._losses.check(ON_CPU)
        return super().event_reached(ordinal, event)

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until the mark is reached, unless the device is lost by then."""
        super().synchronize_event(ordinal, event)
        self._losses.check(ON_CPU)

    def synchronize_device(self, ordinal: int) -> None:
        """Wait for all streams, unless the device is lost."""
        self._losses.check(ON_CPU)
        super().synchronize_device(ordinal)

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Give a stream back; of a lost device there is nothing to tell any more."""
        if ON_CPU in self._losses and stream in self._queues:
            self._queues[stream].forget()
        super().destroy_stream(ordinal, stream)

    def forget(self) -> None:
        """Wait for the end of all work, and drop its errors."""
        for queue in list(self._queues.values()):
            queue.join(10)
            queue.forget()

    def _queue(self, stream: int, kernel: str = "") -> Queue:
        self._losses.check(ON_CPU)
        return super()._queue(stream, kernel)

    def _fragile(self, work: _Work, kernel: str) -> _Work:
        def run(given_up: Callable[[], bool]) -> None:
            self._losses.check(ON_CPU)
            try:
                work(given_up)
            except Exception as error:
                raise self._losses.failed(
                    ON_CPU,
                    "the launch",
                    "CUDA_ERROR_LAUNCH_FAILED",
                    719,
                    kernel=kernel,
                    blocking=True,
                ) from error

        return run


class _Fragile(Launching):
    """A launch whose failure loses the device; everything else is the launch's own."""

    def __init__(self, launching: Launching, fragile: Callable[..., _Work]) -> None:
        self.__dict__.update(launching.__dict__)
        self._prepare = fragile

    def prepare(self, parameters: int, held: tuple[tuple[Any, ...], tuple[Any, ...]]) -> _Work:
        """Take a launch's arguments, and give what runs it later."""
        return self._prepare(parameters, held)
