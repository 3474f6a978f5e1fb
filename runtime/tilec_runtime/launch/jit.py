"""Compiling at load, if `jit-fallback` allows it, and its cache."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilec_runtime.bundle.choose import FORMS, Candidate, machine_code
from tilec_runtime.errors import CallError, KernelCacheError, LinkerError, MissingError
from tilec_runtime.model.arch import TargetKind, Version, dotted
from tilec_runtime.model.driver import ptx_isa_of_cuda
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitBy, JitFallback
from tilec_runtime.values import value_class

if TYPE_CHECKING:
    from tilec_runtime.bundle.choose import DeviceFacts
    from tilec_runtime.device.nvjitlink import NvJitLink
    from tilec_runtime.launch.jit_cache import JitCache

_RECIPE = 2  # part of the cache key; raise it when the linker's inputs or options change


@value_class(frozen=True, kw_only=True)
class Compiled:
    """An image that was compiled at load.

    Attributes:
        variant: id of the variant.
        target: the target of the image in the bundle.
        by: the compiler.
    """

    variant: str
    target: str
    by: JitBy

    def __str__(self) -> str:
        """Return a line such as `scale-f32: compute_80 was compiled at load by nvJitLink`."""
        return f"{self.variant}: {self.target} was compiled at load by {self.by.value}"


class Jit:
    """Compiles images of one loaded bundle, and lists them.

    Args:
        cache: the cache of machine code; None for the environment's cache, opened at its first use.
        linker: returns the linker at its first use.
    """

    def __init__(
        self, *, cache: JitCache | None = None, linker: Callable[[], NvJitLink] | None = None
    ) -> None:
        self._cache = cache
        self._make = linker or _nvjitlink
        self._linker: NvJitLink | None = None
        self._lock = threading.Lock()
        self._compiled: dict[tuple[str, str], Compiled] = {}

    @property
    def compiled(self) -> tuple[Compiled, ...]:
        """The images compiled so far, in the order of their first use."""
        with self._lock:
            return tuple(self._compiled.values())

    def code(
        self, taken: Candidate, image: Callable[[], bytes], device: DeviceFacts, variant: str
    ) -> bytes:
        """Return the code that the driver loads for an image that is not machine code.

        The image store calls this once per device.

        Args:
            taken: the image.
            image: returns its verified bytes.
            device: the device to compile for.
            variant: id of its variant, for messages.

        Raises:
            LinkerError: nvJitLink is missing or too old.
            KernelCacheError: nvJitLink refuses the image; the message has its log.
            RuntimeWarning: the policy is to warn, and this process turns warnings into errors.
        """
        assert taken.jit is not None
        if device.jit is JitFallback.WARN:
            warning = f"{variant}: no machine code for {device}; {taken.image.target} is compiled at load by {taken.jit.value}"
            ways = [*(install for _, install in device.missing), machine_code(device)]
            warnings.warn(f"{warning}: {'; or '.join(ways)}", RuntimeWarning, stacklevel=2)
        if taken.jit is JitBy.DRIVER:
            return image()
        return self._machine_code(taken.image, image, device, variant)

    def note(self, taken: Candidate, variant: str) -> None:
        """Record that a variant runs compiled code.

        It may have been compiled earlier, for another bundle with the same image.
        """
        assert taken.jit is not None
        target = str(taken.image.target)
        compiled = Compiled(variant=variant, target=target, by=taken.jit)
        with self._lock:
            self._compiled.setdefault((variant, target), compiled)

    def _machine_code(
        self, image: ImageInfo, data: Callable[[], bytes], device: DeviceFacts, variant: str
    ) -> bytes:
        """Return an image's machine code, from the cache or by nvJitLink."""
        linker = self._linker_for(image, device, variant)
        arch = f"sm_{device.cc[0]}{device.cc[1]}{image.target.suffix}"
        key = _key(image, linker.version, device.driver, arch)
        cache = self._open_cache()
        cubin = cache.get(key)
        if cubin is None:
            cubin = self._link(linker, image, data(), arch, variant)
            cache.put(key, cubin)
        return cubin

    def _link(
        self, linker: NvJitLink, image: ImageInfo, data: bytes, arch: str, variant: str
    ) -> bytes:
        from tilec_runtime.device.nvjitlink import LinkError

        try:
            kind = image.target.kind
            options = image.linking if kind is TargetKind.LTOIR else ()
            return linker.compile(data, f"{variant}.{kind.value}", arch, kind, options)
        except LinkError as error:
            log = "\n".join(f"  {line}" for line in error.what.splitlines())
            raise KernelCacheError(
                f"{variant}: nvJitLink {dotted(linker.version)} does not compile the {FORMS[image.target.kind]} for {image.target} "
                f"for {arch}:\n{log}",
                fix=f"add {arch} to [targets] and build again: a build finds such errors",
                kernel=variant,
                target=str(image.target),
            ) from error

    def _linker_for(self, image: ImageInfo, device: DeviceFacts, variant: str) -> NvJitLink:
        with self._lock:
            try:
                linker = self._linker = self._linker or self._make()
            except MissingError as error:
                why = ", for the driver is too old" if image.target.kind is TargetKind.PTX else ""
                form = FORMS[image.target.kind]
                message = f"{variant}: the {form} for {image.target} has to go through nvJitLink{why}: {error.what}"
                raise LinkerError(
                    message,
                    cause=error.cause,
                    fix=f"{error.fix}; or {machine_code(device)}",
                    kernel=variant,
                ) from error
        beyond = _beyond(image, linker.version)
        if beyond:
            fix = f"pip install --upgrade 'nvidia-nvjitlink<14'; or {machine_code(device)}"
            raise LinkerError(
                f"{variant}: nvJitLink {dotted(linker.version)} {beyond}", fix=fix, kernel=variant
            )
        return linker

    def _open_cache(self) -> JitCache:
        if self._cache is None:
            from tilec_runtime.bundle.place import cache_root
            from tilec_runtime.launch.jit_cache import JitCache

            self._cache = JitCache(cache_root(os.environ))
        return self._cache


