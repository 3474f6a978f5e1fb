"""A tensor's metadata without memory: what reshaping, slicing and cutting into tiles would give."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NoReturn, final

from tilec_runtime.device.layout import Shape, contiguous_stride, settled_stride
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.described import dtype_name
from tilec_runtime.tensors.facts import UnreadableError
from tilec_runtime.tensors.shapes import (
    checked_packing,
    checked_shape,
    grid_of,
    is_contiguous,
    reinterpreted,
    reshaped,
    sliced,
)


@final
class MetaTensor:
    """Shape, strides and dtype, as a tensor of it would have them. Nothing of it moves or is
    borrowed, and launches refuse it.

    Attributes:
        shape: extents. strides: steps in elements. dtype: tilec's name.
    """

    __slots__ = ("dtype", "shape", "strides")

    def __init__(self, shape: Any, dtype: Any = "f32", strides: Any = None) -> None:
        """Describe a tensor.

        Args:
            shape: extents.
            dtype: tilec's name, or a dtype of NumPy or torch.
            strides: steps in elements; None for a contiguous one.

        Raises:
            TensorError: the shape or the dtype is off.
        """
        self.shape: Shape = checked_shape(shape)
        self.dtype: str = dtype_name(dtype)
        checked_packing(self.dtype, self.shape, strides)
        self.strides: Shape = settled_stride(
            self.shape, None if strides is None else tuple(strides)
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """NumPy gets none.

        Raises:
            TensorError: always.
        """
        del dtype, copy
        fix = "make a tensor of its shape: api.zeros(meta.shape, meta.dtype), or np.empty(meta.shape) on the host"
        raise TensorError(
            f"{self!r} has no contents that NumPy could read: it describes a tensor", fix=fix
        )

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element; of a packed dtype, of the byte that its elements share."""
        return DTYPES[self.dtype].bytes

    @property
    def nbytes(self) -> int:
        """Bytes that its elements would take."""
        return DTYPES[self.dtype].size_of(self.size)

    @property
    def is_contiguous(self) -> bool:
        """Whether elements would lie one after another, the last dimension innermost."""
        return is_contiguous(self.shape, self.strides)

    def reshape(self, *shape: Any) -> MetaTensor:
        """The same elements in another shape; one extent may be -1.

        Raises:
            TensorError: the number of elements is another, or it is not contiguous.
        """
        return MetaTensor(
            reshaped(self.shape, self.strides, shape[0] if len(shape) == 1 else shape), self.dtype
        )

    def __getitem__(self, index: Any) -> MetaTensor:
        """A part, as slicing a tensor gives it.

        Raises:
            TensorError: there are more indices than dimensions, or one does not fit.
        """
        shape, strides, offset = sliced(self.shape, self.strides, index)
        checked_packing(self.dtype, shape, strides, offset)
        return MetaTensor(shape, self.dtype, strides)

    def reinterpret(self, dtype: Any, *shape: Any) -> MetaTensor:
        """The same bytes as another dtype; without a shape, of one dimension.

        Raises:
            TensorError: the number of bytes is another, or it is not contiguous.
        """
        name = dtype_name(dtype)
        wanted = (shape[0] if len(shape) == 1 else shape) if shape else -1
        return MetaTensor(
            reinterpreted(
                self.shape, self.strides, (DTYPES[self.dtype].bits, DTYPES[name].bits), wanted
            ),
            name,
        )

    def __iter__(self) -> Iterator[MetaTensor]:
        """Its parts along the first dimension, as a tensor gives them."""
        return (self[place] for place in range(len(self)))

    def grid(self, *tile: int) -> Shape:
        """How many tiles of a shape a partition of it would have, dimension by dimension.

        Raises:
            TensorError: the tile's rank is another, or it has no extent.
        """
        return grid_of(self.shape, tile)

    def __eq__(self, other: object) -> bool:
        """Whether shape, strides and dtype are the same."""
        if not isinstance(other, MetaTensor):
            return NotImplemented
        return (self.shape, self.strides, self.dtype) == (other.shape, other.strides, other.dtype)

    def __hash__(self) -> int:
        """Equal for equal ones."""
        return hash((self.shape, self.strides, self.dtype))

    def __len__(self) -> int:
        """Extent of the first dimension.

        Raises:
            TypeError: it has none.
        """
        if not self.shape:
            raise TypeError("a tensor of no dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        """`<MetaTensor f32[4, 8]>`."""
        steps = "" if self.strides == contiguous_stride(self.shape) else f", strides {self.strides}"
        return f"<MetaTensor {self.dtype}[{', '.join(map(str, self.shape))}]{steps}>"

    def _tilec_facts_(self) -> NoReturn:
        raise UnreadableError(
            "it is a MetaTensor, which has a shape and no memory: api.zeros(m.shape, m.dtype) makes a tensor of it"
        )
