"""Which device is meant where none is named, and which policy, in a thread or task and in the
process.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tilec_runtime.protocols import DeviceLike, SchedulingPolicy


class Defaults:
    """What is the default in one context. A policy beats a device; None leaves it to what is
    further out.
    """

    __slots__ = ("device", "policy")

    def __init__(
        self, *, device: DeviceLike | None = None, policy: SchedulingPolicy | None = None
    ) -> None:
        """Name a device, a policy, or both."""
        self.device: Final = device
        self.policy: Final = policy


_NOTHING = Defaults()
HERE: contextvars.ContextVar[Defaults] = contextvars.ContextVar("tilec_defaults", default=_NOTHING)
_process: DeviceLike | None = None


def named_device() -> DeviceLike | None:
    """The device of the innermost `use_device`, else of `set_default_device`; None where neither
    names one: device 0.
    """
    return HERE.get().device or _process


def set_process_device(device: DeviceLike | None) -> None:
    """Set what is meant in every thread and task that is in no `use_device`."""
    global _process
    _process = device
