"""How values of Tile IR are held while a batch of blocks runs: NumPy arrays whose first axis counts blocks."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import ml_dtypes
import numpy as np

from tilec_runtime.cpu.tileir.ir import Pointer, Scalar

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.intp]]"

# Tiles are arrays of shape (blocks, *tile) or (1, *tile): the latter where every block of the batch holds the same. Integers are held
# signed, i1 as bool, i4 in int8 with its sign extended, tf32 as float32 that is already rounded. f8E5M3FNU, which no NumPy library knows,
# is held as its bits. Pointers are addresses. Tokens are None.
STORAGE: dict[Scalar, np.dtype[Any]] = {
    Scalar.I1: np.dtype(np.bool_),
    Scalar.I4: np.dtype(np.int8),
    Scalar.I8: np.dtype(np.int8),
    Scalar.I16: np.dtype(np.int16),
    Scalar.I32: np.dtype(np.int32),
    Scalar.I64: np.dtype(np.int64),
    Scalar.F16: np.dtype(np.float16),
    Scalar.BF16: np.dtype(ml_dtypes.bfloat16),
    Scalar.F32: np.dtype(np.float32),
    Scalar.TF32: np.dtype(np.float32),
    Scalar.F64: np.dtype(np.float64),
    Scalar.F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    Scalar.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    Scalar.F8E8M0FNU: np.dtype(ml_dtypes.float8_e8m0fnu),
    Scalar.F8E5M3FNU: np.dtype(np.uint8),
    Scalar.F4E2M1FN: np.dtype(ml_dtypes.float4_e2m1fn),
}


class Held(Protocol):
    """What is held for a value that is no array: a view of a tensor."""

    def take(self, rows: Rows) -> Held:
        """The same for these blocks of the batch, in this order."""

    def joined(self, others: list[Held], places: list[Rows], size: int) -> Held:
        """One value for `size` blocks: this one and `others` lie at `places` (one for each, this one first)."""


def storage(element: Scalar | Pointer) -> np.dtype[Any]:
    """The type of the array that holds a tile of these elements."""
    return np.dtype(np.int64) if isinstance(element, Pointer) else STORAGE[element]


def take(item: Any, rows: Rows) -> Any:
    """The part of a held value that belongs to some blocks of a batch."""
    if item is None:
        return None
    if isinstance(item, np.ndarray):
        return item if item.shape[0] == 1 else item[rows]
    return item.take(rows)


def join(items: list[Any], places: list[Rows], size: int) -> Any:
    """One value for `size` blocks from values for parts of them; `places[i]` says which blocks `items[i]` is for."""
    first = items[0]
    if len(items) == 1 and len(places[0]) == size:
        return first
    if first is None:
        return None
    if not isinstance(first, np.ndarray):
        return first.joined(items[1:], places, size)
    whole = np.empty((size, *first.shape[1:]), first.dtype)
    for item, rows in zip(items, places, strict=True):
        whole[rows] = item
    return whole
