"""The kinds of tensors: the owner of memory, one owner among several, views to read, and the right to
write. Each can be had from the others, so they live in one module.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, TypeVar

from tilec_runtime.device.layout import Shape, TensorFacts
from tilec_runtime.device.seam import DeviceDriver, PoolHandle
from tilec_runtime.errors import OwnershipError, UseAfterMoveError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.copies import Dup
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.ops.steps import Shares
from tilec_runtime.sites import hinted
from tilec_runtime.tensors.described import dtype_name, facts_of, recast, with_layout
from tilec_runtime.tensors.interop import Exchanged
from tilec_runtime.tensors.lease import LOCK, Claim, Holder, holder, moved_error
from tilec_runtime.tensors.partition import Partition
from tilec_runtime.tensors.shapes import checked_packing, checked_shape, reshaped
from tilec_runtime.tensors.storage import Storage
from tilec_runtime.tensors.view import Borrow, Viewable

P = TypeVar("P", bound=Exchanged, covariant=True)
_NUMBERS = itertools.count()  # of the owners of shared tensors


class Lendable(Viewable[P]):
    """A tensor that can be borrowed, and copied on its device."""

    __slots__ = ()

    def borrow(self) -> TensorView:
        """Itself to read, for a `with` block: until its end the tensor cannot be written or moved.

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

    def dup(self) -> DeviceOp[Tensor]:
        """Return an op that gives a contiguous copy; see `tilec_runtime.api.dup`.

        Raises:
            OwnershipError: the tensor cannot be read.
            TensorError: its strides would take too many calls of the driver.
        """
        return Dup(self, Tensor)


class Readable(Lendable["TensorView"]):
    """A tensor whose views are there to be read."""

    __slots__ = ()

    def _part(self, who: Holder, layout: tuple[Shape, Shape, int]) -> TensorView:
        return TensorView(
            self.storage,
            with_layout(self.storage, self.facts, layout, readonly=True),
            self.claim(who, write=False),
        )


class TensorView(Borrow, Readable):
    """A tensor to read that shares the memory of another one. While it is there, that one can be
    neither written nor moved.
    """

    __slots__ = ()

    noun = "the view"


class Tensor(Readable, Shares["SharedTensor"]):
    """Device memory with dtype, shape and strides, and one owner.

    It moves into what uses it up (a partition, `share`, `reshape`): afterwards this object only
    says where it went. An op has it until it has run. What needs it for a while borrows it:
    `borrow()` and views to read, `borrow_mut()` to write.
    """

    # Where it went, once it is not usable.
    __slots__ = ("_moved",)

    def __init__(
        self,
        storage: Storage,
        shape: Any,
        dtype: Any,
        strides: Shape | None = None,
        *,
        address: int = 0,
    ) -> None:
        """Use `tilec_runtime.api`, `Tensor.from_foreign` or `Tensor.borrow_raw`.

        Args:
            storage: the memory, which the tensor alone owns.
            shape: extents.
            dtype: tilec's name, or a dtype of NumPy or torch.
            strides: steps in elements; None for a contiguous tensor.
            address: of the first element; 0 for the storage's first.
        """
        super().__init__(
            storage,
            facts_of(storage, checked_shape(shape), dtype_name(dtype), strides, start=address),
            storage.lease,
        )
        self._moved: Holder | None = None

    @classmethod
    def uninitialized(
        cls,
        shape: Any,
        dtype: Any,
        *,
        driver: DeviceDriver,
        ordinal: int,
        stream: int,
        pool: PoolHandle | None = None,
    ) -> Tensor:
        """A contiguous tensor in new memory, whose contents are whatever was there.

        Args:
            shape: extents.
            dtype: tilec's name, or a dtype of NumPy or torch.
            driver: of the device.
            ordinal: of the device.
            stream: handle of the stream in whose order the memory is taken.
            pool: out of which pool; None for the device's default one.

        Raises:
            OutOfMemoryError: there is no memory of this size.
        """
        extents, name = checked_shape(shape), dtype_name(dtype)
        checked_packing(name, extents)
        size = DTYPES[name].size_of(math.prod(extents))
        return cls(Storage.allocate(driver, ordinal, size, stream, pool), extents, name)

    @classmethod
    def from_foreign(
        cls, source: Any, *, stream: Any = None, driver: DeviceDriver | None = None
    ) -> Tensor:
        """A tensor in the memory of another library's; see `tilec_runtime.tensors.adopt.adopt`."""
        from tilec_runtime.tensors.adopt import adopt

        storage, facts = adopt(source, stream=stream, driver=driver)
        return cls._of(storage, facts)

    @classmethod
    def borrow_raw(
        cls,
        pointer: int,
        shape: Any,
        dtype: Any,
        *,
        device: Any = 0,
        strides: Shape | None = None,
        owner: Any = None,
        nbytes: int | None = None,
        driver: DeviceDriver | None = None,
    ) -> Tensor:
        """A tensor in memory at an address; see `tilec_runtime.tensors.adopt.adopt_raw`."""
        from tilec_runtime.tensors.adopt import adopt_raw

        storage, facts = adopt_raw(
            pointer,
            (shape, dtype, strides),
            device=device,
            owner=owner,
            nbytes=nbytes,
            driver=driver,
        )
        return cls._of(storage, facts)

    @classmethod
    def _of(cls, storage: Storage, facts: TensorFacts) -> Tensor:
        tensor = cls.__new__(cls)
        Readable.__init__(tensor, storage, facts, storage.lease)
        tensor._moved = None  # noqa: SLF001 - one of its own
        return tensor

    # Moves

    def move(self, who: Holder) -> Tensor:
        """The same tensor for a new owner; this object is used up.

        Args:
            who: it moves into, as errors name it.

        Raises:
            UseAfterMoveError: it was moved before.
            BorrowError: it is leased.
        """
        with LOCK:
            self.require(who)
            self.lease.move(who)
            self._moved, self.usable = who, False
        return self._of(self.storage, self.facts)

    def hold(self, number: int, who: Holder, *, write: bool) -> None:
        """Claim all of it: until the op has run, no other use of it is allowed."""
        lease = self.lease
        if lease.taken or not self.usable:
            if self.usable and any(claim.who is who for claim in lease.claims):
                what = (
                    f"{who} cannot take {self.noun} twice: it moves in with the first of its places"
                )
                fix = "share() it, or pass a view, to read it in several places"
                raise UseAfterMoveError(what, fix=fix)
            self.require(who)
            lease.require_free(who)
        if write:
            self.require_mutable(who)
        lease.taken[number] = Claim(who, writes=True, moved=True)

    def reshape(self, *shape: Any) -> Tensor:
        """The same memory in another shape; uses this object up. One extent may be -1.

        Raises:
            TensorError: the number of elements is another, or the tensor is not contiguous.
            OwnershipError: it is not free to move.
        """
        new = reshaped(self.shape, self.strides, shape[0] if len(shape) == 1 else shape)
        checked_packing(self.dtype, new)
        moved = self.move(holder("reshape"))
        return self._of(
            moved.storage, facts_of(moved.storage, new, self.dtype, start=self.facts.ptr)
        )

    def reinterpret(self, dtype: Any, *shape: Any) -> Tensor:
        """The same bytes as another dtype; uses this object up.

        Raises:
            TensorError: the number of bytes is another, the tensor is not contiguous, or not
                aligned to the elements.
            OwnershipError: it is not free to move.
        """
        facts = recast(self.facts, self.storage, dtype_name(dtype), shape)
        return self._of(self.move(holder("reinterpret")).storage, facts)

    def share(self) -> SharedTensor:
        """The same tensor for many readers and no writer; uses this object up.

        Raises:
            OwnershipError: it is not free to move.
        """
        return SharedTensor(self.move(holder("share")).storage, self.facts)

    def partition(self, *tile: Any) -> Partition[Tensor]:
        """Cut it into tiles that a kernel writes, one for each block; uses this object up until
        `unpartition`.

        Raises:
            TensorError: the tile's rank is another, or it has no extent.
            OwnershipError: it is not free to move.
        """
        who = self._cutting(tile, "the partition")
        return Partition(self.move(who), tile)

    def partition_prefix(self, *tile: Any) -> Partition[Tensor]:
        """As `partition`, for kernels of fewer blocks than tiles: they write the first of them.

        Raises:
            TensorError: the tile's rank is another, or it has no extent.
            OwnershipError: it is not free to move.
        """
        who = self._cutting(tile, "the partition")
        return Partition(self.move(who), tile, prefix=True)

    # Borrows

    def borrow_mut(self) -> TensorMut:
        """The right to write it, for a `with` block that allows no other use.

        Raises:
            OwnershipError: it was moved, or it is leased.
        """
        who = holder("the mutable borrow")
        self.require(who)
        self.require_mutable(who)
        return TensorMut(self.storage, self.facts, self.claim(who, write=True))

    def partition_mut(self, *tile: Any) -> Partition[TensorMut]:
        """Cut it into tiles in place.

        No other use of the tensor is allowed until the partition is released or deleted.

        Raises:
            TensorError: the tile's rank is another, or it has no extent.
            OwnershipError: it was moved, or it is leased.
        """
        who = self._cutting(tile, "the partition in place")
        return Partition(TensorMut(self.storage, self.facts, self.claim(who, write=True)), tile)

    def _cutting(self, tile: tuple[Any, ...], what: str) -> Holder:
        """Who cuts it into tiles, once that is known to be possible."""
        Partition.check(self, tile)
        who = holder(what)
        self.require(who)
        self.require_mutable(who)
        return who

    def require(self, who: Holder) -> None:
        """Check that it neither moved nor is in an op that has not run.

        Raises:
            UseAfterMoveError: it was, and where to.
        """
        if not self.usable:
            assert self._moved is not None
            raise moved_error(who, self._moved)
        self.lease.require(who)

    def _state(self) -> str:
        return f", moved into {self._moved}" if self._moved else ""


class TensorMut(Borrow, Lendable["TensorMut"]):
    """A tensor, or a part of one, that is borrowed for writing, until the end of its `with` block
    or `release`.

    Its views and slices write too: each borrows its elements from this one. Until it is released or
    gone, this one cannot be used as a whole, and only parts can be made that share no memory with
    it.
    """

    __slots__ = ()

    noun = "the mutable borrow"

    def partition(self, *tile: Any) -> Partition[TensorMut]:
        """Cut it into tiles in place.

        Raises:
            TensorError: the tile's rank is another, or it has no extent.
            BorrowError: the borrow has ended, or it is leased itself.
        """
        Partition.check(self, tile)
        who = holder("the partition in place")
        return Partition(TensorMut(self.storage, self.facts, self.lease.write(who)), tile)

    def _part(self, who: Holder, layout: tuple[Shape, Shape, int]) -> TensorMut:
        facts = with_layout(self.storage, self.facts, layout, readonly=False)
        return TensorMut(self.storage, facts, self.lease.write(who, part=facts))


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
        """Use `Tensor.share` or `SharedTensor.clone`."""
        readonly = facts_of(
            storage, facts.shape, facts.dtype, facts.stride, start=facts.ptr, readonly=True
        )
        super().__init__(storage, readonly, storage.lease)
        self.shared = True
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
            OwnershipError: there are other owners, or readers.
            UseAfterMoveError: this is no owner any more.
        """
        return self._unwrap(holder("try_unwrap"))

    def _unwrap(self, who: Holder) -> Tensor:
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
            OwnershipError: there are other owners, or readers.
            TensorError: the tile does not fit.
        """
        Partition.check(self, tile)
        return Partition(self._unwrap(holder("try_partition")), tile)

    def drop(self) -> None:
        """Be an owner no more. May be called more than once."""
        if self._gone is None:
            self._leave(holder("drop"))

    def require(self, who: Holder) -> None:
        """Check that this is an owner still.

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
