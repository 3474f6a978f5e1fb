"""Streams of tilec's own."""

from __future__ import annotations

import warnings
from typing import Any, final

from tilec_runtime.device import lines
from tilec_runtime.device.devices import driver_of, ordinal_of
from tilec_runtime.device.handles import stream_handle
from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.device.seam import DeviceDriver
from tilec_runtime.errors import SchedulingError, TilecError
from tilec_runtime.protocols import DeviceLike
from tilec_runtime.values import Uncopied


@final
class Stream(Uncopied):
    """A stream for programs without a framework.

    `close`, or the end of a `with` block, destroys it.

    Attributes:
        device, driver: its device, and the device's driver.
        line: the line of memory uses on it.
        borrowed: whether another library made it.
    """

    __slots__ = ("_handle", "_owner", "borrowed", "device", "driver", "line")

    def __init__(
        self, device: DeviceLike | None = None, *, driver: DeviceDriver | None = None
    ) -> None:
        """Create a stream that does not wait for the legacy default stream.

        Args:
            device: the stream's device; None for the default device (`use_device`).
            driver: the driver of the device; the process's driver for it by default.
        """
        self.driver = driver or driver_of(device)
        self.device = ordinal_of(device)
        self._handle: int | None = self.driver.create_stream(self.device)
        self.borrowed = False
        self._owner: Any = None
        self.line = lines.opened(self.driver, self.device, self._handle)

    @classmethod
    def borrow_raw(
        cls,
        handle: int,
        device: DeviceLike | None = None,
        *,
        owner: Any = None,
        driver: DeviceDriver | None = None,
    ) -> Stream:
        """Return an object for another library's stream; `close` does not destroy it.

        Args:
            handle: the driver's handle (`cuda_stream` of torch, `ptr` of CuPy); 0 is the legacy
                default stream.
            device: the stream's device; None for the default device.
            owner: an object to keep alive as long as this one: the library's own stream object.
            driver: the driver of the device; the process's driver for it by default.

        Raises:
            ArgumentError: `handle` is not a handle.
        """
        stream = cls.__new__(cls)
        number = stream_handle(handle, "Stream.borrow_raw")
        stream.device = ordinal_of(device)
        stream.driver, stream._handle = driver or driver_of(device), number  # noqa: SLF001 - an object of this class
        stream.borrowed, stream._owner = True, owner  # noqa: SLF001
        stream.line = lines.line_of(stream.driver, stream.device, number)
        return stream

    def __repr__(self) -> str:
        """Return `<Stream 0x1000 on cuda:0>`, `<Stream closed on cpu>`."""
        where = "cpu" if self.device == ON_CPU else f"cuda:{self.device}"
        message = "closed" if self._handle is None else f"{self._handle:#x}"
        return f"<Stream {message} on {where}{', borrowed' if self.borrowed else ''}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (0, handle): the protocol by which other libraries read streams."""
        return 0, self.handle

    @property
    def handle(self) -> int:
        """The driver's handle.

        Raises:
            SchedulingError: the stream is closed.
        """
        if self._handle is None:
            raise SchedulingError("the stream is closed", fix="make a new one")
        return self._handle

    def sync(self) -> None:
        """Wait for all work on the stream."""
        number = self.line.enqueued
        self.driver.synchronize(self.device, self.handle)
        # On the cpu device `synchronize` does not raise a failure that was reported before, so uses
        # count as complete only by their lines.
        if not self.driver.holds_arguments:
            self.line.complete(number)

    def close(self) -> None:
        """Destroy the stream, unless it is borrowed; work on it still finishes.

        Further calls do nothing.

        Raises:
            FaultError: a launch on the cpu device failed, and its error was not reported yet.
        """
        handle, self._handle = self._handle, None
        if handle is not None and not self.borrowed:
            lines.closing(self.driver, self.line)
            self.driver.destroy_stream(self.device, handle)

    def __enter__(self) -> Stream:
        """Return the stream itself."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the stream.

        If the block raised an error, an error of a launch becomes a RuntimeWarning and does not
        replace it.
        """
        try:
            self.close()
        except TilecError as failure:
            if error is None:
                raise
            warnings.warn(
                f"work on a stream failed, and nobody waited for it: {failure}",
                RuntimeWarning,
                stacklevel=2,
            )
