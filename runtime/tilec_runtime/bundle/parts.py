"""Bundles in parts: a package holds the index and portable code, and provider modules, which are
installed from wheels of their own, hold the machine code of one compute capability each.
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
    """Write which module has the machine code of which compute capability."""
    return canonical_json({str(Target(TargetKind.CUBIN, cc)): modules[cc] for cc in modules})


def read_providers(data: bytes) -> dict[Version, str]:
    """Read what `write_providers` wrote.

    Raises:
        BundleError: it is something else.
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
    """What a provider has, opened; a bundle is one."""

    name: str

    @property
    def index_digest(self) -> str:
        """SHA-256 of the index that it is a part of (hex)."""

    @property
    def package(self) -> PackageInfo:
        """What that index is of."""

    def image(self, digest: str) -> bytes:
        """Return the bytes of an image, by its digest."""

    def packed(self, digest: str) -> int | None:
        """Return the bytes that an image takes there."""


class Parts:
    """The machine code of a bundle in parts, which is looked for when it is asked for.

    Attributes:
        modules: the providers' modules, by compute capability.
        find: gives the part in such a module, to be opened; None if there is none.
    """

    def __init__(
        self,
        modules: Mapping[Version, str],
        package: PackageInfo,
        index_digest: str,
        open_part: Callable[[Source], Part],
    ) -> None:
        """Look for nothing yet.

        Args:
            modules: the providers' modules, by compute capability.
            package: what the bundle is of.
            index_digest: SHA-256 of its index (hex), which the parts have to have.
            open_part: opens what `find` gives.
        """
        self.modules = modules
        self.find: Callable[[str], Source | None] = installed_part
        self._package = package
        self._index_digest = index_digest
        self._open = open_part
        self._opened: dict[Version, Part] = {}

    def missing(self, cc: Version) -> tuple[tuple[Version, str], ...]:
        """Compute capabilities whose machine code a device of capability `cc` might take, and whose
        provider is not installed; each with the command that installs it.

        Raises:
            BundleError: a provider is damaged, or of another build.
        """
        near = [own for own in self.modules if own[0] == cc[0]]
        return tuple((own, self._install(own)) for own in near if self.part(own) is None)

    def image(self, cc: Version, digest: str) -> bytes:
        """The bytes of an image.

        Raises:
            BundleError: its provider is not installed, is damaged, or of another build.
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
        """What the provider of a compute capability has; None if it is not installed.

        Raises:
            BundleError: it is damaged, or of another build.
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
        """Say of what is wrong with a provider how it is installed again."""
        try:
            yield
        except BundleError as exc:
            wheel = f"{self._package.name}-{extra_of(cc)}=={self._package.version}"
            fix = f"pip install --force-reinstall --no-deps '{wheel}'"
            raise BundleError(exc.what, cause=exc.cause, fix=fix) from exc

    def _install(self, cc: Version) -> str:
        return f"pip install '{self._package.name}[{extra_of(cc)}]=={self._package.version}'"


def extra_of(cc: Version) -> str:
    """What wheels call a compute capability: `sm90`."""
    return f"sm{cc[0]}{cc[1]}"


def installed_part(module: str) -> Path | bytes | None:
    """The part of a bundle in a provider's module: a path, or bytes where it has none, as in a zip
    file; None if no such module is installed. It is not imported.
    """
    from importlib.util import find_spec  # packages that are whole go without it

    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(PART_NAME)
    loader = spec.loader
    if not Path(spec.origin).exists() and loader is not None and hasattr(loader, "get_data"):
        with contextlib.suppress(OSError):  # opening the path tells that there is none
            data: bytes = loader.get_data(str(path))
            return data
    return path
