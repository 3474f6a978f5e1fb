"""A store in a bucket.

fsspec accesses it, and the cloud's library finds the credentials.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from tilec.compile.remote.store import Kind, RemoteError, TooLargeError

# By scheme: fsspec's protocol, and the package that implements it.
_PROTOCOLS = {
    "s3": ("s3", "s3fs"),
    "gs": ("gcs", "gcsfs"),
    "az": ("abfs", "adlfs"),
}


class CloudStore:
    """A store in a bucket, in the layout of an HTTP server.

    The layout is `cas/<sha256>` and `ac/<key>`.

    Args:
        scheme: scheme of the URL.
        root: bucket and prefix.
        seconds: time limit of a response, if the cloud's library supports one.

    Raises:
        RemoteError: a package is not installed, or the library refuses its configuration.
    """

    def __init__(self, scheme: str, root: str, *, seconds: float) -> None:
        protocol, package = _PROTOCOLS[scheme]
        self._root = root.rstrip("/")
        try:
            import fsspec

            self._files = fsspec.filesystem(protocol, **_options(scheme, seconds))
        except ImportError as exc:
            package = "tilec[remote]" if scheme == "s3" else package
            raise RemoteError(
                f"{scheme}:// needs a package that is not installed: pip install '{package}'"
            ) from exc
        except Exception as exc:
            raise _failure(exc) from exc

    def get(self, kind: Kind, name: str, limit: int) -> bytes | None:
        """Return an object; see `RemoteStore`."""
        try:
            with _failing():
                data: bytes = self._files.cat_file(self._path(kind, name), start=0, end=limit + 1)
        except FileNotFoundError:
            return None
        if len(data) > limit:
            raise TooLargeError
        return data

    def has(self, kind: Kind, name: str) -> bool:
        """Return whether there is an object; see `RemoteStore`."""
        try:
            with _failing():
                return bool(self._files.exists(self._path(kind, name)))
        except FileNotFoundError:
            return False

    def put(self, kind: Kind, name: str, data: bytes) -> None:
        """Write an object; see `RemoteStore`."""
        try:
            with _failing():
                self._files.pipe_file(self._path(kind, name), data)
        except FileNotFoundError as exc:
            raise RemoteError("there is no such bucket") from exc

    def close(self) -> None:
        """Do nothing: the library keeps its connections for the whole process."""

    def _path(self, kind: Kind, name: str) -> str:
        return f"{self._root}/{kind}/{name}"


def _options(scheme: str, seconds: float) -> Mapping[str, object]:
    if scheme != "s3":
        return {}
    limits = {"connect_timeout": seconds / 2, "read_timeout": seconds}
    return {"config_kwargs": {**limits, "retries": {"max_attempts": 1}}}


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    """Turn every failure into RemoteError, as libraries raise various exceptions."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as exc:
        raise _failure(exc) from exc


def _failure(exc: Exception) -> RemoteError:
    if isinstance(exc, PermissionError):
        return RemoteError("access is denied; credentials are those of the cloud's own tools")
    lines = str(exc).splitlines() or [""]
    return RemoteError(f"{type(exc).__name__}: {lines[0][:160]}")
