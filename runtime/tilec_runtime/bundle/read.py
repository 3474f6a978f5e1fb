"""The reader of bundles: the directory at once, kernels and images on first use.

The reader trusts nothing, and verifies everything that it returns.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.archive import Member, ReadAt, damaged, read_directory, read_member
from tilec_runtime.bundle.codec import is_digest
from tilec_runtime.bundle.format import INDEX_NAME, Index, image_name, images_of, row_name
from tilec_runtime.bundle.parts import (
    PROVIDERS_NAME,
    extra_of,
    installed_part,
    read_providers,
)
from tilec_runtime.errors import BundleError, CallError
from tilec_runtime.model.arch import TargetKind, Version, dotted
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, PackageInfo

# A file's path, or the bytes of a bundle.
Source = Path | bytes
_CHUNK = 1 << 20


class Bundle:
    """An open bundle, which reads kernels and images on first use.

    Any thread may use it.

    A bundle opened by path keeps its file open as long as the object lives. Replacing the file
    during that time has no effect on it.

    Attributes:
        kernels: names of its kernels, in order.
        parts: providers of machine code, if the bundle is split.
    """

    def __init__(self, read_at: ReadAt, size: int, members: dict[str, Member], name: str) -> None:
        """Use `Bundle.open`."""
        self.name = name
        self._elsewhere: dict[str, Version] = {}
        self._info: BundleInfo | None = None
        self._read_at = read_at
        self._size = size
        self._members = members
        self._digest = ""
        self._index = Index(_read_index(read_at, members), self._row)
        providers = members.get(PROVIDERS_NAME)
        self.parts = Parts(
            read_providers(read_member(read_at, providers)) if providers else {},
            self._index.package,
            self._index.digest,
        )
        self.kernels = tuple(self._index.rows)

    @classmethod
    def open(cls, source: Path | str | bytes, *, whole: bool = True, name: str = "") -> Bundle:
        """Open a bundle; read and check its directory and index, but no images.

        Args:
            source: a file's path, or the bytes of a bundle.
            whole: check the rows of all kernels now. Otherwise `kernel` checks one row, and
                `info` checks all rows.
            name: name in messages; the file's path by default.

        Raises:
            BundleError: the source cannot be read, is damaged, has an unknown version, or is not a
                bundle.
            CallError: the source is neither a path nor bytes.
        """
        source = Path(source) if isinstance(source, (str, os.PathLike)) else source
        name = name or (str(source) if isinstance(source, Path) else "")
        try:
            read_at, size, close = _reader(source)
        except OSError as exc:
            raise BundleError(
                f"cannot read the bundle{f' {name}' if name else ''}: {exc.strerror or exc}",
                cause="the file is missing or may not be read",
                fix="check the path, or build it with `tilec build`",
            ) from exc
        try:
            with _located(name):
                members = read_directory(read_at, size, _is_name)
                bundle = cls(read_at, size, members, name)
                if whole:
                    bundle.info  # noqa: B018 - for the errors that it raises
        except BaseException:
            if close is not None:
                close()
            raise
        if close is not None:
            weakref.finalize(bundle, close)
        return bundle

    @property
    def info(self) -> BundleInfo:
        """The whole index, read on first use.

        Raises:
            BundleError: the index is damaged, or contradicts the images in the bundle.
        """
        if self._info is None:
            with _located(self.name):
                if self.kernels and not any(name.startswith("kernels/") for name in self._members):
                    self._refuse_part()
                info = self._index.info()
                images = list(self._own(images_of(info)))
                self._require(images)
                known = {INDEX_NAME, PROVIDERS_NAME, *map(row_name, self._index.rows.values())}
                known.update(image_name(image.digest) for image in images)
                for name in sorted(self._members.keys() - known):
                    damaged(f"has a stray member {name}")
                self._info = info
        return self._info

    def kernel(self, name: str) -> KernelInfo:
        """Read one kernel's row of the index, and no other row.

        Raises:
            KeyError: the bundle has no such kernel.
            BundleError: the row is damaged, or contradicts the images in the bundle.
        """
        with _located(self.name):
            kernel = self._index.kernel(name)
            images = (image for variant in kernel.variants for image in variant.images)
            self._require(self._own(images))
            return kernel

    def image(self, digest: str) -> bytes:
        """Return the verified bytes of an image.

        Args:
            digest: SHA-256 (hex) of the image, as in the index.

        Raises:
            BundleError: the bundle has no such image, or its bytes are damaged.
        """
        cc = self._elsewhere.get(digest)
        if cc is not None:
            return self.parts.image(cc, digest)
        with _located(self.name):
            return self._content("image", image_name(digest), digest)

    def packed(self, digest: str) -> int | None:
        """Return the packed size of an image in bytes, or None without its part."""
        cc = self._elsewhere.get(digest)
        if cc is None:
            return self._members[image_name(digest)].packed
        part = self.parts.part(cc)
        return None if part is None else part.packed(digest)

    @property
    def package(self) -> PackageInfo:
        """The package that the bundle belongs to."""
        return self._index.package

    def _own(self, images: Iterable[ImageInfo]) -> Iterator[ImageInfo]:
        """Yield the images in this file, and record the compute capability of the others."""
        for image in images:
            if image.target.kind is TargetKind.CUBIN and image.target.cc in self.parts.modules:
                self._elsewhere[image.digest] = image.target.cc
            else:
                yield image

    def _require(self, images: Iterable[ImageInfo]) -> None:
        """Check that the members have these images of the index, in the declared sizes."""
        for image in images:
            short, member = image.digest[:12], self._members.get(image_name(image.digest))
            if member is None:
                damaged(f"has an index that names image {short}, which it lacks")
            if member.size != image.size:
                damaged(f"has {member.size} bytes of image {short}, its index says {image.size}")

    def _refuse_part(self) -> NoReturn:
        package = self.package
        raise BundleError(
            f"the file holds machine code of {package.name} {package.version} alone, a part of its bundle",
            fix=f"name the package or its wheel, {package.name} {package.version}",
        )

    def _row(self, digest: str) -> bytes:
        return self._content("kernel row", row_name(digest), digest)

    def _content(self, noun: str, name: str, digest: str) -> bytes:
        member = self._members.get(name)
        if member is None:
            damaged(f"has no {noun} {digest[:12]}")
        data = read_member(self._read_at, member)
        if sha256(data) != digest:
            damaged(f"has other bytes under {noun} {digest[:12]}")
        return data

    def verify(self) -> None:
        """Read and verify every image and row.

        Raises:
            BundleError: the index or an image is damaged.
        """
        for image in images_of(self.info):
            self.image(image.digest)

    @property
    def index_digest(self) -> str:
        """SHA-256 (hex) of `bundle.json`, which covers all rows and images."""
        return self._index.digest

    def require_index(self, digest: str, *, name: str, fix: str) -> None:
        """Refuse the bundle if its package was built with another one.

        Args:
            digest: SHA-256 (hex) of the index that the package expects.
            name: name of the bundle, for the message.
            fix: the step that repairs the package.

        Raises:
            BundleError: the index has another digest.
        """
        if self.index_digest != digest:
            raise BundleError(
                f"{name}: the bundle is not the one that its package was built with: its index has "
                f"SHA-256 {self.index_digest}, the package expects {digest}",
                cause="the package holds files of two builds, or its bundle was exchanged",
                fix=fix,
            )

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the whole file, which the first access reads completely."""
        if not self._digest:
            sha = hashlib.sha256()
            with _located(self.name):
                for offset in range(0, self._size, _CHUNK):
                    piece = self._read_at(offset, min(_CHUNK, self._size - offset))
                    if len(piece) != min(_CHUNK, self._size - offset):
                        damaged("changed while it was open: it is cut short")
                    sha.update(piece)
            self._digest = sha.hexdigest()
        return self._digest


