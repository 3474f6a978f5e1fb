"""Deterministic py3-none-any wheel: the files, metadata and licences of a package."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.version import Version

from tilec.model.atomic import Stage, atomic_write
from tilec.package.archive import ArchiveWriter
from tilec.package.documents import SBOM
from tilec.package.write import mib
from tilec_runtime.errors import OutputError
from tilec_runtime.model.kernel import PackageInfo

_REQUIRES_PYTHON = ">=3.10"


def write_wheel(
    directory: Path,
    *,
    package: PackageInfo,
    files: Mapping[str, bytes | Path],
    license_files: Mapping[str, bytes] | None = None,
    requires: tuple[str, ...] = (),
    extras: Mapping[str, tuple[str, ...]] | None = None,
    sbom: bytes = b"",
    max_size: int = 0,
    stage: Stage | None = None,
) -> Path:
    """Write `NAME-VERSION-py3-none-any.whl`; equal arguments give equal bytes.

    Args:
        directory: directory of the wheel.
        package: name, version, description and licence for the metadata.
        files: installed files, by path in site-packages. A Path is read when it is added, and its
            bytes are stored without deflating.
        license_files: licence texts, by name.
        requires: requirements, such as `tilec-runtime>=0.1,<0.2`.
        extras: additional requirements, by extra.
        sbom: SBOM of the files for `.dist-info/sboms/` (PEP 770), or empty for none.
        max_size: maximum size of the wheel in bytes, or 0 for no limit.
        stage: stage that renames the wheel into place later, with other files.

    Returns:
        Path of the wheel.

    Raises:
        OutputError: the wheel cannot be written, or exceeds `max_size`.
    """
    path = directory / wheel_name(package)
    info = dist_info(package)
    members: dict[str, bytes | Path] = {file: files[file] for file in sorted(files)}
    members.update(metadata_files(package, license_files or {}, requires, extras or {}))
    if sbom:
        members[f"{info}/sboms/{normalise_name(package.name)}{SBOM}"] = sbom
    with atomic_write(path, stage=stage) as file:
        size = _write_members(path, file, members, f"{info}/RECORD")
        if max_size and size > max_size:
            raise OutputError(
                f"{path.name} would have {mib(size)}, more than [output.wheel] max-size = {mib(max_size)}",
                fix='build fewer variants or targets, split the wheel by `split = "arch"`, or raise the bound; '
                "`tilec inspect --sizes` shows what is in a package",
            )
    return path


def metadata_files(
    package: PackageInfo,
    license_files: Mapping[str, bytes],
    requires: tuple[str, ...],
    extras: Mapping[str, tuple[str, ...]],
) -> dict[str, bytes]:
    """Return the files of a wheel's `.dist-info` folder except RECORD, by path."""
    info, licences = dist_info(package), sorted(license_files)
    return {
        **{f"{info}/licenses/{file}": license_files[file] for file in licences},
        f"{info}/METADATA": _metadata(package, licences, requires, extras),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tilec\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }


def wheel_name(package: PackageInfo) -> str:
    """Return the file name of a package's wheel."""
    return f"{release_name(package)}-py3-none-any.whl"


def dist_info(package: PackageInfo) -> str:
    """Return the name of the folder of a wheel's metadata."""
    return f"{release_name(package)}.dist-info"


def release_name(package: PackageInfo) -> str:
    """Format the name and version for file names as `acme_kernels-1.0`."""
    return f"{normalise_name(package.name)}-{normalise_version(package.version)}"


def normalise_name(name: str) -> str:
    """Format a distribution's name for files: `Acme.Kernels-2` as `acme_kernels_2`."""
    return re.sub(r"[-_.]+", "_", name).lower()


def license_expression(package: PackageInfo) -> str:
    """Return the licence as an SPDX expression, or an empty string if it is not one."""
    try:
        return canonicalize_license_expression(package.license) if package.license else ""
    except InvalidLicenseExpression:
        return ""


def pinned(package: PackageInfo) -> str:
    """Return the requirement for exactly this version of a package."""
    return f"{package.name}=={normalise_version(package.version)}"


def normalise_version(version: str) -> str:
    """Return the normal form of a version by PEP 440: `1.0-Alpha.1` becomes `1.0a1`."""
    return str(Version(version))


def _metadata(
    package: PackageInfo,
    licences: list[str],
    requires: tuple[str, ...],
    extras: Mapping[str, tuple[str, ...]],
) -> bytes:
    version = normalise_version(package.version)
    lines = ["Metadata-Version: 2.4", f"Name: {package.name}", f"Version: {version}"]
    paragraphs = package.description.strip().splitlines()
    if paragraphs:
        lines.append(f"Summary: {paragraphs[0].strip()}")
    if expression := license_expression(package):
        lines.append(f"License-Expression: {expression}")
    elif package.license:
        lines.append(f"License: {' '.join(package.license.split())}")
    lines += [f"License-File: {file}" for file in licences]
    lines.append(f"Requires-Python: {_REQUIRES_PYTHON}")
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    for extra, more in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {requirement}; extra == "{extra}"' for requirement in more]
    if len(paragraphs) > 1:
        lines += ["Description-Content-Type: text/plain; charset=UTF-8", "", *paragraphs]
    return ("\n".join(lines) + "\n").encode()


def _write_members(
    path: Path, file: BinaryIO, members: Mapping[str, bytes | Path], record: str
) -> int:
    """Write the members and their RECORD; return the size of the wheel."""
    archive = ArchiveWriter(file, path)
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    for name, source in members.items():
        data = source if isinstance(source, bytes) else source.read_bytes()
        archive.add(name, data, deflate=isinstance(source, bytes))
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow((name, f"sha256={digest}", len(data)))
    rows.writerow((record, "", ""))
    archive.add(record, table.getvalue().encode())
    archive.close()
    return archive.size
