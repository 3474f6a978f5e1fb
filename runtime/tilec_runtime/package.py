"""A generated package's bundle: opened once, and loaded once on each device.

The package imports this module when it is imported, so the module imports nothing slow.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tilec_runtime.forks import ForkLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.device.seam import DeviceDriver
    from tilec_runtime.launch.jit import Compiled
    from tilec_runtime.launch.launcher import Launcher
    from tilec_runtime.launch.load import Module
    from tilec_runtime.protocols import DeviceLike


class Package:
    """The state behind the functions of a generated package. Any thread may use it.

    Attributes:
        name: import name of the package.
        file: name of the bundle inside it.
        index: SHA-256 of the bundle's index (hex).
        makers: functions that make lazy launches, for any device.
    """

    def __init__(self, name: str, file: str, index: str = "") -> None:
        """Create the package; nothing is opened yet.

        Args:
            name: import name of the package.
            file: name of the bundle inside the package.
            index: SHA-256 of the bundle's index (hex); empty accepts any index, for tilec's own
                kernels.
        """
        self.name = name
        self.file = file
        self.index = index
        self._lock = ForkLock()
        self._modules: dict[tuple[DeviceDriver, int], Module] = {}
        self.makers = Makers(self._packaged)

    def __repr__(self) -> str:
        """Show package and bundle."""
        return f"<Package {self.name}: {self.file}>"

    @functools.cached_property
    def bundle(self) -> Bundle:
        """The bundle. Reading its index needs no device.

        The index has the digest of each image; loading an image verifies it.

        Raises:
            BundleError: the bundle cannot be read, or has another index than the package was built
                with.
        """
        from tilec_runtime.bundle.read import Bundle

        bundle = Bundle.open(self._source(), whole=False)
        if self.index:
            bundle.require_index(
                self.index,
                name=bundle.name or f"{self.file} in package {self.name}",
                fix="install the package again, or build it again with `tilec build`",
            )
        return bundle

    def _source(self) -> Path | bytes:
        """Return the bundle's path, or its bytes if it has no path, as in a zip file."""
        beside = getattr(sys.modules.get(self.name), "__file__", None)
        if beside and (path := Path(beside).with_name(self.file)).is_file():
            return path
        from importlib.resources import files  # slow to import: it imports zipfile

        resource = files(self.name).joinpath(self.file)
        return resource if isinstance(resource, Path) else resource.read_bytes()

    def load(self, device: DeviceLike | None = None, *, strict: bool = False) -> Module:
        """Return the kernels on a device.

        With `strict`, check that every variant has machine code for it.

        Raises:
            NoDeviceError: there is no driver or no such device.
            BundleError: the bundle is damaged.
            NoImageError: with `strict`, some variants have no machine code; the message names them.
        """
        from tilec_runtime.device.devices import driver_of, ordinal_of

        module = self.on(driver_of(device), ordinal_of(device))
        if strict:
            module.require_machine_code()
        return module

    def on(self, driver: DeviceDriver, ordinal: int) -> Module:
        """Return the kernels on a driver's device, loaded at the first call."""
        module = self._modules.get((driver, ordinal))
        if module is None:
            from tilec_runtime.launch.load import load

            with self._lock:
                module = self._modules.get((driver, ordinal))
                if module is None:
                    module = self._modules[driver, ordinal] = load(
                        self.bundle, ordinal, driver=driver
                    )
        return module

    def missing(self, name: str) -> NoReturn:
        """Refuse an attribute that the package's module does not have.

        Raises:
            AttributeError: always; the message names the nearest kernel, and how to call it.
        """
        message = f"module {self.name!r} has no attribute {name!r}"
        if not name.startswith("_"):
            from tilec_runtime.model.suggest import nearest  # for the message alone

            kernels = [key for key in vars(sys.modules[self.name].Ops) if not key.startswith("_")]
            close = nearest(name, ("load", "ops", *kernels))
            if close in kernels:
                message += f"; {self.name}.ops.{close}(...) gives an op, {self.name}.load().{close}(...) launches at once"
            elif close:
                message += f"; did you mean {close!r}"
        raise AttributeError(message, name=name)

    def _packaged(self, kernel: str) -> Callable[..., Any]:
        from tilec_runtime.launch.contract import Contract
        from tilec_runtime.ops.lazy import Origin

        return Origin(
            Contract(self.bundle.kernel(kernel)),
            lambda driver, ordinal: self.on(driver, ordinal).kernels[kernel],
            {},
        ).make


class Makers(dict[str, "Callable[..., Any]"]):
    """Functions that make lazy launches, by kernel; each is made at its first use."""

    def __init__(self, make: Callable[[str], Callable[..., Any]]) -> None:
        """Keep the function that makes the function of a kernel."""
        super().__init__()
        self._make = make

    def __missing__(self, kernel: str) -> Callable[..., Any]:
        """Make a kernel's function. Several threads may do so at once; one result stays."""
        return self.setdefault(kernel, self._make(kernel))


class PackageKernels:
    """Base of a generated package's `Module`, which launches by `_launchers`."""

    _ops: type[PackageOps]

    def __init__(self, loaded: Module) -> None:
        """Use the package's `load`."""
        self._loaded = loaded
        self._launchers = loaded.kernels

    @functools.cached_property
    def ops(self) -> PackageOps:
        """The same kernels as functions that return ops, which run on this device."""
        from tilec_runtime.ops.lazy import Origin  # launches need no ops

        return self._ops(Makers(lambda kernel: Origin.of(self._launchers[kernel]).make))

    @property
    def compiled(self) -> tuple[Compiled, ...]:
        """The images that were compiled at load for this device so far."""
        return self._loaded.compiled

    def preload(self, *kernels: str) -> int:
        """Load the images of some or all kernels; return the number of images."""
        return self._loaded.preload(*kernels)

    def __getitem__(self, kernel: str) -> Launcher:
        """Return the launcher of a kernel.

        Raises:
            KeyError: there is no such kernel; the message names the nearest one.
        """
        if kernel not in self._loaded.kernels:
            raise KeyError(self._unknown(kernel))
        return self._loaded.kernels[kernel]

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a name that no kernel has; the message names the nearest one.

        Raises:
            AttributeError: always.
        """
        message = name if name.startswith("_") else self._unknown(name)
        raise AttributeError(message, name=name, obj=self)

    def _unknown(self, name: str) -> str:
        from tilec_runtime.model.suggest import did_you_mean  # for the message alone

        known = tuple(self._loaded.kernels)
        hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
        return f"{self._loaded.info.package.name} has no kernel {name!r}{hint}"

    def __repr__(self) -> str:
        """Show package, version and device."""
        package = self._loaded.info.package
        return f"<kernels of {package.name} {package.version} on {self._loaded.device}>"


class PackageOps:
    """Base of a generated package's `Ops`, whose methods make ops through `_launch`."""

    def __init__(self, makers: Makers) -> None:
        """Use `ops` of the package or of its `Module`."""
        self._launch = makers
