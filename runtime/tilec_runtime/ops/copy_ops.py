"""Ops that move the contents of tensors: from the host, to the host, and on the device. They follow
the order of streams.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, final

from tilec_runtime.device.layout import (
    ON_CPU,
    Shape,
    TensorFacts,
    contiguous_stride,
    may_overlap,
    overlaps_itself,
)
from tilec_runtime.device.seam import CopyKind
from tilec_runtime.errors import AliasError, TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.holding import Held, HoldingOp
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors import host
from tilec_runtime.tensors.contents import array_over, has_wide_gaps, pinned_bytes
from tilec_runtime.tensors.copies import Box, ByteLayout, boxes, byte_layout
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.lease import holder
from tilec_runtime.tensors.staging import staging_of
from tilec_runtime.tensors.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

T = TypeVar("T")
# Bytes of a new tensor up to which they wait for its stream in pinned memory; more go there in
# chunks, on a stream of their own.
_SMALL = 64 << 10
_READ_ONCE = "the array is read while the op is enqueued, and a graph would copy the same contents again and again"


class Transfer(HoldingOp[T]):
    """An op that copies contents, of tensors that it holds."""

    def _require_here(self, ctx: ExecutionContext) -> None:
        super()._require_here(ctx)
        self._require_captured(ctx)

    def _require_captured(self, ctx: ExecutionContext) -> None:
        """See that it makes sense in a graph, where it is captured."""


def new_tensor(ctx: ExecutionContext, shape: Shape, dtype: str) -> Tensor:
    """Return a tensor in new memory that an execution writes."""
    made = _uninitialized(ctx, shape, dtype, ctx.stream)
    ctx.writes(made.storage)
    return made


def _uninitialized(ctx: ExecutionContext, shape: Shape, dtype: str, stream: int) -> Tensor:
    return Tensor.uninitialized(
        shape, dtype, driver=ctx.driver, ordinal=ctx.device, stream=stream, pool=ctx.pool
    )


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
            made = new_tensor(ctx, array.shape, self._dtype)
            _send(ctx, made, memory)
            return made
        # New memory is used by no stream: the copy need not wait for what this one has to do.
        staging = staging_of(ctx.driver, ctx.device)
        made = _uninitialized(ctx, array.shape, self._dtype, staging.stream)
        staging.send(made.storage.address, memory)
        made.storage.use(staging.line, write=True)
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
        who = holder("to_host")
        tensor.require(who)
        self._out = None if out is None else host.checked_out(out, tensor.dtype, tensor.shape)
        if DTYPES[tensor.dtype].packed:
            raise packed_error(tensor.dtype)
        if self._out is not None and not self._out.flags.c_contiguous:
            raise TensorError(
                "out is not C-contiguous",
                fix="pass a C-contiguous array, or use t.to_host(out=...), which waits",
            )
        self._held = Held(who, (tensor,), moved=False)

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
        with self._taken() as held:
            self._require_captured(ctx)
            source = held.tensor(ctx)
            layout = byte_layout(source.facts)
            ctx.reads(source.storage)
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
class PackedToHost(Transfer["Array"]):
    """The contents of a tensor whose elements share bytes, one element in a byte: they are taken
    apart on the device, so that the array is complete when the op is.
    """

    def __init__(self, tensor: Described) -> None:
        """Claim the tensor.

        Raises:
            TensorError: it has strides that cannot be copied. OwnershipError: it cannot be read.
        """
        self._copy = Dup(tensor, "to_host")
        self._held = None

    @property
    def name(self) -> str:
        """`to_host`."""
        return "to_host"

    def _execute(self, ctx: ExecutionContext) -> Array:
        from tilec_runtime.kernels import (
            recipes,
        )  # which need not be there to copy what is whole bytes

        pairs = ctx.run(self._copy)
        codes = new_tensor(ctx, pairs.shape, "u8")
        recipes.spread(ctx, recipes.Place.of(codes), recipes.Place.of(pairs))
        return ctx.run(ToHost(codes, None)).view(host.numpy_dtype(pairs.dtype))

    def _discard(self) -> None:
        self._copy._discard()  # noqa: SLF001 - an op too

    def _require_here(self, ctx: ExecutionContext) -> None:
        self._copy._require_here(ctx)  # noqa: SLF001 - an op too


def to_host_op(tensor: Described, out: Array | None) -> DeviceOp[Array]:
    """An op that gives the contents of a tensor.

    Raises:
        TensorError: `out` does not fit, or the dtype is packed and there is `out`. OwnershipError:
            the tensor cannot be read.
    """
    packed = out is None and DTYPES[tensor.dtype].packed
    return PackedToHost(tensor) if packed else ToHost(tensor, out)


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
        who = holder(what)
        tensor.require(who)
        layout = byte_layout(tensor.facts)
        self._calls = boxes(layout.dense, layout)
        self._nbytes = tensor.nbytes
        self._held = Held(who, (tensor,), moved=False)

    @property
    def name(self) -> str:
        """`dup`."""
        return "dup"

    def _require_captured(self, ctx: ExecutionContext) -> None:
        ctx.refuse_allocation(self._nbytes)

    def _execute(self, ctx: ExecutionContext) -> Tensor:
        with self._taken() as held:
            source = held.tensor(ctx)
            ctx.reads(source.storage)
            made = new_tensor(ctx, source.shape, source.dtype)
            _copy(ctx, self._calls, made, source)
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
        target.require(who)
        target.require_mutable(who)
        source.require(who)
        to, of = target.facts, source.facts
        _check_fits(to, of.dtype, of.shape, dense=source.is_contiguous)
        if target is source or may_overlap(to, of):  # the same one without elements shares none
            what = f"memcpy: the source {source!r} shares memory with the target {target!r}"
            cause = f"the source is {source._tilec_origin_} and the target {target._tilec_origin_}, in {who}"
            raise AliasError(what, cause=cause, fix="copy it first (dup)")
        there = byte_layout(to)
        self._calls = boxes(
            there, byte_layout(of) if to.shape == of.shape else there
        )  # of another shape, both lie without gaps
        self._held = Held(who, (target, source), (0,), moved=False)

    @property
    def name(self) -> str:
        """`memcpy`."""
        return "memcpy"

    def _execute(self, ctx: ExecutionContext) -> None:
        with self._taken() as held:
            held.require_here(ctx)
            target, source = held.ready(ctx)
            ctx.reads(source.storage)
            ctx.writes(target.storage)
            _copy(ctx, self._calls, target, source)


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
        who = holder("memcpy")
        target.require(who)
        target.require_mutable(who)
        _check_fits(target.facts, self._dtype, self._array.shape, dense=True)
        if not target.is_contiguous:
            what = f"memcpy from the host takes a contiguous target, and this is {target!r}"
            raise TensorError(
                what,
                fix="copy to the device first: api.from_host(x).then(lambda y: api.memcpy(t, y))",
            )
        self._held = Held(who, (target,), (0,), moved=False)

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
        with self._taken() as held:
            array, self._array = self._array, None
            assert array is not None
            memory = host.memory_of(array, self._dtype)
            self._require_captured(ctx)
            target = held.tensor(ctx)
            ctx.writes(target.storage)
            _send(ctx, target, memory)


def packed_error(name: str) -> TensorError:
    """Elements that share bytes are not copied to an array that is there, which has one in each
    byte.
    """
    what = f"elements of {name} share bytes, and a device does not copy them to an array that is there and has one in each byte"
    return TensorError(
        what,
        fix='use the op without `out`, or t.to_host(out=...), which waits; or take the bytes: t.reinterpret("u8") first',
    )


def _send(ctx: ExecutionContext, target: Described, memory: Array) -> None:
    """Copy host memory to a tensor, when the stream gets there: until then it waits in pinned
    memory, and the host need not.
    """
    if memory.nbytes:
        own = pinned_bytes(ctx.driver, ctx.device, memory.nbytes)
        own[...] = memory
        ctx.keep(own)
        kind = CopyKind.ON_HOST if _on_host(target) else CopyKind.TO_DEVICE
        ctx.driver.copy_async(
            ctx.device, target.facts.ptr, own.ctypes.data, own.nbytes, ctx.stream, kind
        )


def _receive(
    ctx: ExecutionContext, source: Described, layout: ByteLayout, wanted: ByteLayout, memory: Array
) -> None:
    """Copy a tensor to host memory, with its gaps closed on the device where they are to be; keep
    that memory until it is done.
    """
    ctx.keep(memory)
    if wanted.stride != layout.stride:
        dense = new_tensor(ctx, (wanted.nbytes,), "u8")
        _copy(ctx, boxes(wanted, layout), dense, source)
        source = dense
    kind = CopyKind.ON_HOST if _on_host(source) else CopyKind.TO_HOST
    target = memory.ctypes.data
    ctx.driver.copy_async(ctx.device, target, source.facts.ptr, wanted.reach, ctx.stream, kind)


def _copy(ctx: ExecutionContext, calls: list[Box], target: Described, source: Described) -> None:
    if _on_host(target):
        kind = CopyKind.ON_HOST if _on_host(source) else CopyKind.TO_HOST
    else:
        kind = CopyKind.TO_DEVICE if _on_host(source) else CopyKind.ON_DEVICE
    to, of = target.facts.ptr, source.facts.ptr
    for call in calls:
        ctx.driver.copy_box(
            ctx.device, to + call.target, of + call.source, call.box, ctx.stream, kind
        )


def _on_host(tensor: Described) -> bool:
    """Whether a tensor of the cpu device lies in memory that is not the device's own: that of a
    NumPy array.
    """
    return tensor.storage.ordinal == ON_CPU and tensor.storage.foreign


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
