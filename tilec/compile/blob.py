"""Blobs: image bytes that lie in a file and are read, with their digest checked, when they are
needed.
"""

from __future__ import annotations

import dataclasses
import os

from tilec_runtime.errors import CacheError
from tilec_runtime.model.digest import sha256


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Blob:
    """`size` bytes from `offset` of the file `path`, with their SHA-256 (hex)."""

    path: str
    offset: int
    size: int
    digest: str

    def read(self) -> bytes:
        """The bytes.

        Raises:
            CacheError: the file is gone (another process may have emptied the cache) or damaged.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            with os.fdopen(fd, "rb") as file:
                file.seek(self.offset)
                data = file.read(self.size)
        except OSError as exc:
            raise CacheError(
                f"a compiled image cannot be read back: {exc.strerror}: {self.path}",
                cause="the cache was emptied while the build was running",
                fix="run the build again",
            ) from exc
        if len(data) != self.size or sha256(data) != self.digest:
            raise CacheError(
                f"a compiled image is damaged: {self.path}",
                cause="the disk or another program changed the file",
                fix="run the build again; `tilec cache clear` empties the cache",
            )
        return data
