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
    """This Python, as a tool of a compile."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return ToolInfo(
        name="python", version=version, digest=sha256(str(sys.implementation.cache_tag).encode())
    )


def package(
    name: str, part: str, *, whose: str = "tile", fix: str = FIX, verify: bool = False
) -> ToolInfo:
    """Return version and digest of an installed package, by the metadata that it was installed with.

    The digest is of the files beside `part` in the package's file list, as it brought them. What an
    installer adds (scripts, compiled modules) differs from one environment to the next, and no two
    environments would share a cache.

    Args:
        name: of the distribution.
        part: a file of it, without which it is half installed.
        whose: kernels that need it, for messages.
        fix: how to install it.
        verify: hash the files themselves.

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
    """Refuse a version of a package, parts of which change between minor versions, that tilec was
    not written against.

    Raises:
        ToolchainError: it is one.
    """
    if tuple(version.split(".")[:2]) != tuple(map(str, tested)):
        raise ToolchainError(
            f"{name} is of version {version}, and tilec compiles with {dotted(tested)}",
            cause=f"tilec uses parts of {name}'s compiler that change from one version to the next",
            fix=fix,
        )
