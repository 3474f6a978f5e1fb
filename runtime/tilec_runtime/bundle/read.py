"""Reading a bundle: its directory at once, kernels and images when asked for, all that is used
verified and nothing trusted.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.archive import Member, ReadAt, damaged, read_directory, read_member
from tilec_runtime.bundle.codec import is_digest
from tilec_runtime.bundle.format import INDEX_NAME, Index, image_name, images_of, row_name
from tilec_runtime.bundle.parts import PROVIDERS_NAME, Parts, Source, read_providers
from tilec_runtime.errors import BundleError, CallError
from tilec_runtime.model.arch import TargetKind, Version
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, PackageInfo

_CHUNK = 1 << 20


class Bundle:
    """An open bundle. Kernels and images are read when asked for, from any thread.

    A bundle opened by path keeps its file open for as long as the object lives, so that a file
    replaced meanwhile does no harm.

    Attributes:
        kernels: names of its kernels, in order.
        parts: of a bundle in parts, its machine code.
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
            functools.partial(Bundle.open, whole=False),
        )
        self.kernels = tuple(self._index.rows)

    @classmethod
    def open(cls, source: Path | str | bytes | BinaryIO, *, whole: bool = True) -> Bundle:
        """Open a bundle: directory and index are read and checked, images are not read yet.

        Args:
            source: a file's path, the bytes of a bundle, or a binary file (seekable; it stays the
                caller's to close).
            whole: check the rows of all kernels now; else those of a kernel when it is asked for,
                and all with `info`.

        Raises:
            BundleError: it cannot be read, is damaged, of an unknown version, or no bundle.
            CallError: it is none of these.
        """
        source = Path(source) if isinstance(source, (str, os.PathLike)) else source
        name = str(source) if isinstance(source, Path) else ""
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
                    bundle.info  # noqa: B018 - what it finds is raised here
        except BaseException:
            if close is not None:
                close()
            raise
        if close is not None:
            weakref.finalize(bundle, close)
        return bundle

    @property
    def info(self) -> BundleInfo:
        """The whole index; what is read the first time.

        Raises:
            BundleError: anything in it is damaged, or does not agree with the images that the
                bundle holds.
        """
        if self._info is None:
            with _located(self.name):
                if self.kernels and not any(name.startswith("kernels/") for name in self._members):
                    self._refuse_part()
                info = self._index.info()
                _agree(self._own(images_of(info)), self._members, all_of_them=True)
                rows = {row_name(digest) for digest in self._index.rows.values()}
                for name in self._members:
                    if name.startswith("kernels/") and name not in rows:
                        damaged(f"has a stray kernel row {name[8:20]}")
                self._info = info
        return self._info

    def kernel(self, name: str) -> KernelInfo:
        """One kernel's row of the index; the others are not looked at.

        Raises:
            KeyError: there is no such kernel.
            BundleError: its row is damaged, or does not agree with the images that the bundle
                holds.
        """
        with _located(self.name):
            kernel = self._index.kernel(name)
            images = (image for variant in kernel.variants for image in variant.images)
            _agree(self._own(images), self._members)
            return kernel

    def image(self, digest: str) -> bytes:
        """The bytes of an image.

        Args:
            digest: SHA-256 (hex), as in the index.

        Raises:
            BundleError: the bundle has no such image, or its bytes are damaged.
        """
        cc = self._elsewhere.get(digest)
        if cc is not None:
            return self.parts.image(cc, digest)
        with _located(self.name):
            return self._content("image", image_name(digest), digest)

    def packed(self, digest: str) -> int | None:
        """Bytes that an image takes in the file, or in its part; None if that is not there."""
        cc = self._elsewhere.get(digest)
        if cc is None:
            return self._members[image_name(digest)].packed
        part = self.parts.part(cc)
        return None if part is None else part.packed(digest)

    @property
    def package(self) -> PackageInfo:
        """What the bundle is of."""
        return self._index.package

    def _own(self, images: Iterable[ImageInfo]) -> Iterator[ImageInfo]:
        """Yield the images that this file holds, and note where the others are."""
        for image in images:
            if image.target.kind is TargetKind.CUBIN and image.target.cc in self.parts.modules:
                self._elsewhere[image.digest] = image.target.cc
            else:
                yield image

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
        """Read and check every byte.

        Raises:
            BundleError: something is damaged.
        """
        for image in images_of(self.info):
            self.image(image.digest)

    @property
    def index_digest(self) -> str:
        """SHA-256 of the index (hex), which holds those of all images."""
        return self._index.digest

    def require_index(self, digest: str, *, name: str, fix: str) -> None:
        """Refuse the bundle if it is not the one that its package was built with.

        Args:
            digest: SHA-256 (hex) of the index that the package expects.
            name: the bundle's, for the message.
            fix: how the package is made whole again.

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
        """SHA-256 of the whole file (hex); reads it all the first time."""
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


def _is_name(name: str) -> bool:
    """Whether a bundle may have a member of this name."""
    kind, _, digest = name.partition("/")
    return name in (INDEX_NAME, PROVIDERS_NAME) or (
        kind in ("images", "kernels") and is_digest(digest)
    )


def _read_index(read_at: ReadAt, members: dict[str, Member]) -> bytes:
    """The bytes of `bundle.json`. All of the index is bounded together: it is small beside the
    images.
    """
    member = members.get(INDEX_NAME)
    if member is None:
        damaged(f"has no {INDEX_NAME}")
    size = sum(member.size for name, member in members.items() if not name.startswith("images/"))
    if size > limits.INDEX:
        damaged(f"has an index of {size} bytes, more than {limits.INDEX}")
    return read_member(read_at, member)


def _agree(
    images: Iterable[ImageInfo], members: dict[str, Member], *, all_of_them: bool = False
) -> None:
    """Check that the images which an index names are held in the sizes it says, and no others where
    these are all of its images.
    """
    named = {image.digest: image.size for image in images}
    stored = {
        digest: members[name].size for digest in named if (name := image_name(digest)) in members
    }
    if all_of_them:
        stored = {
            name.removeprefix("images/"): entry.size
            for name, entry in members.items()
            if name.startswith("images/")
        }
    if named != stored:
        for digest in sorted(named.keys() ^ stored.keys()):
            damaged(
                f"has an index that names image {digest[:12]}, which it lacks"
                if digest in named
                else f"has a stray image {digest[:12]}"
            )
        digest = next(d for d in sorted(named) if named[d] != stored[d])
        damaged(
            f"has {stored[digest]} bytes of image {digest[:12]}, its index says {named[digest]}"
        )


def _reader(source: Source) -> tuple[ReadAt, int, Callable[[], None] | None]:
    """How to read a source, its size, and how to close it where that is ours to do."""
    if isinstance(source, Path):
        descriptor = os.open(
            source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        )  # a pipe of that name must not hang us
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
    if not hasattr(source, "seek"):
        raise CallError(
            f"a bundle is a path, bytes or a binary file, got a {type(source).__qualname__}",
            fix="pass the bundle's path",
        )
    lock = threading.Lock()

    def read_at(offset: int, length: int) -> bytes:
        with lock:
            if source.closed:
                raise OSError(errno.EBADF, "its file was closed")
            source.seek(offset)
            return source.read(length)

    with lock:
        size = source.seek(0, os.SEEK_END)
    return read_at, size, None


def _pread(descriptor: int, offset: int, length: int) -> bytes:
    data = os.pread(descriptor, length, offset)
    while 0 < len(data) < length:  # one call gives at most 2 GiB, and a network file system less
        more = os.pread(descriptor, length - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


@contextlib.contextmanager
def _located(name: str) -> Iterator[None]:
    """Put the file's name in front of what is said of the bundle; a failing read is the bundle's
    error too.
    """
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
