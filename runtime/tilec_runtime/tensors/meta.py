"""A tensor's metadata without memory: what reshaping, slicing and cutting into tiles would give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, final

from tilec_runtime.device.layout import ON_ANY, Shape, TensorFacts, settled_stride
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.described import Shaped, dtype_name
from tilec_runtime.tensors.facts import UnreadableError
from tilec_runtime.tensors.shapes import (
    checked_packing,
    checked_shape,
    grid_of,
    reinterpreted,
    reshaped,
    sliced,
)


@final
class MetaTensor(Shaped):
    """Shape, strides and dtype, as a tensor of it would have them. Nothing of it moves or is
    borrowed, and launches refuse it.

    Attributes:
        facts: shape, strides and dtype.
    """

    __slots__ = ("facts",)

    def __init__(self, shape: Any, dtype: Any = "f32", strides: Any = None) -> None:
        """Describe a tensor.

        Args:
            shape: extents.
            dtype: tilec's name, or a dtype of NumPy or torch.
            strides: steps in elements; None for a contiguous one.

        Raises:
            TensorError: the shape or the dtype is off.
        """
        extents, name = checked_shape(shape), dtype_name(dtype)
        checked_packing(name, extents, strides)
        steps = settled_stride(extents, None if strides is None else tuple(strides))
        self.facts = TensorFacts(ptr=0, shape=extents, stride=steps, dtype=name, device=ON_ANY)

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
        return self.facts == other.facts if isinstance(other, MetaTensor) else NotImplemented

    def __hash__(self) -> int:
        """Equal for equal ones."""
        return hash(self.facts)

    def __repr__(self) -> str:
        """`<MetaTensor f32[4, 8]>`."""
        return f"<{self._described()}>"

    def _tilec_facts_(self) -> NoReturn:
        raise UnreadableError(
            "it is a MetaTensor, which has a shape and no memory: api.zeros(m.shape, m.dtype) makes a tensor of it"
        )
