"""Views: another shape of a tensor, or a part of it, to read without copying."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilec.runtime.layout import TensorFacts, contiguous_stride
from tilec.runtime.tensors.described import ranges_of, with_layout
from tilec.runtime.tensors.interop import Exchanged
from tilec.runtime.tensors.lease import Claim, Holder, Lease, holder
from tilec.runtime.tensors.shapes import reshaped, sliced
from tilec.runtime.tensors.storage import Storage


class Viewable(Exchanged):
    """A tensor of which there can be views: each holds a claim to read it, until it is released or nobody has it any more."""

    __slots__ = ()

    def view(self, *shape: Any) -> TensorView:
        """The same elements in another shape, without a copy; one extent may be -1.

        Raises:
            TensorError: the number of elements is another, or the tensor is not contiguous.
            OwnershipError: it cannot be read.
        """
        facts = self._facts
        new = reshaped(facts.shape, facts.stride, _one(shape))
        who = holder("the view")
        return TensorView(
            self.storage, with_layout(self.storage, facts, (new, contiguous_stride(new), 0), readonly=True), self._claim_read(who)
        )

    def slice(self, *ranges: Any) -> TensorView:
        """A rectangular part, without a copy: a (start, stop) pair or a slice for each of the first dimensions.

        Raises:
            TensorError: a range does not fit.
            OwnershipError: the tensor cannot be read.
        """
        return self[ranges_of(ranges)]

    def __getitem__(self, index: Any) -> TensorView:
        """A part as NumPy names it, `t[1:3, 2:6]` or `t[..., 0]`, without a copy. Ranges that reach beyond the tensor are refused.

        Raises:
            TensorError: the index does not fit.
            OwnershipError: the tensor cannot be read.
        """
        facts = self._facts
        layout = sliced(facts.shape, facts.stride, index)
        who = holder("the slice")
        return TensorView(self.storage, with_layout(self.storage, facts, layout, readonly=True), self._claim_read(who))

    def __iter__(self) -> Iterator[TensorView]:
        """Slices along the first dimension."""
        return (self[place] for place in range(len(self)))

    def borrow(self) -> TensorView:
        """Itself to read, for a `with` block: until its end nobody can write or move the tensor.

        Raises:
            OwnershipError: it cannot be read.
        """
        facts = self._facts
        who = holder("the borrow")
        return TensorView(
            self.storage, with_layout(self.storage, facts, (facts.shape, facts.stride, 0), readonly=True), self._claim_read(who)
        )

    def _claim_read(self, who: Holder) -> Claim:
        self.require(who)
        return self.lease.read(who)


class TensorView(Viewable):
    """A tensor to read that shares the memory of another one. While it is there, that one can be neither written nor moved."""

    __slots__ = ("_claim",)

    noun = "the view"

    def __init__(self, storage: Storage, facts: TensorFacts, claim: Claim) -> None:
        """Made by `view`, `slice`, `borrow` and `t[...]` alone."""
        super().__init__(storage, facts, Lease(claim))
        self._claim = claim

    def release(self) -> None:
        """End it, and every view of it. May be called more than once."""
        self._claim.release()

    def __enter__(self) -> TensorView:  # noqa: PYI034 - nothing derives from it
        """The view itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.release()

    def _state(self) -> str:
        return "" if self._claim.active else ", released"


def _one(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 else shape
