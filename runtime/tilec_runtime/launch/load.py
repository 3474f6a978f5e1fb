"""Loads a bundle on a device: the module object with a launcher per kernel."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tilec_runtime.bundle.choose import JIT_VARIABLE
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.devices import driver_of, find_device
from tilec_runtime.device.seam_types import DeviceInfo
from tilec_runtime.forks import Once
from tilec_runtime.launch.images import store_of
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.launch.prepare import Site
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
    """Load a bundle on a device. A kernel's row of the index is read when it is asked for, images
    at the first launch that needs them.

    Args:
        bundle: a path, the bytes of a bundle, or an open one.
        device: ordinal, `"cuda:1"`, `"cpu"`, or a device object of torch, CuPy or cuda.core; the
            default device (`use_device`) where none is named.
        driver: what to launch through; the process's driver of the device by default.
        jit_fallback: whether images that are no machine code of the device may be compiled at the
            first launch: `"deny"`, `"warn"` or `"allow"`; by default what `TILEC_JIT_FALLBACK`
            says, or else the bundle, and deny where neither says anything.
        strict: see that every variant has machine code for the device, so that no launch of any
            kernel lacks an image or compiles one.

    Raises:
        CallError: there is no such policy.
        BundleError: the bundle cannot be read.
        NoDeviceError: there is no driver or no such device.
        NoImageError: with `strict`, names the variants without machine code.
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
    """Where a bundle is loaded. The driver is asked nothing; arguments and errors are those of
    `load`.
    """
    text, who = (
        (jit_fallback, "jit_fallback")
        if jit_fallback is not None
        else (os.environ.get(JIT_VARIABLE) or None, JIT_VARIABLE)
    )
    policy = None
    if text is not None:
        from tilec_runtime.launch.jit import asked_for

        policy = asked_for(text, who)
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
    """A bundle on a device. `module.NAME` and `module.kernels["NAME"]` give the launcher of a
    kernel.
    """

    def __init__(self, site: Site) -> None:
        """Use `load`."""
        self._site = site
        # A plain dict: packages look a launcher up at each launch. None of them reads its kernel yet.
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
        """Where it is loaded."""
        return self._site.device

    @property
    def compiled(self) -> tuple[Compiled, ...]:
        """The images that were no machine code and were compiled so far, by the driver or by
        nvJitLink.
        """
        return self._site.jit().compiled

    def preload(self, *kernels: str) -> int:
        """Load all images that launches on the device may take, so that none has to: before a graph
        is captured, or a first request comes.

        Variants of which no image runs there are left out: `load(strict=True)` refuses those.

        Args:
            kernels: names of those to load; all by default.

        Returns:
            How many images are loaded.

        Raises:
            AttributeError: there is no such kernel.
            BundleError: an image is damaged.
            KernelCacheError: the driver refuses it.
            CompileError, MissingError: it cannot be compiled, where `jit_fallback` allows that.
        """
        from tilec_runtime.launch.ready import preload  # most programs load at the first launch

        names = kernels or tuple(self.kernels)
        return preload(self._site, [self._named(name, self).info for name in names])

    def require_machine_code(self) -> None:
        """See that every variant has machine code for the device, as `load(strict=True)` does.

        Raises:
            NoImageError: names those that have none.
        """
        from tilec_runtime.launch.ready import require_machine_code

        require_machine_code(self._site)

    @functools.cached_property
    def ops(self) -> LazyLaunchers:
        """The kernels as functions that give ops, as in `module.ops.add(z, x, y)`."""
        from tilec_runtime.ops.lazy import LazyLaunchers  # launches need no ops

        return LazyLaunchers(self.kernels, self._named)

    def __getattr__(self, name: str) -> Launcher:
        """The launcher of a kernel."""
        # It is found without this method the next time.
        launcher = self.__dict__[name] = self._named(name, self)
        return launcher

    def __dir__(self) -> list[str]:
        """Attributes and kernels."""
        return [*super().__dir__(), *self.kernels]

    def __repr__(self) -> str:
        """Package, version, device."""
        package = self.info.package
        return f"<Module {package.name} {package.version} on {self.device}>"


def _named(kernels: Mapping[str, Launcher], bundle: Bundle, name: str, owner: object) -> Launcher:
    """Return the launcher of an attribute's name; raise AttributeError for one that is none."""
    if name not in kernels:
        from tilec_runtime.model.suggest import did_you_mean  # for the message alone

        hint = did_you_mean(name, kernels) or f"; it has {', '.join(kernels)}"
        package = bundle.info.package.name
        raise AttributeError(f"{package} has no kernel {name!r}{hint}", name=name, obj=owner)
    return kernels[name]


def _jit() -> Jit:
    from tilec_runtime.launch.jit import Jit  # few bundles need it

    return Jit()
