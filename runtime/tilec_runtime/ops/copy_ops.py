"""Ops that move the contents of tensors: from the host, to the host, and on the device. They follow
the order of streams.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, final

from tilec_runtime.device.layout import (
    ON_CPU,
    TensorFacts,
    contiguous_stride,
    device_words,
    may_overlap,
    overlaps_itself,
)
from tilec_runtime.device.seam import CopyKind
from tilec_runtime.errors import AliasError, PlacementError, TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.running import refuse_nested
from tilec_runtime.tensors import host
from tilec_runtime.tensors.contents import array_over, contents, has_wide_gaps, pinned_bytes
from tilec_runtime.tensors.copies import Box, ByteLayout, boxes, byte_layout
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.lease import Holder, Lease, holder
from tilec_runtime.tensors.staging import staging_of
from tilec_runtime.tensors.storage import Storage
from tilec_runtime.tensors.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

T = TypeVar("T")
# Bytes of a new tensor up to which they wait for its stream in pinned memory; more go there in
# chunks, on a stream of their own.
_SMALL = 64 << 10
_READ_ONCE = "the array is read while the op is enqueued, and a graph would copy the same contents again and again"


class End:
    """A tensor that a copy starts or ends at: claimed from `take` on, until the copy has run.

    Attributes:
        facts, storage: of the tensor.
    """

    __slots__ = ("_lease", "_who", "_write", "facts", "storage")

    def __init__(self, tensor: Described, who: Holder, *, write: bool = False) -> None:
        """See that the tensor is there, and can be written where it is to be.

        Raises:
            OwnershipError: it was moved, its borrow has ended, or it is there for reading only.
        """
        tensor.require(who)
        if write:
            tensor.require_mutable(who)
        self._who = who
        self._write = write
        self._lease: Lease = tensor.lease  # of the copy once that is taken
        self.storage: Storage = tensor.storage
        self.facts: TensorFacts = tensor._facts  # noqa: SLF001 - used with a lease

    def take(self) -> End:
        """Claim the tensor; itself.

        Raises:
            BorrowError: somebody else uses it.
        """
        lease = self._lease
        self._lease = lease.write(self._who) if self._write else lease.read(self._who)
        return self

    def begin(self, ctx: ExecutionContext) -> None:
        """See that the op may use it where it runs, and let the stream wait for other uses.

        Raises:
            BorrowError: what it was borrowed from has ended. PlacementError: the op runs on another
                device.
        """
        self._lease.require(self._who)
        self.require_here(ctx)
        if self._write:
            ctx.writes(self.storage)
        else:
            ctx.reads(self.storage)

    def require_here(self, ctx: ExecutionContext) -> None:
        """See that a copy runs on the tensor's device.

        Raises:
            PlacementError: it does not.
        """
        if (ctx.driver, ctx.device) != (self.storage.driver, self.storage.ordinal):
            what = f"{self._who.what} of a tensor on {device_words(self.storage.ordinal)} cannot run on {device_words(ctx.device)}"
            raise PlacementError(
                what, fix="run it under use_device, or on a stream of the tensor's device"
            )

    def __enter__(self) -> None:
        """For the time of an execution."""

    def __exit__(self, *_: object) -> None:
        """Give the claim up, however that ended: what comes later is ordered behind this."""
        if self._lease.parent is not None:
            self._lease.release()
            self._lease.parent.let_go()


class Transfer(DeviceOp[T]):
    """An op that claims tensors until it has run, or never will."""

    _ends: tuple[End, ...] = ()

    @property
    def ends(self) -> tuple[End, ...]:
        """Those tensors, whose claims are the caller's now."""
        ends, self._ends = self._ends, ()
        return ends

    def _discard(self) -> None:
        for end in self.ends:
            end.__exit__()

    def _require_here(self, ctx: ExecutionContext) -> None:
        for end in self._ends:
            end.require_here(ctx)
        self._require_captured(ctx)

    def _require_captured(self, ctx: ExecutionContext) -> None:
        """See that it makes sense in a graph, where it is captured."""


