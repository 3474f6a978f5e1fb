"""Kernels of a standalone package: for torch's CUDA tensors, through ctypes, with nothing to install.

`tilec build --emit hub` copies this module, and what it imports, into the package. Each launch is
made in Python: it is the slow way of launching, and the only one that Hugging Face's `kernels`
allows. The package's own Python and bundle are checked before they are used.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.standalone import driver
from tilec_runtime.errors import ArgumentError, BundleError, InternalError
from tilec_runtime.launch.images import store_of
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.launch.prepare import Site
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.tensors.facts import is_torch


class Kernels:
    """The kernels of a bundle, each loaded on a device at its first launch there.

    Args:
        path: the bundle.
        index: SHA-256 of its index (hex).

    Raises:
        BundleError: the bundle cannot be read, or is another one.
    """

    def __init__(self, path: Path, index: str) -> None:
        bundle = Bundle.open(path, whole=False)
        if bundle.index_digest != index:
            raise BundleError(
                f"{path}: the bundle is not the one that this package was built with: its index has "
                f"SHA-256 {bundle.index_digest}, the package expects {index}",
                cause="the package holds files of two builds, or its bundle was exchanged",
                fix="fetch the package again",
            )
        self._bundle = bundle
        self._lock = threading.Lock()
        self._launchers: dict[tuple[str, int], Launcher] = {}

    def launch(
        self, kernel: str, values: tuple[Any, ...], choices: tuple[AxisValue | None, ...] = ()
    ) -> None:
        """Check the arguments and enqueue a kernel on torch's current stream.

        Args:
            kernel: its name.
            values: every argument, in order.
            choices: the value of every axis that a caller chooses; None leaves one open.

        Raises:
            LaunchError: the call was refused; nothing was enqueued.
            NoImageError: the bundle has no machine code for this device.
            DriverError: the driver refused the image or the launch.
        """
        ordinal = _ordinal(kernel, values)
        launcher = self._launchers.get((kernel, ordinal))
        if launcher is None:
            launcher = self._on(kernel, ordinal)
        launcher.launch(None, values, choices)

    def _on(self, kernel: str, ordinal: int) -> Launcher:
        started = driver()
        site = Site(
            bundle=self._bundle,
            device=started.device(ordinal),
            driver=started,
            store=store_of(started),
            asked=JitFallback.DENY,
            jit=_no_compiler,
        )
        with self._lock:
            return self._launchers.setdefault((kernel, ordinal), Launcher(kernel, site))


def operators(
    kernels: Kernels, namespace: str, schemas: Mapping[str, tuple[int, str | None]]
) -> dict[str, Callable[..., None]]:
    """Return what launches each kernel: an operator of torch, or a function without a schema.

    Args:
        kernels: what is launched.
        namespace: of the operators. If it has an operator already, the same build was loaded from
            another place, and its operator is taken.
        schemas: by kernel, how many arguments come before the axes, and the operator's schema.
    """
    import torch  # heavy, and needed by operators alone

    library = torch.library.Library(namespace, "FRAGMENT")
    _LIBRARIES.append(library)
    found: dict[str, Callable[..., None]] = {}
    for name, (count, schema) in schemas.items():
        launch = functools.partial(_launched, kernels, name, count)
        found[name] = launch
        if schema is None:
            continue
        known = getattr(torch.ops, namespace)
        if not hasattr(known, name):
            library.define(name + schema)
            for key in ("CUDA", "CPU"):  # of host tensors, the launch says what is wrong
                library.impl(name, launch, key)
            torch.library.register_fake(f"{namespace}::{name}", _nothing, lib=library)
        found[name] = getattr(known, name).default
    return found


# Operators live as long as their library's object.
_LIBRARIES: list[Any] = []


def _launched(kernels: Kernels, name: str, count: int, /, *arguments: Any) -> None:
    choices = arguments[count:]
    chosen = any(choice is not None for choice in choices)
    kernels.launch(name, arguments[:count], choices if chosen else ())


def _nothing(*_: Any) -> None:
    """An operator gives nothing: its outputs are among its arguments."""


def _ordinal(kernel: str, values: tuple[Any, ...]) -> int:
    """The device of the first tensor; of no tensor, the first device.

    Raises:
        ArgumentError: it is none of torch's on a GPU.
    """
    for value in values:
        if hasattr(value, "__dlpack__"):
            if is_torch(type(value)) and value.is_cuda:
                return int(value.get_device())
            where = getattr(value, "device", "the host")
            raise ArgumentError(
                f"{kernel}: got a {type(value).__module__}.{type(value).__qualname__} on {where}",
                cause="kernels of a standalone package take torch's CUDA tensors alone",
                fix="pass CUDA tensors, or install the kernels as a wheel (`tilec build --emit wheel`)",
                kernel=kernel,
            )
    return 0


def _no_compiler() -> Any:
    raise InternalError("a standalone package was asked to compile at load, which it denies")
