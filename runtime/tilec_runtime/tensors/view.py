"""What tensors with views have in common, and leases that end with their tensor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tilec_runtime.device.layout import Shape, contiguous_stride
from tilec_runtime.tensors.described import ranges_of
from tilec_runtime.tensors.interop import Exchanged
from tilec_runtime.tensors.lease import Holder, holder
from tilec_runtime.tensors.shapes import reshaped, sliced

if TYPE_CHECKING:
    from typing_extensions import Self

P = TypeVar("P", bound=Exchanged, covariant=True)


class Viewable(Exchanged, Generic[P]):
    """A tensor of which there can be views: each holds a claim on it, until it is released or
    no reference to it is left.
    """

    __slots__ = ()

    def view(self, *shape: Any) -> P:
        """The same elements in another shape, without a copy; one extent may be -1.

        Raises:
            TensorError: the number of elements is another, or the tensor is not contiguous.
            OwnershipError: it cannot be used.
        """
        facts = self.facts
        new = reshaped(facts.shape, facts.stride, _one(shape))
        return self._part(holder("the view"), (new, contiguous_stride(new), 0))

    def slice(self, *ranges: Any) -> P:
        """A rectangular part, without a copy: a (start, stop) pair or a slice for each of the first
        dimensions, or a list of them.

        Raises:
            TensorError: a range does not fit.
            OwnershipError: the tensor cannot be used.
        """
        return self[ranges_of(ranges)]

    def __getitem__(self, index: Any) -> P:
        """A part as NumPy names it, `t[1:3, 2:6]` or `t[..., 0]`, without a copy. Ranges that reach
        beyond the tensor are refused.

        Raises:
            TensorError: the index does not fit.
            OwnershipError: the tensor cannot be used.
        """
        facts = self.facts
        return self._part(holder("the slice"), sliced(facts.shape, facts.stride, index))

    # `1 in t` would hold the number against slices, whatever their contents, and say no.
    __contains__ = None

    def __iter__(self) -> Iterator[P]:
        """Slices along the first dimension."""
        return (self[place] for place in range(len(self)))

    @abstractmethod
    def _part(self, who: Holder, layout: tuple[Shape, Shape, int]) -> P:
        """A view of this shape, strides and offset, with its claim."""


class Borrow(Exchanged):
    """A tensor with a lease that ends: with a `with` block, `release`, or the object; or with an op
    that it went into.
    """

    __slots__ = ()

    def release(self) -> None:
        """End it, and what was made of it. May be called more than once."""
        self.lease.release()

    def __del__(self) -> None:
        """Leave it to its parts, which keep the lease: it lasts while one of them has a claim."""
        self.lease.let_go()

    def __enter__(self) -> Self:
        """The borrow itself, until the end of the block."""
        self.lease.keep()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.release()

    def _state(self) -> str:
        return ", released" if self.lease.ended else ""


def _one(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape
