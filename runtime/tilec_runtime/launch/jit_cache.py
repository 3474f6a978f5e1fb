"""Machine code compiled at load, in the private build cache.

Each read verifies its entry.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilec_runtime.bundle import store
from tilec_runtime.bundle.place import private_root
from tilec_runtime.model.digest import canonical_json, sha256

_KIND = store.KINDS[2]


class JitCache:
    """A cache of machine code.

    A failure of the cache costs one compile and is never an error.

    Args:
        root: the cache's directory, created at the first write; None for an empty cache. A
            directory that other users can change is neither read nor written, because its code
            would run on the GPU. A RuntimeWarning reports it once per process.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = private_root(
            root, lambda text: warnings.warn(text, RuntimeWarning, stacklevel=2)
        )

    def get(self, key: Mapping[str, Any]) -> bytes | None:
        """Return the entry of a key, or None; remove one that fails verification."""
        if self._root is None:
            return None
        path = store.path_of(self._root, _KIND, _name(key))
        try:
            entry = store.read(path, now=time.time())
            if entry is None:
                return None
            data = entry.data
            if entry.meta == {"digest": sha256(data), "key": dict(key)}:
                return data
        except OSError:  # not readable, for now or for this user
            return None
        except (store.DamagedError, ValueError):
            pass
        store.remove(path)
        return None

    def put(self, key: Mapping[str, Any], data: bytes) -> None:
        """Write an entry, whole; ignore a failure. The last of several writers wins."""
        if self._root is not None:
            with contextlib.suppress(OSError):
                store.save(
                    self._root,
                    _KIND,
                    _name(key),
                    canonical_json({"digest": sha256(data), "key": dict(key)}),
                    data,
                )


def _name(key: Mapping[str, Any]) -> str:
    return sha256(canonical_json(dict(key)))
