"""Machine code that was compiled at load, in the private cache of builds: found by what it was made
of, and verified before it is used.
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
    """Look-up is `get`, never check-then-read. Whatever fails here costs a compile and nothing
    else.

    Args:
        root: the cache's directory, made when first written to; None for a cache that holds
            nothing. One that others can change is neither read nor written: code from there would
            run on the GPU. A RuntimeWarning says so, once in a process.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = private_root(
            root, lambda text: warnings.warn(text, RuntimeWarning, stacklevel=2)
        )

    def get(self, key: Mapping[str, Any]) -> bytes | None:
        """What is kept under a key, or None. What was damaged or is of another key is removed, and
        never given.
        """
        if self._root is None:
            return None
        path = store.path_of(self._root, _KIND, _name(key))
        try:
            entry = store.read(path, now=time.time())
            if entry is None:
                return None
            meta, data = entry
            if meta == {"digest": sha256(data), "key": dict(key)}:
                return data
        except OSError:  # not readable, for now or for this user
            return None
        except (store.DamagedError, ValueError):
            pass
        store.remove(path)
        return None

    def put(self, key: Mapping[str, Any], data: bytes) -> None:
        """Keep something, if that can be; of several writers the last one's stays, whole."""
        if self._root is not None:
            with contextlib.suppress(OSError):
                store.save(
                    self._root,
                    _KIND,
                    _name(key),
                    canonical_json({"digest": sha256(data), "key": dict(key)}),
                    data,
                )

    def drop(self, key: Mapping[str, Any]) -> None:
        """Remove what is kept under a key."""
        if self._root is not None:
            store.remove(store.path_of(self._root, _KIND, _name(key)))


def _name(key: Mapping[str, Any]) -> str:
    return sha256(canonical_json(dict(key)))
