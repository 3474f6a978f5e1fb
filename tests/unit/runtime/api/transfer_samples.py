"""Arrays for tests of transfers, and what holds the streams of their device."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np


def counting(*shape: int, dtype: str = "f4") -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


class Pace:
    """Holds streams until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()

    def __call__(self) -> None:
        assert self.open.wait(10)