@final
class FromHost(DeviceOp[Tensor]):
    """A new tensor with the contents of a host array."""

    def __init__(self, source: Any) -> None:
        """Keep the array until the op runs.

        Raises:
            TensorError: no tensor can be made of it.
        """
        self._array: Array | None = host.as_array(source)
        self._dtype = host.dtype_of(self._array)

    @property
    def name(self) -> str:
        """`from_host`."""
        return "from_host"

    def _require_here(self, ctx: ExecutionContext) -> None:
        ctx.refuse_capture(
            "from_host",
            cause=_READ_ONCE,
            fix="make the tensor before, and update it: graph.update(api.memcpy(t, x))",
        )

    def _execute(self, ctx: ExecutionContext) -> Tensor:
        array, self._array = self._array, None
        assert array is not None
        self._require_here(ctx)
        memory = host.memory_of(array, self._dtype)
        if memory.nbytes <= _SMALL:
            made = Tensor.uninitialized(
                array.shape,
                self._dtype,
                driver=ctx.driver,
                ordinal=ctx.device,
                stream=ctx.stream,
                pool=ctx.pool,
            )
            ctx.writes(made.storage)
            _send(ctx, made.storage, made.storage.address, memory)
            return made
        # New memory is used by no stream: the copy need not wait for what this one has to do.
        staging = staging_of(ctx.driver, ctx.device)
        made = Tensor.uninitialized(
            array.shape,
            self._dtype,
            driver=ctx.driver,
            ordinal=ctx.device,
            stream=staging.stream,
            pool=ctx.pool,
        )
        staging.send(made.storage.address, memory)
        ctx.writes(made.storage)
        return made


@final
class ToHost(Transfer["Array"]):
    """The contents of a tensor as a NumPy array."""

    def __init__(self, tensor: Described, out: Array | None) -> None:
        """Claim the tensor.

        Raises:
            TensorError: the dtype is packed, or `out` does not fit. OwnershipError: the tensor
                cannot be read.
        """
        source = End(tensor, holder("to_host"))
        self._out = None if out is None else host.checked_out(out, tensor.dtype, tensor.shape)
        if DTYPES[tensor.dtype].packed:
            raise packed_error(tensor.dtype)
        if self._out is not None and not self._out.flags.c_contiguous:
            raise TensorError(
                "out is not C-contiguous",
                fix="pass a C-contiguous array, or use t.to_host(out=...), which waits",
            )
        self._ends = (source.take(),)

    @property
    def name(self) -> str:
        """`to_host`."""
        return "to_host"

    def _require_captured(self, ctx: ExecutionContext) -> None:
        if self._out is None:
            cause = "the array would be one and the same for all replays"
            ctx.refuse_capture(
                "to_host without out",
                cause=cause,
                fix="pass out=api.pinned(shape, dtype), or copy after the graph",
            )

    def _execute(self, ctx: ExecutionContext) -> Array:
        (source,) = self.ends
        layout = byte_layout(source.facts)
        with source:
            self._require_captured(ctx)
            source.begin(ctx)
            if self._out is not None:
                found, wanted, memory = self._out, layout.dense, self._out.reshape(-1).view("u1")
            else:
                wanted = layout.dense if has_wide_gaps(layout) else layout
                memory = pinned_bytes(ctx.driver, ctx.device, wanted.reach)
                found = array_over(memory, source.facts, wanted)
            if layout.nbytes:
                _receive(ctx, source, layout, wanted, memory)
        return found


@final
class Dup(Transfer[Tensor]):
    """A contiguous copy of a tensor in memory of its own."""

    def __init__(self, tensor: Described, what: str = "dup") -> None:
        """Claim the tensor.

        Args:
            tensor: of any kind.
            what: whose claim it is, for messages.

        Raises:
            TensorError: the copy would take too many calls of the driver. OwnershipError: the
                tensor cannot be read.
        """
        source = End(tensor, holder(what))
        layout = byte_layout(source.facts)
        self._calls = boxes(layout.dense, layout)
        self._ends = (source.take(),)

    @property
    def name(self) -> str:
        """`dup`."""
        return "dup"

    def _require_captured(self, ctx: ExecutionContext) -> None:
        for source in self._ends:
            ctx.refuse_allocation(DTYPES[source.facts.dtype].size_of(math.prod(source.facts.shape)))

    def _execute(self, ctx: ExecutionContext) -> Tensor:
        (source,) = self.ends
        facts = source.facts
        with source:
            source.begin(ctx)
            made = Tensor.uninitialized(
                facts.shape,
                facts.dtype,
                driver=ctx.driver,
                ordinal=ctx.device,
                stream=ctx.stream,
                pool=ctx.pool,
            )
            ctx.writes(made.storage)
            _copy(
                ctx,
                self._calls,
                made.storage.address,
                facts.ptr,
                _kind(made.storage, source.storage),
            )
        return made


