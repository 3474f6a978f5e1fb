"""The op that each thread enqueues at the moment, and on which stream."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilec_runtime.ops.op import DeviceOp


class _Running(threading.local):
    """The op that this thread enqueues at the moment, and the handle of its stream; None for none."""

    op: DeviceOp[object] | None = None
    stream: int | None = None


RUNNING = _Running()
