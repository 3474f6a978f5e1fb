"""Look up files in the RECORD lists of NVIDIA's wheels."""

from __future__ import annotations

import base64
import functools
import os
import re
from pathlib import Path


def owner_of(site: Path, path: Path) -> tuple[str, str, int] | None:
    """Return version, SHA-256 and size of a file from the RECORD of its wheel, or None."""
    if not path.is_relative_to(site):
        return None
    name = re.escape(path.relative_to(site).as_posix())
    row = re.compile(rf"^{name},(?:sha256=([\w-]{{43}})=*)?,(\d*)\s*$", re.MULTILINE)
    for version, record in records(site):
        if match := row.search(record):
            digest = base64.urlsafe_b64decode(f"{match[1] or ''}==").hex()
            return version, digest, int(match[2] or -1)
    return None


def records(site: Path) -> tuple[tuple[str, str], ...]:
    """Return version and RECORD of every NVIDIA wheel in a site-packages directory."""
    try:
        # Installing, upgrading or removing a wheel changes the directory's modification time.
        return _read_records(str(site), site.stat().st_mtime_ns)
    except OSError:
        return ()


@functools.lru_cache(maxsize=8)
def _read_records(site: str, mtime: int) -> tuple[tuple[str, str], ...]:
    del mtime  # part of the key only
    records_read = []
    for name in sorted(
        e.name
        for e in os.scandir(site)
        if e.name.startswith("nvidia_") and e.name.endswith(".dist-info")
    ):
        try:
            text = Path(site, name, "RECORD").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        records_read.append((name[: -len(".dist-info")].rpartition("-")[2], text))
    return tuple(records_read)
