"""What undetermined elements hold, computed element by element."""

from __future__ import annotations

import numpy as np

from tilec_runtime.cpu.tileir.values import Array, Layout


def garbage(layout: Layout, shape: tuple[int, ...], turn: int = 0) -> Array:
    """A tile of undetermined elements, as it is held."""
    hostile = layout.decode(layout.hostile())
    flat = [hostile[(place + turn) % 3] for place in range(int(np.prod(shape)))]
    return np.array(flat, hostile.dtype).reshape(shape)