@final
class Memcpy(Transfer[None]):
    """The contents of one tensor for another one. It neither takes nor gives back memory, so a
    graph may hold it.
    """

    _graph_node_: ClassVar[Literal[True]] = True

    def __init__(self, target: Described, source: Described) -> None:
        """Claim both.

        Raises:
            TensorError: the contents do not fit, or the copy would take too many calls of the
                driver. AliasError: they share memory.
            OwnershipError: one cannot be used so.
        """
        who = holder("memcpy")
        written, read = End(target, who, write=True), End(source, who)
        to, of = written.facts, read.facts
        _check_fits(to, of.dtype, of.shape, dense=source.is_contiguous)
        if target is source or may_overlap(to, of):  # the same one without elements shares none
            what = f"memcpy: the source {source!r} shares memory with the target {target!r}"
            cause = f"the source is {source._tilec_origin_} and the target {target._tilec_origin_}, in {who}"
            raise AliasError(what, cause=cause, fix="copy it first (dup)")
        there = byte_layout(to)
        self._calls = boxes(
            there, byte_layout(of) if to.shape == of.shape else there
        )  # of another shape, both lie without gaps
        # One that is refused leaves the other one free.
        with contextlib.ExitStack() as stack:
            stack.enter_context(read.take())
            written.take()
            stack.pop_all()
        self._ends = (written, read)

    @property
    def name(self) -> str:
        """`memcpy`."""
        return "memcpy"

    def _execute(self, ctx: ExecutionContext) -> None:
        target, source = self.ends
        with source, target:
            source.begin(ctx)
            target.begin(ctx)
            _copy(
                ctx,
                self._calls,
                target.facts.ptr,
                source.facts.ptr,
                _kind(target.storage, source.storage),
            )


@final
class Upload(Transfer[None]):
    """The contents of a host array for a tensor that is there."""

    def __init__(self, target: Described, source: Any) -> None:
        """Claim the target, and keep the array until the op runs.

        Raises:
            TensorError: no tensor can be made of the array, it does not fit, or the target has
                gaps.
            OwnershipError: the target cannot be written.
        """
        self._array: Array | None = host.as_array(source)
        self._dtype = host.dtype_of(self._array)
        written = End(target, holder("memcpy"), write=True)
        _check_fits(written.facts, self._dtype, self._array.shape, dense=True)
        if not target.is_contiguous:
            what = f"memcpy from the host takes a contiguous target, and this is {target!r}"
            raise TensorError(
                what,
                fix="copy to the device first: api.from_host(x).then(lambda y: api.memcpy(t, y))",
            )
        self._ends = (written.take(),)

    @property
    def name(self) -> str:
        """`memcpy`."""
        return "memcpy"

    def _require_captured(self, ctx: ExecutionContext) -> None:
        ctx.refuse_capture(
            "memcpy from the host",
            cause=_READ_ONCE,
            fix="run it before each launch: graph.update(api.memcpy(t, x))",
        )

    def _execute(self, ctx: ExecutionContext) -> None:
        (target,) = self.ends
        array, self._array = self._array, None
        assert array is not None
        memory = host.memory_of(array, self._dtype)
        with target:
            self._require_captured(ctx)
            target.begin(ctx)
            _send(ctx, target.storage, target.facts.ptr, memory)


def read_now(tensor: Described, out: Array | None) -> Array:
    """What `to_host` of tensors does: the contents, once all work on the tensor is done.

    Raises:
        NestedExecutionError: this thread executes an op, whose work on the tensor nobody has noted
            yet.
        TensorError: `out` does not fit. OwnershipError: the tensor cannot be read.
    """
    end = End(tensor, holder("to_host"))
    refuse_nested(_Now())
    if out is not None:
        host.checked_out(out, tensor.dtype, tensor.shape)
    with end.take():
        return contents(end.storage, end.facts, out)


