"""Uploads of a worker to the remote cache, so that only digests return."""

from __future__ import annotations

from collections.abc import Mapping

from tilec.compile.cache import index_row
from tilec.compile.events import Done
from tilec.compile.remote.access import open_store, worker_access
from tilec.compile.remote.images import put_image
from tilec.compile.remote.store import RemoteError, RemoteStore
from tilec_runtime.errors import UsageError


class Uploads:
    """Uploads of one worker to the remote cache of a build; the first fault ends them.

    Args:
        url: URL of the remote cache; empty for none.
        environ: the worker's environment, with its credentials.

    Attributes:
        fault: reason why nothing is uploaded; empty for none.
    """

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        self.fault = ""
        self._store: RemoteStore | None = None
        try:
            access = worker_access(url, environ) if url else None
            self._store = open_store(access) if access else None
        except UsageError as exc:
            self.fault = exc.what
        except RemoteError as exc:
            self.fault = str(exc)

    def put(self, key: str, done: Done, data: bytes) -> bool:
        """Upload an image; return whether the remote cache has it."""
        if self._store is None:
            return False
        image = done.image(data)
        try:
            put_image(self._store, key, index_row(key, image), data, seconds=done.seconds)
        except RemoteError as exc:
            self.fault = str(exc)
        except Exception as exc:  # noqa: BLE001 - no upload fails a build
            self.fault = f"the upload failed ({type(exc).__name__})"
        if self.fault:
            self.close()
        return not self.fault

    def close(self) -> None:
        """Close the connections."""
        if self._store is not None:
            self._store.close()
            self._store = None
