"""Devices by whatever names them: a number, `cuda:1`, or a device object of another library."""

from __future__ import annotations

import re
from typing import Any

from tilec.errors import UsageError
from tilec.runtime.protocols import DeviceLike
from tilec.runtime.seam import Device, DeviceDriver

_NAME = re.compile(r"cuda(?::([0-9]{1,4}))?")


def find_device(device: DeviceLike, driver: DeviceDriver) -> Device:
    """Facts about a device.

    Raises:
        UsageError: `device` names none.
        NoDeviceError: there is no such device.
    """
    return driver.device(ordinal_of(device))


def ordinal_of(device: DeviceLike) -> int:
    """The number of a device.

    Args:
        device: an int, `"cuda"` or `"cuda:1"`, or a device object of torch (`index`), CuPy (`id`), cuda.core (`device_id`) or JAX
            (`local_hardware_id`: its `id` counts the devices of all processes).

    Raises:
        UsageError: it names no CUDA device.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, str):
        match = _NAME.fullmatch(device)
        if match:
            return int(match[1] or 0)
    elif getattr(device, "type", "cuda") == "cuda" and getattr(device, "platform", "gpu") in ("gpu", "cuda"):
        for attribute in ("index", "local_hardware_id", "id", "device_id"):
            found: Any = getattr(device, attribute, None)
            if type(found) is int:
                return found
        if hasattr(device, "index") and device.index is None:  # torch.device("cuda"): torch's current one is not known here
            return 0
    raise UsageError(f"{device!r} is no CUDA device", fix='pass a number, "cuda:1", or a device object of torch, CuPy or cuda.core')


def devices(driver: DeviceDriver | None = None) -> tuple[Device, ...]:
    """All devices that this process sees.

    Raises:
        NoDeviceError: there is no driver or no device.
    """
    found = driver or process_driver()
    return tuple(found.device(ordinal) for ordinal in range(found.device_count()))


def process_driver() -> DeviceDriver:
    """The process's CUDA driver, started at the first call.

    Raises:
        NoDeviceError: there is no driver or no device.
    """
    # Imported here: what only reads bundles or fakes a driver needs no CUDA.
    from tilec.runtime._driver import driver

    return driver()
