"""The index of a bundle: `bundle.json` says what is in it, and a member for each kernel has its
row.

Both are canonical JSON. `bundle.json` has the SHA-256 of each row, and a row those of the images,
so that the digest of `bundle.json` stands for the whole bundle.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.codec import Misfit
from tilec_runtime.bundle.rules import check_expressions, check_index, check_kernel
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
    """Write an index: its members by name, `bundle.json` first. Equal values give equal bytes.

    Raises:
        BundleError: the value breaks a rule that every reader checks.
    """
    with _refused():
        check_index(info)
        check_expressions(info)
    return draft_members(info)


def draft_members(info: BundleInfo) -> dict[str, bytes]:
    """Write an index that may not be whole: without variants, or with dtypes that only compiled
    kernels tell.
    """
    rows = [(kernel.name, canonical_json(KERNEL.write(kernel))) for kernel in info.kernels]
    kernels = ROWS.write([(name, sha256(row)) for name, row in rows])
    top = {"schema_version": SCHEMA_VERSION, "kernels": kernels, **FRAME.write(info)}
    return {INDEX_NAME: canonical_json(top), **{row_name(sha256(row)): row for _, row in rows}}


def index_digest(info: BundleInfo) -> str:
    """Return the SHA-256 of the index (hex), as `Bundle.index_digest` has it of a bundle."""
    return sha256(index_members(info)[INDEX_NAME])


def from_members(members: Mapping[str, bytes]) -> BundleInfo:
    """Read an index from its members by name; everything else as for `Index`."""
    return Index(members[INDEX_NAME], lambda digest: members[row_name(digest)]).info()


class Index:
    """An index that is read: `bundle.json` at once, the row of a kernel when it is asked for.

    Attributes:
        rows: the digest of each kernel's row, by name, in order.
        digest: SHA-256 of `bundle.json` (hex).
    """

    def __init__(self, data: bytes, read_row: Callable[[str], bytes]) -> None:
        """Read `bundle.json`.

        Args:
            data: its bytes, which may come from anywhere.
            read_row: gives the bytes of a row by digest, verified.

        Raises:
            BundleError: it is not JSON, of another schema version, or anything in it is unknown,
                missing, of the wrong type or out of bounds; the message names what and where.
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
        """What the index is of."""
        package: PackageInfo = self._frame["package"]
        return package

    def kernel(self, name: str) -> KernelInfo:
        """Read one kernel's row, with every check that `info` makes of it.

        Raises:
            KeyError: there is no such kernel.
            BundleError: its row does not fit, as for `info`.
        """
        kernel = self._kernel(name)
        with _refused():
            check_kernel(f"kernels.{name}", kernel, {})
        return kernel

    def info(self) -> BundleInfo:
        """Read all rows.

        Raises:
            BundleError: anything in one is unknown, missing, of the wrong type or out of bounds, or
                they contradict each other; the message names what and where.
        """
        info = BundleInfo(**self._frame, kernels=tuple(map(self._kernel, self.rows)))
        with _refused():
            check_index(info)
        return info

    def _kernel(self, name: str) -> KernelInfo:
        here = f"kernels.{name}"
        plain = _parsed(here, self._read_row(self.rows[name]))
        with _refused(here):
            kernel: KernelInfo = KERNEL.read(plain)
        if kernel.name != name:
            _refuse(f"{here}.name", f"must be {name!r}, is {kernel.name!r}")
        return kernel


def images_of(info: BundleInfo) -> Iterator[ImageInfo]:
    """Every image row of an index, in its order; rows that share bytes share a digest."""
    for kernel in info.kernels:
        for variant in kernel.variants:
            yield from variant.images


def _parsed(here: str, data: bytes) -> Any:
    """Parse canonical JSON. Of other JSON two readers could see different values, in a repeated key
    for one.
    """
    values = sum(map(data.count, (b",", b"[", b"{")))  # before they take memory
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
    """Turn a Misfit into the error that users see; `here` is the place in which it was met."""
    try:
        yield
    except Misfit as misfit:
        misfit.path.append(here)
        _refuse(misfit.where, misfit.what)


def _refuse(where: str, what: str) -> NoReturn:
    raise BundleError(
        f"{INDEX_NAME}: {where}: {what}" if where else f"{INDEX_NAME} {what}",
        cause=_DAMAGED,
        fix=_FETCH,
    )
