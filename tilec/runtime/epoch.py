"""Whether anything has changed about who may use tensors, and in what order: what a launch found out in this epoch still holds."""

from __future__ import annotations

from typing import final


@final
class Epoch:
    """One for all tensors. It ends when somebody claims one, when what launches know one by gets a new owner, or when a stream that needed
    to wait for nothing may have to.

    It is ended behind the change, and asked for before one looks: who finds it as it was has seen what there is to see. Ending it too often
    costs time alone.

    Attributes:
        now: the epoch, an object like no other.
    """

    __slots__ = ("now",)

    def __init__(self) -> None:
        """Begin the first one."""
        self.now = object()

    def end(self) -> None:
        """Begin another one."""
        self.now = object()


EPOCH = Epoch()
