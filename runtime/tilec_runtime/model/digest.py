"""Digests and canonical JSON: the one way in which values become bytes."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def sha256(data: bytes) -> str:
    """Hex SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """`value` as JSON with sorted keys and no white space, so that equal values give equal bytes."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode()
