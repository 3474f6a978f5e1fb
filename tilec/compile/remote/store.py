"""The interface of the remote cache's stores, and their errors."""

from __future__ import annotations

from typing import Literal, Protocol

Kind = Literal["ac", "cas"]
SLOWEST = 1 << 18  # required bytes per second of a body


class RemoteError(Exception):
    """A store failed; the message is a clause without credentials."""


def slow(seconds: float) -> RemoteError:
    """Return the error of a response that exceeds its time limit."""
    return RemoteError(f"it took more than {seconds:g} s for an answer")


class TooLargeError(Exception):
    """An object exceeds its size limit."""


class RemoteStore(Protocol):
    """A thread-safe store of bytes by kind and name (64 hexadecimal digits).

    `cas` has objects by their SHA-256, `ac` action results by the key of a job. A store does not
    verify its data.
    """

    def get(self, kind: Kind, name: str, limit: int) -> bytes | None:
        """Return an object, or None if it is missing.

        Raises:
            TooLargeError: the object has more than `limit` bytes; no more are read.
            RemoteError: the store failed.
        """

    def has(self, kind: Kind, name: str) -> bool:
        """Return whether an object exists.

        Raises:
            RemoteError: the store failed.
        """

    def put(self, kind: Kind, name: str, data: bytes) -> None:
        """Write an object atomically.

        Raises:
            RemoteError: the store failed.
        """

    def close(self) -> None:
        """Close the connections."""
