"""Opening of the bundle in a file, a generated package's directory, or a wheel."""

from __future__ import annotations

import dataclasses
import functools
import lzma
import re
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO

from tilec.inspection.report import Report
from tilec_runtime.bundle import limits
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError

SUFFIX = ".tilec"
MAX_MEMBER = 4 << 30
_CHUNK = 1 << 20
# Exceptions of reading a damaged zip file, besides OSError.
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)
# Line of a generated package with the digest of its bundle's index.
_PIN = re.compile(rb'^    "([0-9a-f]{64})",$', re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """A bundle and its place; `kind` is `bundle`, `package` or `wheel`."""

    path: str
    kind: str
    size: int
    bundle: Bundle


def open_container(path: Path) -> Container:
    """Open the bundle in a file or directory.

    Args:
        path: path of a bundle, of a wheel, of a generated package's directory, or of an output
            directory with one bundle.

    Raises:
        BundleError: the path does not exist, contains no bundle or several, or the bundle is
            damaged.
    """
    if path.is_dir():
        return _from_directory(path)
    if not path.exists():
        fix = "name a .tilec bundle, a generated package (its directory, or its name where it is installed), or a wheel"
        raise BundleError(f"{path}: no such file or directory", fix=fix)
    if path.suffix == ".whl" and path.is_file():
        return _from_wheel(path)
    return _from_file(path, "bundle", path)


def describe(container: Container) -> Report:
    """Return the report of an open container.

    This reads the whole bundle once for its digest.
    """
    return Report(
        path=container.path,
        kind=container.kind,
        size=container.size,
        digest=container.bundle.digest,
        info=container.bundle.info,
    )


def _from_file(path: Path, kind: str, bundle: Path) -> Container:
    opened = Bundle.open(bundle)
    return Container(path=str(path), kind=kind, size=bundle.stat().st_size, bundle=opened)


def _from_directory(path: Path) -> Container:
    bundles = sorted(
        entry
        for entry in path.iterdir()
        if entry.name.endswith(SUFFIX) and entry.name != SUFFIX and entry.is_file()
    )
    module = path / "__init__.py"
    text = module.read_bytes() if module.is_file() else b""
    if len(bundles) > 1:
        # A killed build leaves the bundle of the new package beside the bundle of the old one.
        bundles = [entry for entry in bundles if entry.name.encode() in text] or bundles
    if len(bundles) == 1:
        opened = _from_file(path, "package" if module.is_file() else "bundle", bundles[0])
        pinned = _PIN.search(text)
        if pinned is not None:
            opened.bundle.require_index(
                pinned[1].decode(),
                name=str(bundles[0]),
                fix="install the package again, or build it again with `tilec build`",
            )
        return opened
    if bundles:
        names = ", ".join(entry.name for entry in bundles)
        raise BundleError(
            f"{path} holds {len(bundles)} bundles: {names}",
            fix=f"name one of them, such as {bundles[0]}",
        )
    raise BundleError(
        f"{path} holds no {SUFFIX} bundle",
        cause="the directory is no generated package",
        fix="build one with `tilec build`, or name the package",
    )


def _from_wheel(path: Path) -> Container:
    # A temporary file, because a bundle may be larger than memory. The open bundle keeps it.
    with tempfile.NamedTemporaryFile() as file:
        size = _copy(path, file)
        file.flush()
        bundle = Bundle.open(Path(file.name), name=str(path))
    bundle.parts.find = functools.partial(_part_beside, path)
    return Container(path=str(path), kind="wheel", size=size, bundle=bundle)


def _part_beside(wheel: Path, module: str) -> bytes | None:
    """Return the part in a provider's wheel beside the package's wheel, or None."""
    name, _, rest = wheel.name.partition("-")
    beside = wheel.with_name(f"{name}_{module.rpartition('_')[2]}-{rest}")
    if not beside.is_file():
        return None
    with tempfile.TemporaryFile() as file:
        _copy(beside, file)
        file.seek(0)
        return file.read()


def _copy(path: Path, file: IO[bytes]) -> int:
    """Copy the only bundle of a wheel into a file and return its size.

    Raises:
        BundleError: the wheel is damaged, or contains no bundle or several.
    """
    try:
        return _extract(path, file)
    except (*UNREADABLE, OSError) as exc:
        raise BundleError(
            f"{path} is damaged or no wheel: {exc}", fix="fetch or build it again"
        ) from exc


def _extract(path: Path, file: IO[bytes]) -> int:
    with zipfile.ZipFile(path) as wheel:
        bundles = [member for member in wheel.infolist() if member.filename.endswith(SUFFIX)]
        if len(bundles) != 1:
            count = f"{len(bundles)} bundles" if bundles else "no bundle"
            raise BundleError(
                f"{path} holds {count}",
                cause="`tilec build --emit wheel` did not write this wheel",
            )
        size, packed = bundles[0].file_size, bundles[0].compress_size
        if size > min(MAX_MEMBER, packed * limits.RATIO):
            raise BundleError(
                f"{path}: its bundle claims {size} bytes in {packed}",
                cause="the wheel is damaged or hostile",
            )
        with wheel.open(bundles[0]) as member:
            shutil.copyfileobj(member, file, _CHUNK)
    return size
