"""Versions and digests of installed packages that take part in a compile."""

from __future__ import annotations

import sys
from pathlib import Path

from tilec.frontends.tools.digests import actual_rows
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.arch import Version, dotted
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.kernel import ToolInfo

FIX = "pip install 'tilec[build]'"


def interpreter() -> ToolInfo:
    """Return this Python as a tool of a compile."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return ToolInfo(
        name="python", version=version, digest=sha256(str(sys.implementation.cache_tag).encode())
    )


def package(
    name: str, part: str, *, whose: str = "tile", fix: str = FIX, verify: bool = False
) -> ToolInfo:
    """Return version and digest of an installed package, from its metadata.

    The digest covers rows of the package's file list: those of files with a digest in the directory
    of `part`. Files that an installer adds (scripts, compiled modules) differ between environments;
    with them, no two environments would share a cache.

    Args:
        name: name of the distribution.
        part: one of its files, which must exist.
        whose: language of the kernels that need it, for messages.
        fix: how to install it, for messages.
        verify: hash the installed files instead of reading the file list.

    Raises:
        ToolchainError: it is missing or half installed.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # builds alone need it

    try:
        installed = distribution(name)
    except PackageNotFoundError as exc:
        message = f"{name} is not installed: {whose} kernels cannot be compiled"
        raise ToolchainError(message, fix=fix) from exc
    site, folder = Path(str(installed.locate_file(""))), part.rpartition("/")[0] + "/"
    if not (site / part).is_file():
        raise ToolchainError(f"{name} is half installed: {site / part} is missing", fix=fix)
    listed = (installed.read_text("RECORD") or "").splitlines()
    rows = [row for row in listed if row.startswith(folder) and ",sha256=" in row]
    try:
        rows = actual_rows(site, rows) if verify else rows
    except OSError as exc:
        raise ToolchainError(f"{name} is half installed: {exc}", fix=fix) from exc
    return ToolInfo(
        name=name, version=installed.version, digest=sha256("\n".join(sorted(rows)).encode())
    )


def require_minor(name: str, version: str, tested: Version, fix: str) -> None:
    """Refuse a package whose minor version differs from the one tilec was tested with.

    tilec uses parts of such a package that change between minor versions.

    Raises:
        ToolchainError: the version differs.
    """
    if tuple(version.split(".")[:2]) != tuple(map(str, tested)):
        raise ToolchainError(
            f"{name} is of version {version}, and tilec compiles with {dotted(tested)}",
            cause=f"tilec uses parts of {name}'s compiler that change from one version to the next",
            fix=fix,
        )
