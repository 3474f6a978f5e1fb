"""The device that a command runs on: a GPU, or the cpu device."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, F
from tilec.cli.complete import completes, devices_of
from tilec.cli.style import echo
from tilec_runtime.errors import MissingError, NoDeviceError, UsageError

if TYPE_CHECKING:
    from tilec_runtime.cpu.launch import CpuOptions
    from tilec_runtime.device.seam import DeviceDriver, DeviceInfo

AUTO, CPU = "auto", "cpu"
NAMES = (AUTO, CPU, "cuda")
NEEDS_GPU = 3  # exit code if nothing could be done without a GPU


def device_option(
    default: str,
    help: str,  # noqa: A002 - click's
    names: tuple[str, ...] = NAMES,
) -> Callable[[F], F]:
    """Declare `--device`; `names` are those that the command takes."""
    return click.option(
        "--device",
        default=default,
        show_default=True,
        callback=lambda _ctx, _param, value: require_device_name(value, names),
        metavar="NAME",
        shell_complete=completes(devices_of),
        help=help,
    )


def require_device_name(text: str, names: tuple[str, ...] = NAMES) -> str:
    """Return a valid name for `--device`, with `cuda:N` for a number alone.

    Args:
        text: the name on the command line.
        names: names that the command takes, as a message lists them.

    Raises:
        UsageError: the name is invalid.
    """
    name = f"cuda:{text}" if text.isdecimal() else text
    if name in names or re.fullmatch(r"cuda:\d{1,4}", name):
        return name
    raise UsageError(
        f"--device: {text!r} is no device of this command",
        fix=f"use {', '.join(names)}, or cuda:N for GPU number N",
    )


def find_gpu(name: str, work: str, fix: str = "") -> tuple[DeviceDriver, DeviceInfo]:
    """Return the driver and a GPU.

    Raises:
        NoDeviceError: the GPU is missing; the message has `work`, which needs it, and the fix.
    """
    from tilec_runtime.device import driver as _driver
    from tilec_runtime.device.devices import find_device as find

    try:
        driver = _driver.driver()
        return driver, find(name, driver)
    except NoDeviceError as error:
        raise NoDeviceError(
            f"{work} needs a GPU ({name}): {error.what}",
            cause=error.cause,
            fix=fix or "use a machine with an NVIDIA GPU and its driver",
        ) from error


def find_device(
    app: App,
    name: str,
    *,
    only_cpu: str = "",
    cpu: CpuOptions | None = None,
) -> tuple[DeviceDriver, DeviceInfo]:
    """Return the device of a run and its driver.

    Args:
        app: run of the command; it prints the device that `auto` chose.
        name: valid value of `--device`.
        only_cpu: an option of the command line that only the cpu device supports.
        cpu: options of the cpu device.

    Raises:
        UsageError: the device does not support an option.
        NoDeviceError: the named GPU is missing.
    """
    if name == CPU or (name == AUTO and only_cpu):
        return _cpu(app, cpu)
    if only_cpu:
        raise UsageError(
            f"{only_cpu} needs the cpu device, but --device is {name}", fix="pass --device cpu"
        )
    fix = (
        "leave --device out, or pass --device cpu, to run tile kernels here; "
        "or copy the project and its bundle to a machine with an NVIDIA GPU and its driver, "
        "and run `tilec run --bundle FILE` there"
    )
    try:
        driver, device = find_gpu("cuda:0" if name == AUTO else name, "running kernels", fix)
    except MissingError as error:
        if name != AUTO:
            raise
        lacking = str(getattr(error.__cause__, "what", error.what)).partition(":")[0]
        app.note(f"running on the cpu device, without a GPU: {lacking}")
        return _cpu(app, cpu)
    if name == AUTO:
        app.note(f"running on {device}")
    return driver, device


def _cpu(app: App, options: CpuOptions | None) -> tuple[DeviceDriver, DeviceInfo]:
    from tilec_runtime.cpu.driver import CPU as DEVICE
    from tilec_runtime.cpu.driver import CpuDriver
    from tilec_runtime.cpu.launch import CpuOptions

    def show(text: str) -> None:
        app.clear_status()
        echo(text, nl=False, err=app.json)

    return CpuDriver(dataclasses.replace(options or CpuOptions(), output=show)), DEVICE


def device_json(device: DeviceInfo) -> dict[str, Any]:
    """Return a device as JSON values."""
    if device.interprets is not None:
        return {"kind": "cpu", "name": device.name}
    return {
        "kind": "cuda",
        "name": device.name,
        "ordinal": device.ordinal,
        "compute_capability": list(device.cc),
        "driver": list(device.driver),
    }
