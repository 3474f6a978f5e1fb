"""Declarations kept in the cache by content, so that an unchanged source is never read by a
compiler again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilec.compile.cache import Cache
from tilec.compile.codec import decode, encode
from tilec.model.declaration import KernelDecl


def load_declarations(cache: Cache, key: str) -> tuple[KernelDecl, ...] | None:
    """The declarations kept under `key`, None where there are none or they cannot be read."""
    record = cache.get_record(key)
    if not isinstance(record, list):
        return None
    try:
        return tuple(decode(KernelDecl, row) for row in record)
    except ValueError:
        return None


def save_declarations(cache: Cache, key: str, declarations: Sequence[KernelDecl]) -> None:
    """Keep declarations under `key`; a cache that cannot be written is no error."""
    cache.put_record(key, [encode(row) for row in declarations])
