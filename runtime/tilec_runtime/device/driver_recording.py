"""The CUDA driver under `TILEC_DEBUG=launches`: it notes every launch until somebody has waited for
it, to name those behind a failure.
"""

from __future__ import annotations

from typing import Any

from tilec_runtime.device.driver import Driver
from tilec_runtime.device.lost import LaunchRecord, Running
from tilec_runtime.device.seam import (
    ExecutableHandle,
    FunctionHandle,
    LaunchCall,
    LaunchParts,
    LaunchShape,
)
from tilec_runtime.running import running
from tilec_runtime.sites import site


class RecordingDriver(Driver):
    """`Driver` that knows what runs. Each launch costs some microseconds more."""

    def bind_launch(
        self,
        ordinal: int,
        function: FunctionHandle,
        shape: LaunchShape,
        stream: int,
        parts: LaunchParts,
    ) -> LaunchCall:
        """A call that notes and enqueues this launch."""
        notes = self._running(ordinal)
        call = super().bind_launch(ordinal, function, shape, stream, parts)

        def noted(parameters: int, extra: Any) -> Any:
            notes.launched(
                LaunchRecord(kernel=parts.kernel, shape=shape, stream=stream, where=_here())
            )
            return call(parameters, extra)

        return noted

    def launch_target(self, _ordinal: int) -> None:
        """None: every launch is noted."""

    def launch_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Do what the graph says, in stream order."""
        self._running(ordinal).launched(
            LaunchRecord(kernel="a CUDA graph", shape=None, stream=stream, where=_here())
        )
        super().launch_graph(ordinal, executable, stream)

    def synchronize(self, ordinal: int, stream: int) -> None:
        """Wait for everything on a stream."""
        now = self._running(ordinal).now
        super().synchronize(ordinal, stream)
        self._running(ordinal).waited(stream, now)

    def synchronize_device(self, ordinal: int) -> None:
        """Wait for everything on all streams of a device."""
        now = self._running(ordinal).now
        super().synchronize_device(ordinal)
        self._running(ordinal).waited(None, now)

    def copy_in(self, ordinal: int, address: int, source: int, size: int, stream: int) -> None:
        """Copy host memory (address `source`) to the device and wait for it."""
        now = self._running(ordinal).now
        super().copy_in(ordinal, address, source, size, stream)
        self._running(ordinal).waited(stream, now)

    def copy_out(self, ordinal: int, target: int, address: int, size: int, stream: int) -> None:
        """Copy device memory to host memory (address `target`) and wait for it."""
        now = self._running(ordinal).now
        super().copy_out(ordinal, target, address, size, stream)
        self._running(ordinal).waited(stream, now)

    def record_event(self, ordinal: int, event: int, stream: int, since: int | None = None) -> None:
        """Set the mark behind what a stream has to do; it was elsewhere before."""
        super().record_event(ordinal, event, stream, since)
        self._running(ordinal).marked(int(event), stream)

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Whether everything before the mark is done."""
        reached = super().event_reached(ordinal, event)
        if reached:
            self._running(ordinal).reached(int(event))
        return reached

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until the mark is reached."""
        super().synchronize_event(ordinal, event)
        self._running(ordinal).reached(int(event))

    def _running(self, ordinal: int) -> Running:
        found = self._losses.suspects(ordinal, Running)
        assert isinstance(found, Running)
        return found


def _here() -> str:
    op = running()
    return f"op: {op}" if op else f"launched at {site()}"
