"""Kernels of a standalone package, for torch's CUDA tensors.

The package needs no installation. `tilec build --emit hub` copies this module, and the modules it
imports, into the package. Each launch is made in Python: this is the slow path, and the only one
that Hugging Face's `kernels` allows. The package's Python files and bundle are checked before they
are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.driver import driver
from tilec_runtime.errors import ArgumentError, InternalError
from tilec_runtime.launch.images import Site, store_of
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.tensors.facts import is_torch
from tilec_runtime.values import value_class

# Cause and fix of a refused tensor.
_CAUSE = "kernels of a standalone package take torch's CUDA tensors alone"
_FIX = "pass CUDA tensors, or install the kernels as a wheel (`tilec build --emit wheel`)"


@value_class(frozen=True, kw_only=True)
class Loaded:
    """The launchers of a bundle on one device, by kernel."""

    kernels: Mapping[str, Launcher]


class Kernels:
    """The kernels of a bundle, each loaded on a device at its first launch there.

    Args:
        path: the bundle.
        index: SHA-256 of its index (hex).

    Raises:
        BundleError: the bundle cannot be read, or has another index.
    """

    def __init__(self, path: Path, index: str) -> None:
        self.bundle = Bundle.open(path, whole=False)
        self.bundle.require_index(index, name=str(path), fix="fetch the package again")
        self._loaded: dict[int, Loaded] = {}

    def launch(
        self, kernel: str, values: tuple[Any, ...], choices: tuple[AxisValue | None, ...] = ()
    ) -> None:
        """Check the arguments and enqueue a kernel on torch's current stream.

        Args:
            kernel: its name.
            values: every argument, in order.
            choices: the value of every axis that a caller chooses; None leaves an axis open.

        Raises:
            LaunchError: the call was refused; nothing was enqueued.
            NoImageError: the bundle has no machine code for this device.
            DriverError: the driver refused the image or the launch.
        """
        self.load(_ordinal(kernel, values)).kernels[kernel].launch(None, values, choices)

    def load(self, device: int | str) -> Loaded:
        """Return the kernels on a device, by its number.

        Raises:
            ArgumentError: the device is the CPU.
            NoDeviceError: there is no driver or no such device.
        """
        if isinstance(device, str):
            raise ArgumentError("the arguments are tensors on the host", cause=_CAUSE, fix=_FIX)
        loaded = self._loaded.get(device)
        if loaded is None:
            started = driver()
            site = Site(
                bundle=self.bundle,
                device=started.device(device),
                driver=started,
                store=store_of(started),
                asked=JitFallback.DENY,
                jit=_no_compiler,
            )
            launchers = {name: Launcher(name, site) for name in self.bundle.kernels}
            loaded = self._loaded.setdefault(device, Loaded(kernels=launchers))
        return loaded


def _ordinal(kernel: str, values: tuple[Any, ...]) -> int:
    """Return the device of the first tensor, or device 0 if there is no tensor.

    Raises:
        ArgumentError: the tensor is not torch's, or not on a GPU.
    """
    for value in values:
        if hasattr(value, "__dlpack__"):
            if is_torch(type(value)) and value.is_cuda:
                return int(value.get_device())
            where = getattr(value, "device", "the host")
            raise ArgumentError(
                f"{kernel}: got a {type(value).__module__}.{type(value).__qualname__} on {where}",
                cause=_CAUSE,
                fix=_FIX,
                kernel=kernel,
            )
    return 0


def _no_compiler() -> Any:
    raise InternalError("a standalone package was asked to compile at load, which it denies")
