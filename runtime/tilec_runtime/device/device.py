"""A device as programs name it: what it is, its streams, and the driver that serves it."""

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
    """A GPU or the cpu device: `Device(0)`, `Device("cuda:1")`, `Device("cpu")`. Equal devices are
    the same one.

    Attributes:
        driver: what serves it.
        info: what it is and what launches on it may ask for.
    """

    __slots__ = ("driver", "info")

    def __init__(self, device: DeviceLike = 0, *, driver: DeviceDriver | None = None) -> None:
        """Find a device.

        Args:
            device: a number, `"cuda:1"`, `"cpu"`, a `Device`, or a device object of torch, CuPy,
                cuda.core or JAX.
            driver: what serves it; the process's driver for it by default.

        Raises:
            CallError: `device` names none.
            NoDeviceError: there is no such device.
        """
        self.driver: DeviceDriver = driver or driver_of(device)
        self.info: DeviceInfo = self.driver.device(ordinal_of(device))

    @classmethod
    def borrow_raw(cls, handle: Any, *, driver: DeviceDriver | None = None) -> Device:
        """The device of a driver's handle (a `CUdevice`, or its number) that another library holds.
        Nothing is owned or given back.

        Raises:
            CallError: it is no handle of a device.
            NoDeviceError: there is no such device.
        """
        fix = "pass a CUdevice of cuda.bindings, or its number; for device objects of other libraries, Device(...)"
        return cls(handle_number(handle, "a device", fix), driver=driver)

    @staticmethod
    def count(driver: DeviceDriver | None = None) -> int:
        """Number of GPUs that this process sees; 0 without a driver."""
        try:
            return (driver or process_driver()).device_count()
        except NoDeviceError:
            return 0

    @property
    def ordinal(self) -> int:
        """Its number, after CUDA_VISIBLE_DEVICES; -1 for the cpu device."""
        return self.info.ordinal

    @property
    def index(self) -> int:
        """The `ordinal` under torch's name, so that functions for devices of torch take this one."""
        return self.info.ordinal

    @property
    def _tilec_driver_(self) -> DeviceDriver:
        """`driver`, for what takes devices of any kind."""
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
        """A stream that waits for no other."""
        return Stream(self, driver=self.driver)

    def sync(self) -> None:
        """Wait for everything on all streams, stream 0 (the legacy default stream) and those of
        other libraries included.

        Raises:
            FaultError: on the cpu device, what a launch came to.
            DriverError: on a GPU.
        """
        self.driver.synchronize_device(self.ordinal)

    def __reduce__(self) -> tuple[Any, ...]:
        """Its name, by which another process finds its own; a copy is the same device.

        Raises:
            TypeError: a driver of one's own serves it, which is of this process alone.
        """
        name = "cpu" if self.info.interprets else f"cuda:{self.ordinal}"
        if self.driver is not driver_of(name):
            raise TypeError(
                f"{self!r} is served by a driver of its own, which can be neither pickled nor copied: pass it on"
            )
        return Device, (name,)

    def __eq__(self, other: object) -> bool:
        """Whether it is the same device."""
        return (
            isinstance(other, Device)
            and other.driver is self.driver
            and other.ordinal == self.ordinal
        )

    def __hash__(self) -> int:
        """Equal for the same device."""
        return hash((id(self.driver), self.ordinal))

    def __repr__(self) -> str:
        """`<Device cuda:0 (NVIDIA H200)>`, `<Device cpu>`."""
        return (
            "<Device cpu>"
            if self.info.interprets
            else f"<Device cuda:{self.ordinal} ({self.name})>"
        )
