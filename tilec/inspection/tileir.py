"""Tile IR as text, under its source lines if the sources are available."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import render
from tilec_runtime.model.digest import sha256

MAX_SOURCE = 16 << 20  # bytes


def tileir_text(data: bytes, sources: Sequence[tuple[str, str]], folder: Path) -> str:
    """Return Tile IR as text.

    Args:
        data: the bytecode.
        sources: names and digests of the bundle's source files.
        folder: folder of the source files, if available; only unchanged files are shown.

    Raises:
        TileIRError: the bytecode is damaged, or has an unknown operation.
    """
    return render(
        read_module(data),
        {name: lines for name, digest in sources if (lines := source_lines(folder / name, digest))},
    )


def source_lines(path: Path, digest: str) -> list[str]:
    """Return the lines of a source file, or none if it is changed or unreadable."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path.stat().st_size <= MAX_SOURCE:
            data = path.read_bytes()
            return data.decode().splitlines() if sha256(data) == digest else []
    return []
