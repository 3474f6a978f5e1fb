"""The kinds of tensors: owner, shared owner, read-only view, mutable borrow.

Each kind can create others, so they live in one module.
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
from tilec_runtime.tensors.lease import LOCK, Claim, Holder, holder_here, moved_error
from tilec_runtime.tensors.partition import Partition
from tilec_runtime.tensors.shapes import checked_packing, checked_shape, reshaped
from tilec_runtime.tensors.storage import Storage
from tilec_runtime.tensors.view import Borrow, Viewable

P = TypeVar("P", bound=Exchanged, covariant=True)
_NUMBERS = itertools.count()  # identifies the owners of shared tensors


class Lendable(Viewable[P]):
    """A tensor that can be borrowed, and copied on its device."""

    __slots__ = ()

    def borrow(self) -> TensorView:
        """Return a read-only view for a `with` block.

        Until its end, the tensor can be neither written nor moved.

        Raises:
            OwnershipError: the tensor cannot be read.
        """
        facts = self.facts
        holder = holder_here("the borrow")
        return TensorView(
            self.storage,
            with_layout(self.storage, facts, (facts.shape, facts.stride, 0), readonly=True),
            self.claim(holder, write=False),
        )

    def dup(self) -> DeviceOp[Tensor]:
        """Return an op that makes a contiguous copy; see `tilec_runtime.api.dup`.

        Raises:
            OwnershipError: the tensor cannot be read.
            TensorError: its strides would take too many calls of the driver.
        """
        return Dup(self, Tensor)


class Readable(Lendable["TensorView"]):
    """A tensor whose views are read-only."""

    __slots__ = ()

    def _part(self, holder: Holder, layout: tuple[Shape, Shape, int]) -> TensorView:
        return TensorView(
            self.storage,
            with_layout(self.storage, self.facts, layout, readonly=True),
            self.claim(holder, write=False),
        )


class TensorView(Borrow, Readable):
    """A read-only tensor that shares the memory of another one.

    As long as the view exists, the other tensor can be neither written nor moved.
    """

    __slots__ = ()

    noun = "the view"


class Tensor(Readable, Shares["SharedTensor"]):
    """Device memory with dtype, shape and strides, and one owner.

    A partition, `share` or `reshape` moves the tensor: afterwards this object only names its new
    owner. An op owns the tensor until it has run. Borrows are temporary: `borrow()` and views for
    reading, `borrow_mut()` for writing.
    """

    # The new owner, once the tensor was moved.
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
            storage: the memory, which no other tensor owns.
            shape: extents.
            dtype: tilec's name, or a dtype of NumPy or torch.
            strides: in elements; None for a contiguous tensor.
            address: address of the first element; 0 for the start of the storage.
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
        """Return a contiguous tensor in new, uninitialized memory.

        Args:
            shape: extents.
            dtype: tilec's name, or a dtype of NumPy or torch.
            driver: the driver of the device.
            ordinal: the device.
            stream: handle of the stream in whose order memory is allocated.
            pool: the pool to allocate from; None for the device's default pool.

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
        """Return a tensor in another library's memory, which is kept until the last use.

        Args:
            source: an object with DLPack, `__cuda_array_interface__` or NumPy's protocol.
            stream: the stream that may use the tensor without a wait; other streams wait for it.
                None for an internal stream.
            driver: the driver of the tensor's device; the process's driver for it by default.

        Raises:
            TensorError: `source` is no tensor that tilec can use, or reaches beyond its memory.
        """
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
        """Return a tensor in memory at an address.

        Args:
            pointer: address of the first element.
            shape: the extents.
            dtype: the dtype.
            device: the memory's device.
            strides: in elements; None for a contiguous tensor.
            owner: an object that keeps the memory; None if the caller keeps it.
            nbytes: size in bytes from the address on; None if the caller knows that it suffices.
            driver: the driver of the device; the process's driver for it by default.

        Raises:
            TensorError: the tensor reaches beyond `nbytes`, or its address is not aligned.
        """
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
        tensor._moved = None  # noqa: SLF001 - an object of this class
        return tensor

    # Moves

    def move(self, holder: Holder) -> Tensor:
        """Return the same tensor for a new owner; this object is moved.

        Args:
            holder: the new owner, for messages.

        Raises:
            UseAfterMoveError: it was moved before.
            BorrowError: it is leased.
        """
        with LOCK:
            self.require(holder)
            self.lease.move(holder)
            self._moved, self.usable = holder, False
        return self._of(self.storage, self.facts)

    def hold(self, number: int, holder: Holder, *, write: bool) -> None:
        """Claim all of it for an op; until the op has run, no other use is allowed."""
        lease = self.lease
        if lease.taken or not self.usable:
            if self.usable and any(claim.holder is holder for claim in lease.claims):
                message = f"{holder} cannot take {self.noun} twice: it moves in with the first of its places"
                fix = "share() it, or pass a view, to read it in several places"
                raise UseAfterMoveError(message, fix=fix)
            self.require(holder)
            lease.require_free(holder)
        if write:
            self.require_mutable(holder)
        lease.taken[number] = Claim(holder, writes=True, moved=True)

    def reshape(self, *shape: Any) -> Tensor:
        """Return the same memory in another shape; this object is moved.

        One extent may be -1.

        Raises:
            TensorError: the number of elements differs, or the tensor is not contiguous.
            OwnershipError: it is not free to move.
        """
        new = reshaped(self.shape, self.strides, shape[0] if len(shape) == 1 else shape)
        checked_packing(self.dtype, new)
        moved = self.move(holder_here("reshape"))
        return self._of(
            moved.storage, facts_of(moved.storage, new, self.dtype, start=self.facts.ptr)
        )

    def reinterpret(self, dtype: Any, *shape: Any) -> Tensor:
        """Return the same bytes as another dtype; this object is moved.

        Raises:
            TensorError: the number of bytes differs, the tensor is not contiguous, or it is not
                aligned to the elements.
            OwnershipError: it is not free to move.
        """
        facts = recast(self.facts, self.storage, dtype_name(dtype), shape)
        return self._of(self.move(holder_here("reinterpret")).storage, facts)

    def share(self) -> SharedTensor:
        """Return the same tensor for many readers and no writer; this object is moved.

        Raises:
            OwnershipError: it is not free to move.
        """
        return SharedTensor(self.move(holder_here("share")).storage, self.facts)

    def partition(self, *tile: Any) -> Partition[Tensor]:
        """Cut it into tiles that a kernel writes, one per block.

        The tensor is moved until `unpartition`.

        Raises:
            TensorError: the tile has another rank, or an extent below 1.
            OwnershipError: it is not free to move.
        """
        holder = self._cutting(tile, "the partition")
        return Partition(self.move(holder), tile)

    def partition_prefix(self, *tile: Any) -> Partition[Tensor]:
        """Partition it for kernels with fewer blocks, which write the first tiles.

        Raises:
            TensorError: the tile has another rank, or an extent below 1.
            OwnershipError: it is not free to move.
        """
        holder = self._cutting(tile, "the partition")
        return Partition(self.move(holder), tile, prefix=True)

    # Borrows

    def borrow_mut(self) -> TensorMut:
        """Return a mutable borrow for a `with` block.

        Until its end, no other use is allowed.

        Raises:
            OwnershipError: it was moved, or it is leased.
        """
        holder = holder_here("the mutable borrow")
        self.require(holder)
        self.require_mutable(holder)
        return TensorMut(self.storage, self.facts, self.claim(holder, write=True))

    def partition_mut(self, *tile: Any) -> Partition[TensorMut]:
        """Cut it into tiles in place.

        No other use of the tensor is allowed until the partition is released or deleted.

        Raises:
            TensorError: the tile has another rank, or an extent below 1.
            OwnershipError: it was moved, or it is leased.
        """
        holder = self._cutting(tile, "the partition in place")
        return Partition(TensorMut(self.storage, self.facts, self.claim(holder, write=True)), tile)

    def _cutting(self, tile: tuple[Any, ...], name: str) -> Holder:
        """Check that the tensor can be cut; return the holder of the partition."""
        Partition.check(self, tile)
        holder = holder_here(name)
        self.require(holder)
        self.require_mutable(holder)
        return holder

    def require(self, holder: Holder) -> None:
        """Check that it was not moved, and is not owned by an op that has not run.

        Raises:
            UseAfterMoveError: it has another owner, which the message names.
        """
        if not self.usable:
            assert self._moved is not None
            raise moved_error(holder, self._moved)
        self.lease.require(holder)

    def _state(self) -> str:
        return f", moved into {self._moved}" if self._moved else ""


