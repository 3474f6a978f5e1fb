"""Arrays as expressions see them."""

from __future__ import annotations

import dataclasses
import math

from tilec_runtime.model.dtype import DTYPES


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ArrayFacts:
    """A C-contiguous array in expressions.

    Attributes:
        shape: extents.
        dtype: name of a dtype.
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def ptr(self) -> int:
        """The unknown address, which has any alignment."""
        return 0

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def stride(self) -> tuple[int, ...]:
        """Strides in elements."""
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return DTYPES[self.dtype].size_of(self.size)
