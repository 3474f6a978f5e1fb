"""Arrays for tests of transfers."""

from __future__ import annotations

from typing import Any

import numpy as np


def counting(*shape: int, dtype: str = "f4") -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
