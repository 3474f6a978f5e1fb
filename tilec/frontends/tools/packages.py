"""Versions and digests of installed packages that take part in a compile."""

from __future__ import annotations

import sys
from collections.abc import Iterable
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


def files_digest(record: str, part: str, site: Path | None = None) -> str:
    """Digest of the files beside `part` in an installed package's file list, or, in `site`, of the
    files themselves.

    Only what the package itself brought counts. Scripts hold the environment's path, and what an
    installer adds (compiled modules, its own notes) differs from one environment to the next: with
    these in it, no two environments would share a cache.
    """
    folder = part.rpartition("/")[0] + "/"
    rows: Iterable[str] = (
        row for row in record.splitlines() if row.startswith(folder) and ",sha256=" in row
    )
    if site is not None:
        rows = actual_rows(site, rows)
    return sha256("\n".join(sorted(rows)).encode())


def package(
    name: str, stem: str, part: str, *, whose: str = "tile", fix: str = FIX, verify: bool = False
) -> ToolInfo:
    """Version and digest of an installed package, from its metadata; with `verify` its files are
    hashed.

    Raises:
        ToolchainError: it is missing or half installed; says that `whose` kernels cannot be
            compiled.
    """
    for entry in sys.path:
        folder = Path(entry)
        try:
            found = sorted(folder.glob(f"{stem}-*.dist-info"))
        except OSError:
            continue
        for info in found:
            if not (folder / part).is_file():
                raise ToolchainError(
                    f"{name} is half installed: {folder / part} is missing", fix=fix
                )
            try:
                digest = files_digest(
                    (info / "RECORD").read_text(encoding="utf-8"), part, folder if verify else None
                )
            except (OSError, UnicodeDecodeError) as exc:
                raise ToolchainError(
                    f"{name} is half installed: its file list cannot be read ({exc})", fix=fix
                ) from exc
            return ToolInfo(
                name=name, version=info.name[len(stem) + 1 : -len(".dist-info")], digest=digest
            )
    raise ToolchainError(f"{name} is not installed: {whose} kernels cannot be compiled", fix=fix)


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
