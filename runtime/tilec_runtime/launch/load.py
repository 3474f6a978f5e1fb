"""Loads a bundle on a device: a module object with a launcher per kernel."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tilec_runtime.bundle.choose import JIT_VARIABLE
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.devices import driver_of, find_device
from tilec_runtime.device.seam import DeviceInfo
from tilec_runtime.forks import Once
from tilec_runtime.launch.images import Site, store_of
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.model.kernel import BundleInfo
from tilec_runtime.values import Uncopied

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver
    from tilec_runtime.launch.jit import Compiled, Jit
    from tilec_runtime.model.jit import JitFallback
    from tilec_runtime.ops.lazy import LazyLaunchers
    from tilec_runtime.protocols import DeviceLike


def load(
    bundle: Path | str | bytes | Bundle,
    device: DeviceLike | None = None,
    *,
    driver: DeviceDriver | None = None,
    jit_fallback: JitFallback | str | None = None,
    strict: bool = False,
) -> Module:
    """Load a bundle on a device.

    A kernel's index entry is read at its first use, an image at the first launch that needs it.

    Args:
        bundle: a path, the bytes of a bundle, or an open one.
        device: ordinal, `"cuda:1"`, `"cpu"`, or a device object of torch, CuPy or cuda.core; None
            for the default device (`use_device`).
        driver: the driver to launch through; by default the process's driver of the device.
        jit_fallback: whether images without machine code for the device may be compiled at the
            first launch: `"deny"`, `"warn"` or `"allow"`. The default is `TILEC_JIT_FALLBACK`, else
            the policy of the bundle, else deny.
        strict: check that every variant has machine code for the device, so that no launch lacks an
            image or compiles one.

    Raises:
        CallError: there is no such policy.
        BundleError: the bundle cannot be read.
        NoDeviceError: there is no driver or no such device.
        NoImageError: with `strict`, some variants have no machine code; the message names them.
    """
    opened = bundle if isinstance(bundle, Bundle) else Bundle.open(bundle, whole=False)
    serving = driver or driver_of(device)
    module = Module(site_on(opened, find_device(device, serving), serving, jit_fallback))
    if strict:
        module.require_machine_code()
    return module


def site_on(
    bundle: Bundle,
    device: DeviceInfo,
    driver: DeviceDriver,
    jit_fallback: JitFallback | str | None = None,
) -> Site:
    """Return the site of a bundle on a device, without a call of the driver.

    Arguments and errors are those of `load`.
    """
    text, origin = (
        (jit_fallback, "jit_fallback")
        if jit_fallback is not None
        else (os.environ.get(JIT_VARIABLE) or None, JIT_VARIABLE)
    )
    policy = None
    if text is not None:
        from tilec_runtime.launch.jit import asked_for

        policy = asked_for(text, origin)
    return Site(
        bundle=bundle,
        device=device,
        driver=driver,
        store=store_of(driver),
        asked=policy,
        jit=Once(_jit),
        missing=bundle.parts.missing(device.cc),
    )


class Module(Uncopied):
    """A bundle on a device.

    `module.NAME` and `module.kernels["NAME"]` are the launcher of a kernel.
    """

    def __init__(self, site: Site) -> None:
        """Use `load`."""
        self._site = site
        # A plain dict, because packages look up a launcher at each launch. Launchers read their
        # kernel's index entry at its first use.
        self.kernels: Mapping[str, Launcher] = {
            name: Launcher(name, site) for name in site.bundle.kernels
        }
        self._named = functools.partial(_named, self.kernels, site.bundle)

    @property
    def info(self) -> BundleInfo:
        """The bundle's index."""
        return self._site.bundle.info

    @property
    def device(self) -> DeviceInfo:
        """The device it is loaded on."""
        return self._site.device

    @property
    def compiled(self) -> tuple[Compiled, ...]:
        """The images that the driver or nvJitLink has compiled at load so far."""
        return self._site.jit().compiled

    def preload(self, *kernels: str) -> int:
        """Load all images that launches on the device may take.

        Call it before a graph is captured or a first request comes, so that no launch loads an
        image. It skips variants without an image for the device; `load(strict=True)` refuses those.

        Args:
            kernels: names of the kernels to load; all by default.

        Returns:
            The number of loaded images.

        Raises:
            AttributeError: there is no such kernel.
            BundleError: an image is damaged.
            KernelCacheError: the driver refuses an image.
            CompileError, MissingError: an image that `jit_fallback` allows to compile cannot be
                compiled.
        """
        from tilec_runtime.launch.ready import preload  # most programs load at the first launch

        names = kernels or tuple(self.kernels)
        return preload(self._site, [self._named(name, self).info for name in names])

    def require_machine_code(self) -> None:
        """Check that every variant has machine code, as `load(strict=True)` does.

        Raises:
            NoImageError: some variants have none; the message names them.
        """
        from tilec_runtime.launch.ready import require_machine_code

        require_machine_code(self._site)

    @functools.cached_property
    def ops(self) -> LazyLaunchers:
        """The kernels as functions that return ops, as in `module.ops.add(z, x, y)`."""
        from tilec_runtime.ops.lazy import LazyLaunchers  # launches need no ops

        return LazyLaunchers(self.kernels, self._named)

    def __getattr__(self, name: str) -> Launcher:
        """Return the launcher of a kernel."""
        # The next look-up finds it in `__dict__`, without this method.
        launcher = self.__dict__[name] = self._named(name, self)
        return launcher

    def __dir__(self) -> list[str]:
        """List attributes and kernels."""
        return [*super().__dir__(), *self.kernels]

    def __repr__(self) -> str:
        """Show package, version and device."""
        package = self.info.package
        return f"<Module {package.name} {package.version} on {self.device}>"


def _named(kernels: Mapping[str, Launcher], bundle: Bundle, name: str, owner: object) -> Launcher:
    """Return the launcher of a kernel by name, or raise AttributeError."""
    if name not in kernels:
        from tilec_runtime.model.suggest import did_you_mean  # for the message alone

        hint = did_you_mean(name, kernels) or f"; it has {', '.join(kernels)}"
        package = bundle.info.package.name
        raise AttributeError(f"{package} has no kernel {name!r}{hint}", name=name, obj=owner)
    return kernels[name]


def _jit() -> Jit:
    from tilec_runtime.launch.jit import Jit  # few bundles need it

    return Jit()
