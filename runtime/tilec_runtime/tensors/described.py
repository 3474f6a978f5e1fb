"""The base of all kinds of tensors: metadata, leases, facts for launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tilec_runtime.device.core import DescribedFields
from tilec_runtime.device.layout import (
    ON_CPU,
    Shape,
    TensorFacts,
    settled_stride,
)
from tilec_runtime.device.scalars import is_whole
from tilec_runtime.errors import BorrowError, TensorError
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES
from tilec_runtime.tensors.facts import UnreadableError
from tilec_runtime.tensors.lease import LOCK, Claim, Holder, Lease
from tilec_runtime.tensors.shapes import checked_packing, reinterpreted
from tilec_runtime.tensors.storage import Storage


def dtype_name(dtype: Any) -> str:
    """Return tilec's name of a dtype.

    Args:
        dtype: that name, or a dtype of NumPy, torch or ml_dtypes, as an object or a name.

    Raises:
        TensorError: there is no such dtype.
    """
    name = str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    if name in DTYPES:
        return name
    if name in BY_NUMPY:
        return BY_NUMPY[name].name
    name = getattr(dtype, "__name__", "")
    if name in BY_NUMPY:
        return BY_NUMPY[name].name
    known = f"known are {', '.join(DTYPES)}"
    if str(dtype) in ("tf32", "tfloat32"):
        raise TensorError(
            f"tf32 is what kernels compute with, and no tensor holds it; {known}",
            fix="use f32, which kernels read as tf32",
        )
    raise TensorError(f"{dtype!r} is no dtype; {known}")


class Described(DescribedFields):
    """Memory with a shape. No method waits for a device.

    Attributes:
        storage: the memory.
        facts: address, shape, strides, dtype.
        lease: the lease of this tensor.
        usable: whether it was neither moved nor dropped.
        noun: the tensor's name in messages.
    """

    __slots__ = ("__weakref__", "storage")

    noun = "the tensor"
    _tilec_leased_ = True

    def __init__(self, storage: Storage, facts: TensorFacts, lease: Lease) -> None:
        """Describe memory; only the kinds of tensors call this."""
        self.storage = storage
        self.uses = storage.uses
        self.lease: Lease = lease
        self.usable = True
        self.facts: TensorFacts = facts

    # Metadata

    @property
    def shape(self) -> Shape:
        """Extents."""
        return self.facts.shape

    @property
    def strides(self) -> Shape:
        """Strides in elements."""
        return self.facts.stride

    @property
    def dtype(self) -> str:
        """tilec's name of the dtype, such as `f32`."""
        return self.facts.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.facts.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.facts.size

    @property
    def itemsize(self) -> int:
        """Bytes of one element; for a packed dtype, bytes of the byte its elements share."""
        return self.facts.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return self.facts.nbytes

    @property
    def is_contiguous(self) -> bool:
        """Whether the layout is dense, with the last dimension innermost."""
        return self.facts.contiguous

    def __len__(self) -> int:
        """Return the extent of the first dimension.

        Raises:
            TypeError: it has no dimensions.
        """
        if not self.shape:
            raise TypeError("a tensor of no dimensions has no length")
        return self.shape[0]

    @property
    def device(self) -> int:
        """Ordinal of the device; -1 for the cpu device."""
        return self.storage.ordinal

    @property
    def readonly(self) -> bool:
        """Whether it cannot be written through this object."""
        return self.facts.readonly

    @property
    def ptr(self) -> int:
        """Address of the first element.

        Raises:
            OwnershipError: it was moved, or its borrow has ended.
        """
        self.require(Holder(name="the address"))
        return self.facts.ptr

    # The same properties under the names of cuTile Rust.
    device_id, num_bytes, device_pointer = device, nbytes, ptr

    def __repr__(self) -> str:
        """Return `<Tensor f32[4, 8] on cuda:0>`; never read the contents."""
        where = "cpu" if self.device == ON_CPU else f"cuda:{self.device}"
        extents = ", ".join(map(str, self.shape))
        steps = "" if self.is_contiguous else f", strides {self.strides}"
        message = f"{type(self).__name__} {self.dtype}[{extents}]{steps}"
        return f"<{message} on {where}{self._state()}>"

    def __reduce__(self) -> NoReturn:
        """Refuse to pickle or copy a tensor, which would give it two owners.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"a {type(self).__name__} can be neither pickled nor copied: copy its contents to the host, or use dup"
        )

    def _state(self) -> str:
        return ""

    @property
    def _tilec_origin_(self) -> str:
        """The tensor for messages; for a borrow, its holder and the line that made it."""
        return repr(self) if self.lease.parent is None else str(self.lease.holder)

    # Use

    def require(self, holder: Holder) -> None:
        """Check that a holder can use it.

        Raises:
            OwnershipError: it was moved, or its borrow has ended.
        """
        self.lease.require(holder)

    def claim(self, holder: Holder, *, write: bool) -> Lease:
        """Take a lease of it.

        Raises:
            OwnershipError: it cannot be used at all, or not in this way now.
        """
        with LOCK:
            self.require(holder)
            return self.lease.write(holder) if write else self.lease.read(holder)

    def hold(self, number: int, holder: Holder, *, write: bool) -> None:
        """Claim it for an op that takes it over, until `give_back`. A borrow is only lent."""
        self.lend(number, holder, write=write)

    def lend(self, number: int, holder: Holder, *, write: bool) -> None:
        """Claim it for an op, until `give_back`. The caller holds `LOCK`.

        Raises:
            OwnershipError: it cannot be used at all, or not in this way now.
        """
        self.require(holder)
        if write:
            self.require_mutable(holder)
        self.lease.take(number, Claim(holder, write))

    def give_back(self, number: int) -> None:
        """End the claim of an op.

        A borrow outside of a `with` block gives up its own claim too, and takes it again at its
        next use.
        """
        self.lease.give_back(number)
        if self.lease.parent is not None:
            self.lease.let_go()

    def require_readable(self, holder: Holder) -> None:
        """Check that a holder may read it now.

        Raises:
            OwnershipError: it cannot be used, or is being written.
        """
        self.require(holder)
        self.lease.require_free_for(Claim(holder, writes=False))

    def require_writable(self, holder: Holder) -> None:
        """Check that a holder may write it now.

        Raises:
            OwnershipError: it cannot be used, is being read or written, or is read-only.
        """
        self.require(holder)
        self.require_mutable(holder)
        self.lease.require_free_for(Claim(holder, writes=True))

    def require_mutable(self, holder: Holder) -> None:
        """Check that it is not read-only.

        Raises:
            BorrowError: it gives read access only.
        """
        if self.facts.readonly:
            message = f"{holder} cannot write {self.noun}: it is there for reading only"
            cause = "views, shared tensors and borrow() give no right to write, nor do read-only arrays of other libraries"
            raise BorrowError(
                message,
                cause=cause,
                fix="use borrow_mut() of what owns the memory and parts of that (m[0:4]), or a copy (dup)",
            )

    # Launches

    def _tilec_facts_(self) -> TensorFacts:
        if not self.usable or self.lease.ended:  # the check of the lease reports the reason
            raise UnreadableError(f"{self.noun} cannot be used now")
        return self.facts


def facts_of(
    storage: Storage,
    shape: Shape,
    dtype: str,
    stride: Shape | None = None,
    *,
    start: int = 0,
    readonly: bool = False,
) -> TensorFacts:
    """Return the facts of a tensor in a storage.

    Args:
        storage: the memory.
        shape: extents.
        dtype: tilec's name.
        stride: in elements; None for a contiguous tensor.
        start: address of the first element; 0 for the start of the storage.
        readonly: whether it must not be written.

    Raises:
        TensorError: elements share bytes, and the last dimension does not fill them.
    """
    checked_packing(dtype, shape, stride)
    return TensorFacts(
        ptr=(start or storage.address) if 0 not in shape else 0,
        shape=shape,
        stride=settled_stride(shape, stride),
        dtype=dtype,
        device=storage.ordinal,
        readonly=readonly or storage.readonly,
    )


def with_layout(
    storage: Storage, facts: TensorFacts, layout: tuple[Shape, Shape, int], *, readonly: bool
) -> TensorFacts:
    """Return the facts of a part of a tensor: shape, strides, and offset in elements."""
    shape, stride, offset = layout
    checked_packing(facts.dtype, shape, stride, offset)
    return facts_of(
        storage,
        shape,
        facts.dtype,
        stride,
        start=facts.ptr + DTYPES[facts.dtype].size_of(offset),
        readonly=readonly,
    )


def recast(facts: TensorFacts, storage: Storage, dtype: str, shape: tuple[Any, ...]) -> TensorFacts:
    """Return the facts of the same bytes as another dtype.

    Without a shape, the result has one dimension.

    Raises:
        TensorError: the number of bytes differs, the tensor is not contiguous, or it is not aligned
            to the elements.
    """
    now, then = DTYPES[facts.dtype], DTYPES[dtype]
    wanted = (shape[0] if len(shape) == 1 else shape) if shape else -1
    new = reinterpreted(facts.shape, facts.stride, (now.bits, then.bits), wanted)
    if facts.ptr % then.bytes:
        raise TensorError(
            f"address {facts.ptr:#x} is not aligned to elements of {then.bytes} bytes ({dtype})"
        )
    return facts_of(storage, new, dtype, start=facts.ptr, readonly=facts.readonly)


def ranges_of(ranges: Sequence[Any]) -> tuple[slice, ...]:
    """Return slices for ranges, which are separate arguments or one list.

    A range is a `(start, stop)` pair, a range of step 1 or a slice.

    Raises:
        TensorError: an argument is not a range.
    """
    if (
        len(ranges) == 1
        and isinstance(ranges[0], (list, tuple))
        and not any(map(is_whole, ranges[0]))
    ):
        ranges = ranges[0]
    slices = []
    for part in ranges:
        if isinstance(part, slice):
            slices.append(part)
        elif isinstance(part, range):
            slices.append(slice(part.start, part.stop, part.step))
        elif isinstance(part, (list, tuple)) and len(part) == 2:
            slices.append(slice(part[0], part[1]))
        else:
            raise TensorError(f"{part!r} is no range", fix="pass (start, stop) pairs or slices")
    return tuple(slices)


def require_tensor(given: Any, caller: str) -> Described:
    """Check that an object is a tensor of tilec, of any kind.

    Raises:
        TensorError: it is not; the message begins with `caller`.
    """
    if isinstance(given, Described):
        return given
    fix = "pass a tensor of tilec, or an op that gives one; Tensor.from_foreign takes those of other libraries"
    raise TensorError(f"{caller} takes a tensor, and got a {type(given).__qualname__}", fix=fix)
