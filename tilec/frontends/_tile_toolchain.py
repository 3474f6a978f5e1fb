"""What takes part in compiling a tile kernel, with versions and digests; cuda.tile is not imported for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tilec.frontends._digests import actual_rows
from tilec.frontends._tools import Tool, require
from tilec.frontends.base import ToolSearch
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.arch import Version
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.kernel import ToolInfo

# tileiras loads libnvvm and starts ptxas, both from its own toolkit.
TOOLS = ("tileiras", "ptxas", "libnvvm")
OLDEST: Version = (13, 2)
PACKAGE_FIX = "pip install 'tilec[build]'"


def toolchain(search: ToolSearch) -> tuple[ToolInfo, ...]:
    """Every tool of a tile compile.

    Python is one of them: it executes the module that a kernel stands in, and parses its source.

    Raises:
        ToolchainError: something is missing, too old or half installed.
    """
    found = package("cuda-tile", "cuda_tile", "cuda/tile/__init__.py", verify=search.verify)
    return (found, interpreter(), *(ToolInfo(name=t.name, version=t.version, digest=t.digest) for t in find(search).values()))


def find(search: ToolSearch, *, digest: bool = True) -> dict[str, Tool]:
    """tileiras and what it uses, as one set.

    Raises:
        ToolchainError: something is missing, too old or half installed.
    """
    tools = require(TOOLS, search, digest=digest)
    assembler = tools["tileiras"]
    if assembler.release != (0, 0) and assembler.release < OLDEST:
        raise ToolchainError(
            f"tileiras is of version {assembler.version}, and tile kernels need {OLDEST[0]}.{OLDEST[1]} or newer ({assembler.path})",
            fix=PACKAGE_FIX,
        )
    return tools


def interpreter() -> ToolInfo:
    """This Python, as a tool of a compile."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return ToolInfo(name="python", version=version, digest=sha256(str(sys.implementation.cache_tag).encode()))


def files_digest(record: str, part: str, site: Path | None = None) -> str:
    """Digest of the files beside `part` in an installed package's file list, or, in `site`, of the files themselves.

    Only what the package itself brought counts. Scripts hold the environment's path, and what an installer adds (compiled modules, its
    own notes) differs from one environment to the next: with these in it, no two environments would share a cache.
    """
    folder = part.rpartition("/")[0] + "/"
    rows: Iterable[str] = (row for row in record.splitlines() if row.startswith(folder) and ",sha256=" in row)
    if site is not None:
        rows = actual_rows(site, rows)
    return sha256("\n".join(sorted(rows)).encode())


def package(name: str, stem: str, part: str, *, whose: str = "tile", fix: str = PACKAGE_FIX, verify: bool = False) -> ToolInfo:
    """Version and digest of an installed package, from its metadata; with `verify` its files are hashed.

    Raises:
        ToolchainError: it is missing or half installed; says that `whose` kernels cannot be compiled.
    """
    for entry in sys.path:
        folder = Path(entry)
        try:
            found = sorted(folder.glob(f"{stem}-*.dist-info"))
        except OSError:
            continue
        for info in found:
            if not (folder / part).is_file():
                raise ToolchainError(f"{name} is half installed: {folder / part} is missing", fix=fix)
            try:
                digest = files_digest((info / "RECORD").read_text(encoding="utf-8"), part, folder if verify else None)
            except (OSError, UnicodeDecodeError) as exc:
                raise ToolchainError(f"{name} is half installed: its file list cannot be read ({exc})", fix=fix) from exc
            return ToolInfo(name=name, version=info.name[len(stem) + 1 : -len(".dist-info")], digest=digest)
    raise ToolchainError(f"{name} is not installed: {whose} kernels cannot be compiled", fix=fix)