class TensorMut(Borrow, Lendable["TensorMut"]):
    """A mutable borrow of a tensor or a part of one.

    It ends with its `with` block, or by `release`. Its views and slices write too. Each borrows its
    elements from this borrow. Until a part is released or deleted, the whole borrow cannot be used,
    and further parts must not share memory with it.
    """

    __slots__ = ()

    noun = "the mutable borrow"

    def partition(self, *tile: Any) -> Partition[TensorMut]:
        """Cut it into tiles in place.

        Raises:
            TensorError: the tile has another rank, or an extent below 1.
            BorrowError: the borrow has ended, or is leased itself.
        """
        Partition.check(self, tile)
        holder = holder_here("the partition in place")
        return Partition(TensorMut(self.storage, self.facts, self.lease.write(holder)), tile)

    def _part(self, holder: Holder, layout: tuple[Shape, Shape, int]) -> TensorMut:
        facts = with_layout(self.storage, self.facts, layout, readonly=False)
        return TensorMut(self.storage, facts, self.lease.write(holder, part=facts))


class SharedTensor(Readable):
    """One of several owners of a tensor, which all read.

    Passing it on needs no copy. `clone`, `reshape` and `reinterpret` make further owners. The
    memory is freed with the last owner. A single owner gets the tensor back by `try_unwrap`.
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
        self._owners[self._number] = holder_here("the shared tensor")

    @property
    def owners(self) -> int:
        """Number of owners."""
        return len(self._owners)

    def clone(self) -> SharedTensor:
        """Return another owner.

        Raises:
            UseAfterMoveError: this object is no owner any more.
        """
        self.require(holder_here("clone"))
        return SharedTensor(self.storage, self.facts, self._owners)

    def reshape(self, *shape: Any) -> SharedTensor:
        """Return another owner, with another shape.

        Raises:
            TensorError: the number of elements differs, or the tensor is not contiguous.
        """
        self.require(holder_here("reshape"))
        new = reshaped(self.shape, self.strides, shape[0] if len(shape) == 1 else shape)
        return SharedTensor(
            self.storage,
            facts_of(self.storage, new, self.dtype, start=self.facts.ptr),
            self._owners,
        )

    def reinterpret(self, dtype: Any, *shape: Any) -> SharedTensor:
        """Return another owner, of the same bytes as another dtype.

        Raises:
            TensorError: the number of bytes differs, the tensor is not contiguous, or it is not
                aligned to the elements.
        """
        self.require(holder_here("reinterpret"))
        return SharedTensor(
            self.storage, recast(self.facts, self.storage, dtype_name(dtype), shape), self._owners
        )

    def try_unwrap(self) -> Tensor:
        """Return the tensor itself if this is its single owner, which is moved.

        Raises:
            OwnershipError: there are other owners, or readers.
            UseAfterMoveError: this object is no owner any more.
        """
        return self._unwrap(holder_here("try_unwrap"))

    def _unwrap(self, holder: Holder) -> Tensor:
        with LOCK:
            self.require(holder)
            owners = self._owners.copy()  # an atomic copy, because owners leave without the lock
            others = [owner for number, owner in owners.items() if number != self._number]
            if others:
                listed = ", ".join(str(owner) for owner in others[:3])
                message = f"{holder} cannot take the tensor: it has {len(others) + 1} owners, among them {listed}"
                raise OwnershipError(message, fix="drop() the others first")
            self.lease.require_free(holder, "taken by")
            self.lease.move(holder)
            self._leave(holder)
        facts = self.facts
        return Tensor(self.storage, facts.shape, facts.dtype, facts.stride, address=facts.ptr)

    def try_partition(self, *tile: Any) -> Partition[Tensor]:
        """Partition the tensor if this is its single owner, which is moved.

        Raises:
            OwnershipError: there are other owners, or readers.
            TensorError: the tile does not fit.
        """
        Partition.check(self, tile)
        return Partition(self._unwrap(holder_here("try_partition")), tile)

    def drop(self) -> None:
        """Give up ownership. Further calls do nothing."""
        if self._gone is None:
            self._leave(holder_here("drop"))

    def require(self, holder: Holder) -> None:
        """Check that this object is an owner.

        Raises:
            UseAfterMoveError: it is no owner any more.
        """
        if self._gone is not None:
            raise UseAfterMoveError(
                f"{holder} cannot use the shared tensor: it went into {self._gone}",
                fix=hinted("clone() it before"),
            )

    def _leave(self, holder: Holder) -> None:
        self._gone = holder
        self.usable = False
        self._owners.pop(self._number, None)

    def __del__(self) -> None:
        """Give up ownership in one atomic step: any thread may finalize the object."""
        if hasattr(self, "_number"):
            self._owners.pop(self._number, None)

    def _state(self) -> str:
        return (
            f", went into {self._gone}"
            if self._gone
            else f", {self.owners} owner{'s' if self.owners > 1 else ''}"
        )
