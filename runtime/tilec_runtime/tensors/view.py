"""Views: another shape of a tensor, or a part of it, without copying; of all tensors but mutable
borrows, to be read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tilec_runtime.device.layout import Shape, contiguous_stride
from tilec_runtime.tensors.described import ranges_of, with_layout
from tilec_runtime.tensors.interop import Exchanged
from tilec_runtime.tensors.lease import Holder, holder
from tilec_runtime.tensors.shapes import reshaped, sliced

if TYPE_CHECKING:
    from typing_extensions import Self

P = TypeVar("P", bound=Exchanged, covariant=True)


class Viewable(Exchanged, Generic[P]):
    """A tensor of which there can be views: each holds a claim on it, until it is released or
    nobody has it any more.
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

    def borrow(self) -> TensorView:
        """Itself to read, for a `with` block: until its end nobody can write or move the tensor.

        Raises:
            OwnershipError: it cannot be read.
        """
        facts = self.facts
        who = holder("the borrow")
        return TensorView(
            self.storage,
            with_layout(self.storage, facts, (facts.shape, facts.stride, 0), readonly=True),
            self.claim(who, write=False),
        )

    @abstractmethod
    def _part(self, who: Holder, layout: tuple[Shape, Shape, int]) -> P:
        """A view of this shape, strides and offset, with its claim."""


class Readable(Viewable["TensorView"]):
    """A tensor whose views are there to be read."""

    __slots__ = ()

    def _part(self, who: Holder, layout: tuple[Shape, Shape, int]) -> TensorView:
        return TensorView(
            self.storage,
            with_layout(self.storage, self.facts, layout, readonly=True),
            self.claim(who, write=False),
        )


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


class TensorView(Borrow, Readable):
    """A tensor to read that shares the memory of another one. While it is there, that one can be
    neither written nor moved.
    """

    __slots__ = ()

    noun = "the view"


def _one(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape
