"""Bases of tensors with views, and of tensors whose lease ends with them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tilec_runtime.device.layout import Shape, contiguous_stride
from tilec_runtime.tensors.described import ranges_of
from tilec_runtime.tensors.interop import Exchanged
from tilec_runtime.tensors.lease import Holder, holder_here
from tilec_runtime.tensors.shapes import reshaped, sliced

if TYPE_CHECKING:
    from typing_extensions import Self

P = TypeVar("P", bound=Exchanged, covariant=True)


class Viewable(Exchanged, Generic[P]):
    """A tensor that can have views.

    Each view holds a claim on the tensor, until it is released or has no references left.
    """

    __slots__ = ()

    def view(self, *shape: Any) -> P:
        """Return the same elements in another shape, without a copy; one extent may be -1.

        Raises:
            TensorError: the number of elements differs, or the tensor is not contiguous.
            OwnershipError: the tensor cannot be used.
        """
        facts = self.facts
        new = reshaped(facts.shape, facts.stride, _one(shape))
        return self._part(holder_here("the view"), (new, contiguous_stride(new), 0))

    def slice(self, *ranges: Any) -> P:
        """Return a rectangular part, without a copy.

        Args:
            ranges: a (start, stop) pair or a slice for each of the first dimensions, or a list of
                them.

        Raises:
            TensorError: a range does not fit.
            OwnershipError: the tensor cannot be used.
        """
        return self[ranges_of(ranges)]

    def __getitem__(self, index: Any) -> P:
        """Return a part by NumPy's indexing, `t[1:3, 2:6]` or `t[..., 0]`, without a copy.

        Ranges beyond the tensor are refused.

        Raises:
            TensorError: the index does not fit.
            OwnershipError: the tensor cannot be used.
        """
        facts = self.facts
        return self._part(holder_here("the slice"), sliced(facts.shape, facts.stride, index))

    # `1 in t` would compare the number with slices, which are never equal to it.
    __contains__ = None

    def __iter__(self) -> Iterator[P]:
        """Iterate over slices along the first dimension."""
        return (self[index] for index in range(len(self)))

    @abstractmethod
    def _part(self, holder: Holder, layout: tuple[Shape, Shape, int]) -> P:
        """Return a view with this shape, strides and offset, and its claim."""


class Borrow(Exchanged):
    """A tensor with a lease that ends.

    It ends with a `with` block, `release`, finalization, or an op.
    """

    __slots__ = ()

    def release(self) -> None:
        """End it and all tensors borrowed from it. Further calls do nothing."""
        self.lease.release()

    def __del__(self) -> None:
        """Give up the claim once no part holds one; the parts keep the lease alive."""
        self.lease.let_go()

    def __enter__(self) -> Self:
        """Return the borrow itself, and keep it until the end of the block."""
        self.lease.keep()
        return self

    def __exit__(self, *_: object) -> None:
        """End the borrow."""
        self.release()

    def _state(self) -> str:
        return ", released" if self.lease.ended else ""


def _one(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape
