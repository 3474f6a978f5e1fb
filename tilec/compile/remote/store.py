"""What a store of the remote cache is, and how it fails."""

from __future__ import annotations

from typing import Literal, Protocol

Kind = Literal["ac", "cas"]
SLOWEST = 1 << 18  # bytes of a body in a second


class RemoteError(Exception):
    """A store failed; the message says how, as a clause, and holds no credentials.

    Attributes:
        slow: it gave no answer within the time limit.
    """

    def __init__(self, reason: str, *, slow: bool = False) -> None:
        super().__init__(reason)
        self.slow = slow


def slow(seconds: float) -> RemoteError:
    """Return the error of an answer that did not come within its limit."""
    return RemoteError(f"it took more than {seconds:g} s for an answer", slow=True)


class TooLargeError(Exception):
    """An object is larger than it may be."""


class RemoteStore(Protocol):
    """Bytes by kind and name (64 hexadecimal digits); used from several threads at once.

    `cas` holds objects by their SHA-256, `ac` what is known by the key of a job. Nothing that a
    store gives is verified.
    """

    def get(self, kind: Kind, name: str, limit: int) -> bytes | None:
        """Return an object, or None where there is none.

        Raises:
            TooLargeError: it has more than `limit` bytes; no more are read.
            RemoteError: the store failed.
        """

    def has(self, kind: Kind, name: str) -> bool:
        """Return whether there is an object.

        Raises:
            RemoteError: the store failed.
        """

    def put(self, kind: Kind, name: str, data: bytes) -> None:
        """Write an object; readers see all of it or nothing.

        Raises:
            RemoteError: the store failed.
        """

    def close(self) -> None:
        """End the connections."""
