"""Bundles split into parts.

The package holds the index and portable code. Each provider module, installed from its own wheel,
holds the machine code of one compute capability.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol

from tilec_runtime.bundle.archive import damaged
from tilec_runtime.errors import BundleError
from tilec_runtime.model.arch import Target, TargetKind, Version, dotted
from tilec_runtime.model.digest import canonical_json
from tilec_runtime.model.kernel import PackageInfo

PROVIDERS_NAME = "providers.json"  # the bundle's member that names the modules of its providers
PART_NAME = "images.tilec"  # the file in a provider's module
_MOST = 64
# A file's path, the bytes of a bundle, or a binary file.
Source = Path | bytes | BinaryIO


def write_providers(modules: Mapping[Version, str]) -> bytes:
    """Encode the module that holds the machine code of each compute capability."""
    return canonical_json({str(Target(TargetKind.CUBIN, cc)): modules[cc] for cc in modules})


def read_providers(data: bytes) -> dict[Version, str]:
    """Decode the output of `write_providers`.

    Raises:
        BundleError: `write_providers` cannot have written these bytes.
    """
    providers: dict[Version, str] = {}
    try:
        plain = json.loads(data)
        providers = {Target.parse(name).cc: module for name, module in plain.items()}
        modules = all(type(name) is str and name.isidentifier() for name in providers.values())
        sound = modules and len(providers) <= _MOST and write_providers(providers) == data
    except (ValueError, AttributeError, RecursionError):
        sound = False
    if not sound:
        damaged(f"has a {PROVIDERS_NAME} that names no modules by target")
    return providers


class Part(Protocol):
    """The opened file of a provider; `Bundle` implements it."""

    name: str

    @property
    def index_digest(self) -> str:
        """SHA-256 (hex) of the index of the whole bundle."""

    @property
    def package(self) -> PackageInfo:
        """The package in that index."""

    def image(self, digest: str) -> bytes:
        """Return the bytes of an image, by its digest."""

    def packed(self, digest: str) -> int | None:
        """Return the packed size of an image in bytes, or None without its part."""


class Parts:
    """The providers of a split bundle, opened on first use.

    Attributes:
        modules: provider modules by compute capability.
        find: returns the part in a module, to be opened, or None if it is not installed.
    """

    def __init__(
        self,
        modules: Mapping[Version, str],
        package: PackageInfo,
        index_digest: str,
        open_part: Callable[[Source], Part],
    ) -> None:
        """Record the providers; open none.

        Args:
            modules: provider modules by compute capability.
            package: the package of the bundle.
            index_digest: SHA-256 (hex) of its index, which the parts must share.
            open_part: opens the source that `find` returns.
        """
        self.modules = modules
        self.find: Callable[[str], Source | None] = installed_part
        self._package = package
        self._index_digest = index_digest
        self._open = open_part
        self._opened: dict[Version, Part] = {}

    def missing(self, cc: Version) -> tuple[tuple[Version, str], ...]:
        """Return the missing providers that a device of capability `cc` could use.

        Each is a compute capability with the command that installs its provider.

        Raises:
            BundleError: a provider is damaged or of another build.
        """
        near = [own for own in self.modules if own[0] == cc[0]]
        return tuple((own, self._install(own)) for own in near if self.part(own) is None)

    def image(self, cc: Version, digest: str) -> bytes:
        """Return the bytes of an image.

        Raises:
            BundleError: its provider is not installed, damaged or of another build.
        """
        part = self.part(cc)
        if part is None:
            raise BundleError(
                f"the machine code for {dotted(cc)} is in {self.modules[cc]}, which is not installed",
                fix=self._install(cc),
            )
        with self._of(cc):
            return part.image(digest)

    def part(self, cc: Version) -> Part | None:
        """Return the part of a compute capability, or None without its provider.

        Raises:
            BundleError: the part is damaged or of another build.
        """
        if cc not in self._opened:
            source = self.find(self.modules[cc])
            if source is None:
                return None
            with self._of(cc):
                part = self._open(source)
                if part.index_digest != self._index_digest:
                    self._refuse(cc, part)
            self._opened[cc] = part
        return self._opened[cc]

    def _refuse(self, cc: Version, part: Part) -> NoReturn:
        mine, other = self._package, part.package
        raise BundleError(
            f"{part.name or self.modules[cc]}: the machine code is of another build than package {mine.module}: of {other.name} "
            f"{other.version} with index {part.index_digest[:12]}, the package is {mine.name} {mine.version} with index "
            f"{self._index_digest[:12]}",
            cause="wheels of different versions or builds are installed together",
        )

    @contextlib.contextmanager
    def _of(self, cc: Version) -> Iterator[None]:
        """Add the command that reinstalls a provider to its errors."""
        try:
            yield
        except BundleError as exc:
            wheel = f"{self._package.name}-{extra_of(cc)}=={self._package.version}"
            fix = f"pip install --force-reinstall --no-deps '{wheel}'"
            raise BundleError(exc.what, cause=exc.cause, fix=fix) from exc

    def _install(self, cc: Version) -> str:
        return f"pip install '{self._package.name}[{extra_of(cc)}]=={self._package.version}'"


def extra_of(cc: Version) -> str:
    """Return the name of a compute capability in wheels, such as `sm90`."""
    return f"sm{cc[0]}{cc[1]}"


def installed_part(module: str) -> Path | bytes | None:
    """Find the part in a provider module without importing it, or return None.

    The result is a path, or bytes if the module is not on disk (in a zip file, for example).
    """
    from importlib.util import find_spec  # whole bundles do not need it

    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(PART_NAME)
    loader = spec.loader
    if not Path(spec.origin).exists() and loader is not None and hasattr(loader, "get_data"):
        with contextlib.suppress(OSError):  # opening the path then reports the missing part
            data: bytes = loader.get_data(str(path))
            return data
    return path