class Parts:
    """The providers of a split bundle, opened on first use.

    Attributes:
        modules: provider modules by compute capability.
        find: returns the part in a module, to be opened, or None if it is not installed.
    """

    def __init__(
        self, modules: Mapping[Version, str], package: PackageInfo, index_digest: str
    ) -> None:
        """Record the providers; open none.

        Args:
            modules: provider modules by compute capability.
            package: the package of the bundle.
            index_digest: SHA-256 (hex) of its index, which the parts must share.
        """
        self.modules = modules
        self.find: Callable[[str], Source | None] = installed_part
        self._package = package
        self._index_digest = index_digest
        self._opened: dict[Version, Bundle] = {}

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

    def part(self, cc: Version) -> Bundle | None:
        """Return the part of a compute capability, or None without its provider.

        Raises:
            BundleError: the part is damaged or of another build.
        """
        if cc not in self._opened:
            source = self.find(self.modules[cc])
            if source is None:
                return None
            with self._of(cc):
                part = Bundle.open(source, whole=False)
                if part.index_digest != self._index_digest:
                    self._refuse(cc, part)
            self._opened[cc] = part
        return self._opened[cc]

    def _refuse(self, cc: Version, part: Bundle) -> NoReturn:
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


def _is_name(name: str) -> bool:
    """Whether a bundle may have a member of this name."""
    kind, _, digest = name.partition("/")
    return name in (INDEX_NAME, PROVIDERS_NAME) or (
        kind in ("images", "kernels") and is_digest(digest)
    )


def _read_index(read_at: ReadAt, members: dict[str, Member]) -> bytes:
    """Return the bytes of `bundle.json` after checking the size of the whole index."""
    member = members.get(INDEX_NAME)
    if member is None:
        damaged(f"has no {INDEX_NAME}")
    size = sum(member.size for name, member in members.items() if not name.startswith("images/"))
    if size > limits.INDEX:
        damaged(f"has an index of {size} bytes, more than {limits.INDEX}")
    return read_member(read_at, member)


def _reader(source: Source) -> tuple[ReadAt, int, Callable[[], None] | None]:
    """Return the read function of a source, its size, and its close function.

    The close function is None if nothing was opened here.
    """
    if isinstance(source, Path):
        descriptor = os.open(
            source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        )  # O_NONBLOCK: opening a pipe of that name must not block
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a regular file")
        return (
            lambda offset, length: _pread(descriptor, offset, length),
            status.st_size,
            lambda: os.close(descriptor),
        )
    if isinstance(source, bytes):
        return lambda offset, length: source[offset : offset + length], len(source), None
    raise CallError(
        f"a bundle is a path or bytes, got a {type(source).__qualname__}",
        fix="pass the bundle's path",
    )


def _pread(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    while 0 < len(data) < length:  # one call reads at most 2 GiB, less on network file systems
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


@contextlib.contextmanager
def _located(name: str) -> Iterator[None]:
    """Prefix errors with the file's name, and turn an OSError into a BundleError."""
    try:
        yield
    except BundleError as exc:
        if name and not exc.what.startswith(name):
            raise BundleError(f"{name}: {exc.what}", cause=exc.cause, fix=exc.fix) from exc
        raise
    except OSError as exc:
        raise BundleError(
            f"{name or 'the bundle'}: cannot be read: {exc.strerror or exc}",
            fix="check the disk, or fetch the bundle again",
        ) from exc