def asked_for(text: JitFallback | str, origin: str) -> JitFallback:
    """Return the policy that a caller or the environment asks for.

    Args:
        text: a policy, or its name.
        origin: the argument or variable that holds it, for the message.

    Raises:
        CallError: there is no such policy.
    """
    try:
        return text if isinstance(text, JitFallback) else JitFallback.parse(text)
    except ValueError as error:
        raise CallError(
            f"{origin}: {error}",
            fix="say deny, warn or allow; or nothing, to go by what the bundle says",
        ) from error


def _nvjitlink() -> NvJitLink:
    from tilec_runtime.device.nvjitlink import NvJitLink

    return NvJitLink()


def _beyond(image: ImageInfo, linker: Version) -> str:
    """Return why a linker cannot read an image's version, or an empty string."""
    version, own = image.ptx_isa, ptx_isa_of_cuda(linker)
    if version is None:
        return ""
    if image.target.kind is TargetKind.PTX:
        return (
            f"reads PTX up to ISA {dotted(own)}, and the PTX for {image.target} is of ISA {dotted(version)}"
            if own < version
            else ""
        )
    # LTO-IR is the compiler's internal code: nvJitLink reads it from its own major release of CUDA,
    # up to its own version.
    if version[0] == linker[0] and version <= linker:
        return ""
    return f"links LTO-IR of CUDA {linker[0]}.0 to {dotted(linker)}, and the LTO-IR for {image.target} is of CUDA {dotted(version)}"


def _key(image: ImageInfo, linker: Version, driver: Version, arch: str) -> dict[str, Any]:
    return {
        "arch": arch,
        "driver": dotted(driver),
        "image": image.digest,
        "linker": f"nvJitLink {dotted(linker)}",
        "linking": list(image.linking),
        "recipe": _RECIPE,
    }
