"""Finds devices and their drivers by number, name or another library's object."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, NamedTuple

from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.device.seam import DeviceInfo
from tilec_runtime.errors import CallError

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver
    from tilec_runtime.protocols import DeviceLike, SchedulingPolicy


class Defaults(NamedTuple):
    """The defaults of one context.

    A policy beats a device; None defers to the outer context.
    """

    device: DeviceLike | None = None
    policy: SchedulingPolicy | None = None


_NOTHING = Defaults()
HERE: contextvars.ContextVar[Defaults] = contextvars.ContextVar("tilec_defaults", default=_NOTHING)
_process: DeviceLike | None = None


def named_device() -> DeviceLike | None:
    """Return the device of `use_device`, else of `set_default_device`, else None.

    None stands for device 0.
    """
    return HERE.get().device or _process


def set_process_device(device: DeviceLike | None) -> None:
    """Set the default device of every thread and task outside of `use_device`."""
    global _process
    _process = device


def find_device(device: DeviceLike | None, driver: DeviceDriver | None = None) -> DeviceInfo:
    """Return facts about a device.

    Args:
        device: as for `ordinal_of`.
        driver: the driver of the device; the process's driver for it by default.

    Raises:
        CallError: `device` does not name a device.
        NoDeviceError: there is no such device.
    """
    return (driver or driver_of(device)).device(ordinal_of(device))


def driver_of(device: DeviceLike | None) -> DeviceDriver:
    """Return the process's driver of a device: the cpu device's, or CUDA's.

    The CUDA driver is started at the first call.

    Raises:
        CallError: `device` does not name a device.
        NoDeviceError: there is no CUDA driver or no GPU.
    """
    if device is None:
        device = named_device()
    own: DeviceDriver | None = getattr(device, "_tilec_driver_", None)
    if own is not None:  # a `Device`, which may have a driver of its own
        return own
    if ordinal_of(device) != ON_CPU:
        return process_driver()
    # Imported here: launching on a GPU needs no interpreter.
    from tilec_runtime.cpu.driver import cpu_driver

    return cpu_driver()


def ordinal_of(device: DeviceLike | None) -> int:
    """Return the number of a device; -1 for the cpu device.

    Args:
        device: an int, `"cuda"` or `"cuda:1"`, `"cpu"`, a `Device` or its `DeviceInfo`, or a device
            object of torch (`index`), CuPy (`id`), cuda.core (`device_id`) or JAX
            (`local_hardware_id`: its `id` counts the devices of all processes). None for the
            default device of this thread or task.

    Raises:
        CallError: `device` does not name a device that kernels run on.
    """
    if device is None:
        named = named_device()
        return 0 if named is None else named.ordinal
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, DeviceInfo):
        return device.ordinal
    ordinal = _ordinal_named(device) if isinstance(device, str) else _ordinal_held(device)
    if ordinal is not None:
        return ordinal
    fix = 'pass a number, "cuda", "cuda:1", "cpu", or a device object of torch, CuPy, JAX or cuda.core'
    if isinstance(device, str) and device.lower().startswith("cpu"):
        fix = f'there is one cpu device, and its name is "cpu"; {fix}'
    raise CallError(f"{device!r} is no device that kernels run on", fix=fix)


def _ordinal_named(name: str) -> int | None:
    if name == "cpu":
        return ON_CPU
    kind, colon, number = name.partition(":")
    is_number = number.isascii() and number.isdigit() and len(number) <= 4
    return int(number or 0) if kind == "cuda" and (is_number or not colon) else None


def _ordinal_held(device: object) -> int | None:
    """Return the number of a device object of another library."""
    kind, platform = getattr(device, "type", "cuda"), getattr(device, "platform", "gpu")
    if "cpu" in (kind, platform):
        return ON_CPU
    if kind != "cuda" or platform not in ("gpu", "cuda"):
        return None
    for attribute in ("index", "local_hardware_id", "id", "device_id"):
        ordinal: Any = getattr(device, attribute, None)
        if type(ordinal) is int:
            return ordinal
    # torch.device("cuda") has no index and means torch's current device, which is unknown here.
    return 0 if getattr(device, "index", 0) is None else None


def devices(driver: DeviceDriver | None = None) -> tuple[DeviceInfo, ...]:
    """Return all GPUs that this process sees, without the cpu device.

    Raises:
        NoDeviceError: there is no driver or no device.
    """
    serving = driver or process_driver()
    return tuple(serving.device(ordinal) for ordinal in range(serving.device_count()))


def process_driver() -> DeviceDriver:
    """Return the process's CUDA driver, started at the first call.

    Raises:
        NoDeviceError: there is no driver or no device.
    """
    # Imported here: reading bundles, and tests with a fake driver, need no CUDA.
    from tilec_runtime.device.driver import driver

    return driver()
