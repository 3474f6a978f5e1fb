"""Events: marks in streams, to order streams among each other and to measure time."""

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
    """A mark behind the work of a stream. It is given back by `close`, or at the end of a `with`
    block.
    """

    __slots__ = ("_driver", "_handle", "device")

    def __init__(
        self, device: DeviceLike | None = None, *, driver: DeviceDriver | None = None
    ) -> None:
        """Make an event; before it is recorded it counts as reached.

        Args:
            device: where; the default device (`use_device`) where none is named.
            driver: what to make it through; the process's driver of the device by default.
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
        """Set the mark behind what the stream was given so far.

        Raises:
            GraphCaptureError: an op is captured there.
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
        """Let what this stream is given from now on wait until the mark is reached, where it is
        now.
        """
        self._driver.wait_event(self.device, stream_handle(stream, "Event"), self.handle)

    @property
    def reached(self) -> bool:
        """Whether everything before the mark is done."""
        return self._driver.event_reached(self.device, self.handle)

    def sync(self) -> None:
        """Wait until the mark is reached."""
        self._driver.synchronize_event(self.device, self.handle)

    def since(self, start: Event) -> float:
        """Seconds of the device between another mark and this one, which were both reached."""
        return self._driver.elapsed(self.device, start.handle, self.handle)

    def close(self) -> None:
        """Give the event back; streams that wait for it still do. May be called more than once."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._driver.destroy_event(self.device, handle)

    def __enter__(self) -> Event:
        """The event itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give the event back."""
        self.close()
