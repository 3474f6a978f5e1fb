"""The index of a bundle: `bundle.json`, and one member per kernel with its row.

All are canonical JSON. `bundle.json` holds the SHA-256 of each row, and a row holds those of its
images. The digest of `bundle.json` therefore identifies the whole bundle.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.codec import Misfit
from tilec_runtime.bundle.rules import check_index, check_kernel
from tilec_runtime.bundle.schema import FRAME, KERNEL, ROWS
from tilec_runtime.errors import BundleError
from tilec_runtime.model.digest import canonical_json, sha256
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, PackageInfo

SCHEMA_VERSION = 1
INDEX_NAME = "bundle.json"

_DAMAGED = "the bundle is damaged, or was not written by tilec"
_FETCH = "fetch the bundle again, or rebuild it with `tilec build`"


def row_name(digest: str) -> str:
    """Return the name of the member that holds a kernel's row."""
    return f"kernels/{digest}"


def image_name(digest: str) -> str:
    """Return the name of the member that holds an image."""
    return f"images/{digest}"


def index_members(info: BundleInfo) -> dict[str, bytes]:
    """Return the members of an index by name, `bundle.json` first.

    Equal values give equal bytes. `from_members` checks them; an index without images, and with
    dtypes that are known only after compilation, gives members too.
    """
    rows = [(kernel.name, canonical_json(KERNEL.write(kernel))) for kernel in info.kernels]
    kernels = ROWS.write([(name, sha256(row)) for name, row in rows])
    top = {"schema_version": SCHEMA_VERSION, "kernels": kernels, **FRAME.write(info)}
    return {INDEX_NAME: canonical_json(top), **{row_name(sha256(row)): row for _, row in rows}}


def index_digest(info: BundleInfo) -> str:
    """Return the SHA-256 (hex) of the index, equal to `Bundle.index_digest`."""
    return sha256(index_members(info)[INDEX_NAME])


def from_members(members: Mapping[str, bytes]) -> BundleInfo:
    """Read an index from its members by name; raises the errors of `Index`."""
    return Index(members[INDEX_NAME], lambda digest: members[row_name(digest)]).info()


class Index:
    """A lazily read index: `bundle.json` at once, the row of a kernel on first use.

    Attributes:
        rows: digest of each kernel's row by kernel name, in order.
        digest: SHA-256 of `bundle.json` (hex).
    """

    def __init__(self, data: bytes, read_row: Callable[[str], bytes]) -> None:
        """Read `bundle.json`.

        Args:
            data: the bytes of `bundle.json`, which are not trusted.
            read_row: returns the verified bytes of a row by digest.

        Raises:
            BundleError: the bytes are not JSON or have another schema version, or a field is
                unknown, missing, of the wrong type or out of bounds; the message gives its path.
        """
        plain = _parsed("", data)
        if type(plain) is not dict:
            _refuse("", "must be an object")
        version, kernels = plain.pop("schema_version", None), plain.pop("kernels", None)
        if type(version) is not int or version != SCHEMA_VERSION:
            newer = type(version) is int and version > SCHEMA_VERSION
            raise BundleError(
                f"{INDEX_NAME} has schema version {version!r}; this tilec reads version {SCHEMA_VERSION}",
                cause="the bundle was written by a newer tilec" if newer else _DAMAGED,
                fix="update tilec" if newer else _FETCH,
            )
        with _refused():
            self._frame = FRAME.read(plain)
        with _refused("kernels"):
            rows = ROWS.read(kernels)
        self.rows: dict[str, str] = dict(rows)
        if len(self.rows) != len(rows):
            _refuse("kernels", "a name appears twice")
        self.digest = sha256(data)
        self._read_row = read_row

    @property
    def package(self) -> PackageInfo:
        """Name, version and module of the package."""
        package: PackageInfo = self._frame["package"]
        return package

    def kernel(self, name: str) -> KernelInfo:
        """Read and check one kernel's row.

        Raises:
            KeyError: the index has no such kernel.
            BundleError: the row violates the schema, as for `info`.
        """
        here = f"kernels.{name}"
        plain = _parsed(here, self._read_row(self.rows[name]))
        with _refused(here):
            kernel: KernelInfo = KERNEL.read(plain)
        if kernel.name != name:
            _refuse(f"{here}.name", f"must be {name!r}, is {kernel.name!r}")
        with _refused():
            check_kernel(kernel)
        return kernel

    def info(self) -> BundleInfo:
        """Read all rows.

        Raises:
            BundleError: a field is unknown, missing, of the wrong type or out of bounds, or rows
                contradict each other; the message gives its path.
        """
        info = BundleInfo(**self._frame, kernels=tuple(map(self.kernel, self.rows)))
        with _refused():
            check_index(info)
        return info


def images_of(info: BundleInfo) -> Iterator[ImageInfo]:
    """Yield every image of an index in order; images with equal bytes share a digest."""
    for kernel in info.kernels:
        for variant in kernel.variants:
            yield from variant.images


def _parsed(here: str, data: bytes) -> Any:
    """Parse canonical JSON, and refuse any other JSON.

    Two readers could read other JSON differently, for example a repeated key.
    """
    values = sum(map(data.count, (b",", b"[", b"{")))  # counted before parsing allocates memory
    if len(data) > limits.INDEX or values > limits.INDEX_VALUES:
        _refuse(
            here,
            f"has {len(data)} bytes and {values} values, more than {limits.INDEX} or {limits.INDEX_VALUES}",
        )
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError) as exc:
        _refuse(here, f"is not JSON: {exc}")
    try:
        canonical = canonical_json(plain) == data
    except (ValueError, RecursionError):
        canonical = False
    if not canonical:
        _refuse(here, "is not canonical JSON (a repeated key, other spacing or order)")
    return plain


@contextlib.contextmanager
def _refused(here: str = "") -> Iterator[None]:
    """Turn a Misfit into a BundleError; `here` is the path of the value being read."""
    try:
        yield
    except Misfit as misfit:
        misfit.path.append(here)
        _refuse(misfit.where, misfit.what)


def _refuse(where: str, fault: str) -> NoReturn:
    raise BundleError(
        f"{INDEX_NAME}: {where}: {fault}" if where else f"{INDEX_NAME} {fault}",
        cause=_DAMAGED,
        fix=_FETCH,
    )
