"""Events: they order streams and measure time."""

from __future__ import annotations

from typing import final

from tilec_runtime.device.devices import driver_of, ordinal_of
from tilec_runtime.device.handles import stream_handle
from tilec_runtime.device.recording import own_recording
from tilec_runtime.device.seam import DeviceDriver
from tilec_runtime.errors import GraphCaptureError, SchedulingError
from tilec_runtime.protocols import DeviceLike, StreamLike
from tilec_runtime.values import Uncopied


@final
class Event(Uncopied):
    """An event: a point in the work of a stream.

    `close`, or the end of a `with` block, destroys it.
    """

    __slots__ = ("_driver", "_handle", "device")

    def __init__(
        self, device: DeviceLike | None = None, *, driver: DeviceDriver | None = None
    ) -> None:
        """Create an event; before it is recorded it counts as reached.

        Args:
            device: the event's device; None for the default device (`use_device`).
            driver: the driver of the device; the process's driver for it by default.
        """
        self._driver = driver or driver_of(device)
        self.device = ordinal_of(device)
        self._handle: int | None = self._driver.create_event(self.device)

    @property
    def handle(self) -> int:
        """The driver's handle.

        Raises:
            SchedulingError: the event is closed.
        """
        if self._handle is None:
            raise SchedulingError("the event is closed", fix="make a new one")
        return self._handle

    def record(self, stream: StreamLike) -> None:
        """Record the event behind the work enqueued on a stream so far.

        Raises:
            GraphCaptureError: an op is captured on the stream.
        """
        handle = stream_handle(stream, "Event")
        if own_recording(self._driver, self.device, handle) is not None:
            raise GraphCaptureError(
                "an event cannot be recorded while an op is captured",
                cause="what waits for it on another stream would be drawn into the capture, and the graph would not own what it uses",
                fix="record it on the stream of the replays, behind them",
            )
        self._driver.record_event(self.device, self.handle, handle)

    def hold(self, stream: StreamLike) -> None:
        """Make later work on a stream wait until the event, as recorded now, is reached."""
        self._driver.wait_event(self.device, stream_handle(stream, "Event"), self.handle)

    @property
    def reached(self) -> bool:
        """Whether all work before the event is done."""
        return self._driver.event_reached(self.device, self.handle)

    def sync(self) -> None:
        """Wait until the event is reached."""
        self._driver.synchronize_event(self.device, self.handle)

    def since(self, start: Event) -> float:
        """Return the seconds on the device from another event to this one."""
        return self._driver.elapsed(self.device, start.handle, self.handle)

    def close(self) -> None:
        """Destroy the event; streams that wait for it still do. Further calls do nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._driver.destroy_event(self.device, handle)

    def __enter__(self) -> Event:
        """Return the event itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the event."""
        self.close()
