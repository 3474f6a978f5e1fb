"""Tensors with many owners, which all of them read and nobody writes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.layout import TensorFacts
from tilec_runtime.errors import OwnershipError, UseAfterMoveError
from tilec_runtime.sites import hinted
from tilec_runtime.tensors.described import dtype_name, facts_of, recast
from tilec_runtime.tensors.lease import LOCK, Holder, holder
from tilec_runtime.tensors.shapes import reshaped
from tilec_runtime.tensors.storage import Storage
from tilec_runtime.tensors.view import Readable

if TYPE_CHECKING:
    from tilec_runtime.tensors.partition import Partition
    from tilec_runtime.tensors.tensor import Tensor

_NUMBERS = itertools.count()


class SharedTensor(Readable):
    """One owner among several of a tensor. Passing it on needs no copy; `clone`, `reshape` and
    `reinterpret` make further owners.

    With the last owner the memory goes. A single owner gets the tensor back by `try_unwrap`.
    """

    __slots__ = ("_gone", "_number", "_owners")

    noun = "the shared tensor"

    def __init__(
        self, storage: Storage, facts: TensorFacts, owners: dict[int, Holder] | None = None
    ) -> None:
        """Made by `Tensor.share` and by other owners alone."""
        readonly = facts_of(
            storage, facts.shape, facts.dtype, facts.stride, start=facts.ptr, readonly=True
        )
        super().__init__(storage, readonly, storage.lease)
        self._owners = {} if owners is None else owners
        self._number = next(_NUMBERS)
        self._gone: Holder | None = None
        self._owners[self._number] = holder("the shared tensor")

    @property
    def owners(self) -> int:
        """How many there are."""
        return len(self._owners)

    def clone(self) -> SharedTensor:
        """Another owner.

        Raises:
            UseAfterMoveError: this one is none any more.
        """
        self.require(holder("clone"))
        return SharedTensor(self.storage, self.facts, self._owners)

    def reshape(self, *shape: Any) -> SharedTensor:
        """Another owner, of another shape.

        Raises:
            TensorError: the number of elements is another, or the tensor is not contiguous.
        """
        self.require(holder("reshape"))
        new = reshaped(self.shape, self.strides, shape[0] if len(shape) == 1 else shape)
        return SharedTensor(
            self.storage,
            facts_of(self.storage, new, self.dtype, start=self.facts.ptr),
            self._owners,
        )

    def reinterpret(self, dtype: Any, *shape: Any) -> SharedTensor:
        """Another owner, of the same bytes as another dtype.

        Raises:
            TensorError: the number of bytes is another, the tensor is not contiguous, or not
                aligned to the elements.
        """
        self.require(holder("reinterpret"))
        return SharedTensor(
            self.storage, recast(self.facts, self.storage, dtype_name(dtype), shape), self._owners
        )

    def try_unwrap(self) -> Tensor:
        """The tensor itself, for a single owner, who is used up.

        Raises:
            OwnershipError: there are other owners, or readers. UseAfterMoveError: this is no owner
                any more.
        """
        return self._unwrap(holder("try_unwrap"))

    def _unwrap(self, who: Holder) -> Tensor:
        from tilec_runtime.tensors.tensor import Tensor

        with LOCK:
            self.require(who)
            owners = (
                self._owners.copy()
            )  # in one step of the interpreter, as they leave: without the lock
            others = [owner for number, owner in owners.items() if number != self._number]
            if others:
                listed = ", ".join(str(owner) for owner in others[:3])
                what = f"{who} cannot take the tensor: it has {len(others) + 1} owners, among them {listed}"
                raise OwnershipError(what, fix="drop() the others first")
            self.lease.require_free(who, "taken by")
            self.lease.move(who)
            self._leave(who)
        facts = self.facts
        return Tensor(self.storage, facts.shape, facts.dtype, facts.stride, address=facts.ptr)

    def try_partition(self, *tile: Any) -> Partition[Tensor]:
        """As `Tensor.partition`, for a single owner, who is used up.

        Raises:
            OwnershipError: there are other owners, or readers. TensorError: the tile does not fit.
        """
        from tilec_runtime.tensors.partition import Partition

        Partition.check(self, tile)
        return Partition(self._unwrap(holder("try_partition")), tile)

    def drop(self) -> None:
        """Be an owner no more. May be called more than once."""
        if self._gone is None:
            self._leave(holder("drop"))

    def require(self, who: Holder) -> None:
        """See that this is an owner still.

        Raises:
            UseAfterMoveError: it is not.
        """
        if self._gone is not None:
            raise UseAfterMoveError(
                f"{who} cannot use the shared tensor: it went into {self._gone}",
                fix=hinted("clone() it before"),
            )

    def _leave(self, who: Holder) -> None:
        self._gone = who
        self.usable = False
        self._owners.pop(self._number, None)

    def __del__(self) -> None:
        """Be an owner no more: one step of the interpreter, whatever thread this is."""
        if hasattr(self, "_number"):
            self._owners.pop(self._number, None)

    def _state(self) -> str:
        return (
            f", went into {self._gone}"
            if self._gone
            else f", {self.owners} owner{'s' if self.owners > 1 else ''}"
        )