@final
class _Now(DeviceOp[None]):
    """Stands for a transfer that is no op, in messages."""

    @property
    def name(self) -> str:
        """`to_host`."""
        return "to_host"

    def _execute(self, ctx: ExecutionContext) -> None:
        """It is never run."""


def packed_error(name: str) -> TensorError:
    """Elements that share bytes are not copied to an array that is there, which has one in each
    byte.
    """
    what = f"elements of {name} share bytes, and a device does not copy them to an array that is there and has one in each byte"
    return TensorError(
        what,
        fix='use the op without `out`, or t.to_host(out=...), which waits; or take the bytes: t.reinterpret("u8") first',
    )


def _send(ctx: ExecutionContext, storage: Storage, address: int, memory: Array) -> None:
    """Copy host memory to a tensor, when the stream gets there: until then it waits in pinned
    memory, and the host need not.
    """
    if memory.nbytes:
        own = pinned_bytes(ctx.driver, ctx.device, memory.nbytes)
        own[...] = memory
        ctx.keep(own)
        kind = CopyKind.ON_HOST if _on_host(storage) else CopyKind.TO_DEVICE
        ctx.driver.copy_async(ctx.device, address, own.ctypes.data, own.nbytes, ctx.stream, kind)


def _receive(
    ctx: ExecutionContext, source: End, layout: ByteLayout, wanted: ByteLayout, memory: Array
) -> None:
    """Copy a tensor to host memory, with its gaps closed on the device where they are to be; keep
    that memory until it is done.
    """
    ctx.keep(memory)
    address, kind, gathered = (
        source.facts.ptr,
        CopyKind.ON_HOST if _on_host(source.storage) else CopyKind.TO_HOST,
        0,
    )
    if wanted.stride != layout.stride:
        calls = boxes(wanted, layout)
        address = gathered = ctx.malloc_async(wanted.nbytes)
        _copy(ctx, calls, gathered, source.facts.ptr, _kind(None, source.storage))
        kind = CopyKind.TO_HOST
    ctx.driver.copy_async(ctx.device, memory.ctypes.data, address, wanted.reach, ctx.stream, kind)
    if gathered:
        ctx.free_async(gathered)


def _copy(
    ctx: ExecutionContext, calls: list[Box], target: int, source: int, kind: CopyKind
) -> None:
    for call in calls:
        ctx.driver.copy_box(
            ctx.device, target + call.target, source + call.source, call.box, ctx.stream, kind
        )


def _kind(target: Storage | None, source: Storage) -> CopyKind:
    """From where to where a copy goes; without a target, to memory of the device's own."""
    to, of = target is not None and _on_host(target), _on_host(source)
    if to:
        return CopyKind.ON_HOST if of else CopyKind.TO_HOST
    return CopyKind.TO_DEVICE if of else CopyKind.ON_DEVICE


def _on_host(storage: Storage) -> bool:
    """Whether a tensor of the cpu device lies in memory that is not the device's own: that of a
    NumPy array.
    """
    return storage.ordinal == ON_CPU and storage.foreign


def _check_fits(target: TensorFacts, dtype: str, shape: tuple[int, ...], *, dense: bool) -> None:
    """See that contents can go to a tensor element by element: of the same shape, or as many on
    both sides without gaps (`dense`).
    """
    in_order = (
        dense
        and target.size == math.prod(shape)
        and target.stride == contiguous_stride(target.shape)
    )
    if target.dtype != dtype or not (target.shape == shape or in_order):
        what = f"memcpy: the source is {dtype} of shape {shape}, and the target {target.dtype} of shape {target.shape}"
        if target.dtype != dtype:
            cause, fix = (
                "a copy changes no dtype",
                f"convert the source: api.convert(source, {target.dtype!r}), or reinterpret one of them",
            )
        else:
            cause = "shapes may differ where there are as many elements, and neither side has gaps"
            fix = "reshape one of them, or dup() what has gaps"
        raise TensorError(what, cause=cause, fix=fix)
    if overlaps_itself(target):
        raise AliasError(
            f"memcpy: strides {target.stride} of the target name elements more than once",
            fix="write a tensor of its own",
        )
