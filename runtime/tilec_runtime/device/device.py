"""A device as programs name it: its facts, streams and driver."""

from __future__ import annotations

from typing import Any, final

from tilec_runtime.device.devices import driver_of, ordinal_of, process_driver
from tilec_runtime.device.scalars import handle_number
from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import NoDeviceError
from tilec_runtime.protocols import DeviceLike


@final
class Device:
    """A GPU or the cpu device: `Device(0)`, `Device("cuda:1")`, `Device("cpu")`.

    Two objects of the same device are equal.

    Attributes:
        driver: the driver of the device.
        info: facts and launch limits.
    """

    __slots__ = ("driver", "info")

    def __init__(self, device: DeviceLike = 0, *, driver: DeviceDriver | None = None) -> None:
        """Find a device.

        Args:
            device: a number, `"cuda:1"`, `"cpu"`, a `Device`, or a device object of torch, CuPy,
                cuda.core or JAX; None for the default device.
            driver: the driver of the device; the process's driver for it by default.

        Raises:
            CallError: `device` does not name a device.
            NoDeviceError: there is no such device.
        """
        self.driver: DeviceDriver = driver or driver_of(device)
        self.info: DeviceInfo = self.driver.device(ordinal_of(device))

    @classmethod
    def borrow_raw(cls, handle: Any, *, driver: DeviceDriver | None = None) -> Device:
        """Return the device of another library's handle: a `CUdevice`, or its number.

        The object does not own the handle.

        Raises:
            CallError: `handle` is not a handle of a device.
            NoDeviceError: there is no such device.
        """
        fix = "pass a CUdevice of cuda.bindings, or its number; for device objects of other libraries, Device(...)"
        return cls(handle_number(handle, "a device", fix), driver=driver)

    @staticmethod
    def count(driver: DeviceDriver | None = None) -> int:
        """Return the number of GPUs that this process sees; 0 without a driver."""
        try:
            return (driver or process_driver()).device_count()
        except NoDeviceError:
            return 0

    @property
    def ordinal(self) -> int:
        """The device's number, after CUDA_VISIBLE_DEVICES; -1 for the cpu device."""
        return self.info.ordinal

    @property
    def index(self) -> int:
        """The `ordinal` under torch's name, for functions that take torch's devices."""
        return self.info.ordinal

    @property
    def _tilec_driver_(self) -> DeviceDriver:
        """The driver, for functions that take device objects of any library."""
        return self.driver

    @property
    def type(self) -> str:
        """`"cuda"` or `"cpu"`."""
        return "cpu" if self.info.interprets else "cuda"

    @property
    def name(self) -> str:
        """Product name."""
        return self.info.name

    def new_stream(self) -> Stream:
        """Create a stream that waits for no other."""
        return Stream(self, driver=self.driver)

    def sync(self) -> None:
        """Wait for all work on all streams.

        These include stream 0 (the legacy default stream) and streams of other libraries.

        Raises:
            FaultError: a launch on the cpu device failed.
            DriverError: work on a GPU failed.
        """
        self.driver.synchronize_device(self.ordinal)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the device as its name; a copy is the same device.

        Raises:
            TypeError: it has a driver other than the process's, which exists in this process only.
        """
        name = "cpu" if self.info.interprets else f"cuda:{self.ordinal}"
        if self.driver is not driver_of(name):
            raise TypeError(
                f"{self!r} is served by a driver of its own, which can be neither pickled nor copied: pass it on"
            )
        return Device, (name,)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same device of the same driver."""
        return (
            isinstance(other, Device)
            and other.driver is self.driver
            and other.ordinal == self.ordinal
        )

    def __hash__(self) -> int:
        """Return a hash that is equal for the same device."""
        return hash((id(self.driver), self.ordinal))

    def __repr__(self) -> str:
        """Return `<Device cuda:0 (NVIDIA H200)>`, `<Device cpu>`."""
        return (
            "<Device cpu>"
            if self.info.interprets
            else f"<Device cuda:{self.ordinal} ({self.name})>"
        )
