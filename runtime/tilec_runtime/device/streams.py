"""A small stream of tilec's own."""

from __future__ import annotations

import warnings
from typing import Any, final

from tilec_runtime.device import marks
from tilec_runtime.device.devices import driver_of, ordinal_of
from tilec_runtime.device.handles import stream_handle
from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.device.seam import DeviceDriver
from tilec_runtime.errors import SchedulingError, TilecError
from tilec_runtime.protocols import DeviceLike
from tilec_runtime.values import Uncopied


@final
class Stream(Uncopied):
    """A stream of tilec's own, for programs without a framework. It is given back by `close`, or at
    the end of a `with` block.

    Attributes:
        device, driver: where it is, and what serves that.
        line: of uses of memory on it.
        borrowed: whether another library made it.
    """

    __slots__ = ("_handle", "_owner", "borrowed", "device", "driver", "line")

    def __init__(
        self, device: DeviceLike | None = None, *, driver: DeviceDriver | None = None
    ) -> None:
        """Make a stream that does not wait for the legacy default stream.

        Args:
            device: where; the default device (`use_device`) where none is named.
            driver: what to make it through; the process's driver of the device by default.
        """
        self.driver = driver or driver_of(device)
        self.device = ordinal_of(device)
        self._handle: int | None = self.driver.create_stream(self.device)
        self.borrowed = False
        self._owner: Any = None
        self.line = marks.opened(self.driver, self.device, self._handle)

    @classmethod
    def borrow_raw(
        cls,
        handle: int,
        device: DeviceLike | None = None,
        *,
        owner: Any = None,
        driver: DeviceDriver | None = None,
    ) -> Stream:
        """A stream that another library made. `close` leaves it as it is.

        Args:
            handle: of the driver (`cuda_stream` of torch, `ptr` of CuPy); 0 is the legacy default
                stream.
            device: whose it is; the default device's where none is named.
            owner: whom to keep alive as long as this object: the library's own stream object.
            driver: what serves the device; the process's driver of it by default.

        Raises:
            ArgumentError: it is no handle.
        """
        stream = cls.__new__(cls)
        number = stream_handle(handle, "Stream.borrow_raw")
        stream.device = ordinal_of(device)
        stream.driver, stream._handle = driver or driver_of(device), number  # noqa: SLF001 - its own class
        stream.borrowed, stream._owner = True, owner  # noqa: SLF001
        stream.line = marks.line_of(stream.driver, stream.device, number)
        return stream

    def __repr__(self) -> str:
        """`<Stream 0x1000 on cuda:0>`, `<Stream closed on cpu>`."""
        where = "cpu" if self.device == ON_CPU else f"cuda:{self.device}"
        what = "closed" if self._handle is None else f"{self._handle:#x}"
        return f"<Stream {what} on {where}{', borrowed' if self.borrowed else ''}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """(0, handle), as other libraries read it."""
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
        """Wait for everything that was enqueued."""
        number = self.line.enqueued
        self.driver.synchronize(self.device, self.handle)
        if not self.driver.holds_arguments:  # where a failure was told before, its mark tells it
            self.line.complete(number)

    def close(self) -> None:
        """Give the stream back; work on it still finishes. May be called more than once; one that
        is borrowed stays as it is.

        Raises:
            FaultError: on the cpu device, a launch failed and its error was not reported yet.
        """
        handle, self._handle = self._handle, None
        if handle is not None and not self.borrowed:
            marks.closing(self.driver, self.line)
            self.driver.destroy_stream(self.device, handle)

    def __enter__(self) -> Stream:
        """The stream itself."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give the stream back. What a launch came to does not take the place of an error of the
        block: it is a RuntimeWarning then.
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
