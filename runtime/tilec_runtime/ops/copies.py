"""Ops that copy a tensor's contents in stream order: on its device, to the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, final

from tilec_runtime.device.layout import ON_CPU, Shape
from tilec_runtime.device.seam import CopyKind
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.holding import HoldingOp
from tilec_runtime.tensors import host
from tilec_runtime.tensors.contents import array_over, has_wide_gaps, pinned_bytes
from tilec_runtime.tensors.copies import CopyCall, boxes, byte_layout
from tilec_runtime.tensors.described import Described, facts_of
from tilec_runtime.tensors.lease import holder_here
from tilec_runtime.tensors.storage import Storage

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

T = TypeVar("T")
# Makes a tensor from a storage, a shape and a dtype.
Make = Callable[[Storage, Shape, str], T]


@final
class ToHost(HoldingOp["Array"]):
    """An op that copies a tensor's contents to a NumPy array.

    Packed elements are unpacked on the device, so that the array is complete when the op is.
    """

    def __init__(self, tensor: Described, out: Array | None) -> None:
        """Claim the tensor.

        Raises:
            TensorError: `out` is given for a packed dtype or does not fit, or the strides cannot be
                copied.
            OwnershipError: the tensor cannot be read.
        """
        self._out = None if out is None else host.checked_out(out, tensor.dtype, tensor.shape)
        if self._out is not None:
            if DTYPES[tensor.dtype].packed:
                raise packed_error(tensor.dtype)
            if not self._out.flags.c_contiguous:
                raise TensorError(
                    "out is not C-contiguous",
                    fix="pass a C-contiguous array, or use t.to_host(out=...), which waits",
                )
        elif DTYPES[tensor.dtype].packed:
            boxes((layout := byte_layout(tensor.facts)).dense, layout)  # report too many calls now
        self._hold(holder_here("to_host"), (tensor,))

    def _work(self, ctx: ExecutionContext, *values: Any) -> Array:
        if self._out is None:
            ctx.refuse_capture(
                "to_host without out",
                cause="the array would be one and the same for all replays",
                fix="pass out=api.pinned(shape, dtype), or copy after the graph",
            )
        source: Described = values[0]
        facts, layout = source.facts, byte_layout(source.facts)
        ctx.reads(source.storage)
        if DTYPES[facts.dtype].packed:
            source = _spread(ctx, source)
            wanted = layout = byte_layout(source.facts)
        else:
            wanted = layout.dense if self._out is not None or has_wide_gaps(layout) else layout
        if self._out is not None:
            array, memory = self._out, self._out.reshape(-1).view("u1")
        else:
            memory = pinned_bytes(ctx.driver, ctx.device, wanted.reach)
            array = array_over(memory, source.facts, wanted).view(host.numpy_dtype(facts.dtype))
        if layout.nbytes:
            ctx.keep(memory)
            if wanted.stride != layout.stride:
                dense = scratch(ctx, (wanted.nbytes,), "u8")
                copy_boxes(ctx, boxes(wanted, layout), dense, source)
                source = dense
            kind = CopyKind.ON_HOST if on_host(source) else CopyKind.TO_HOST
            ctx.driver.copy_async(
                ctx.device,
                memory.ctypes.data,
                source.facts.ptr,
                wanted.reach,
                ctx.stream,
                kind,
            )
        return array


@final
class Dup(HoldingOp[T]):
    """An op that makes a contiguous copy of a tensor in new memory."""

    def __init__(self, tensor: Described, make: Make[T]) -> None:
        """Claim the tensor.

        Raises:
            TensorError: the copy would take too many calls of the driver.
            OwnershipError: the tensor cannot be read.
        """
        layout = byte_layout(tensor.facts)
        self._boxes = boxes(layout.dense, layout)
        self._make = make
        self._hold(holder_here("dup"), (tensor,))

    def _work(self, ctx: ExecutionContext, *values: Any) -> T:
        source: Described = values[0]
        return self._make(dense_copy(ctx, source, self._boxes).storage, source.shape, source.dtype)


def new_storage(ctx: ExecutionContext, shape: Shape, dtype: str) -> Storage:
    """Return new memory of a tensor that an execution writes."""
    size = DTYPES[dtype].size_of(math.prod(shape))
    storage = Storage.allocate(ctx.driver, ctx.device, size, ctx.stream, ctx.pool)
    ctx.writes(storage)
    return storage


def scratch(ctx: ExecutionContext, shape: Shape, dtype: str) -> Described:
    """Return a description of new memory that an execution writes."""
    storage = new_storage(ctx, shape, dtype)
    return Described(storage, facts_of(storage, shape, dtype), storage.lease)


def dense_copy(ctx: ExecutionContext, source: Described, calls: list[CopyCall]) -> Described:
    """Copy a tensor to new memory without gaps."""
    ctx.reads(source.storage)
    target = scratch(ctx, source.shape, source.dtype)
    copy_boxes(ctx, calls, target, source)
    return target


def copy_boxes(
    ctx: ExecutionContext, calls: list[CopyCall], target: Described, source: Described
) -> None:
    """Copy a tensor to another one on the same device, by planned calls."""
    if on_host(target):
        kind = CopyKind.ON_HOST if on_host(source) else CopyKind.TO_HOST
    else:
        kind = CopyKind.TO_DEVICE if on_host(source) else CopyKind.ON_DEVICE
    to, of = target.facts.ptr, source.facts.ptr
    for call in calls:
        ctx.driver.copy_box(
            ctx.device, to + call.target, of + call.source, call.box, ctx.stream, kind
        )


def on_host(tensor: Described) -> bool:
    """Return whether a tensor of the cpu device is in another library's memory."""
    return tensor.storage.ordinal == ON_CPU and tensor.storage.foreign


def packed_error(name: str) -> TensorError:
    """Return the error for a copy of packed elements to one element per byte."""
    return TensorError(
        f"elements of {name} share bytes, and a device does not copy them to an array that is there and has one in each byte",
        fix='use the op without `out`, or t.to_host(out=...), which waits; or take the bytes: t.reinterpret("u8") first',
    )


def _spread(ctx: ExecutionContext, source: Described) -> Described:
    """Unpack a tensor's elements to one per byte, on the device."""
    from tilec_runtime.kernels import recipes  # only packed dtypes need it and its bundle

    layout = byte_layout(source.facts)
    pairs = dense_copy(ctx, source, boxes(layout.dense, layout))
    codes = scratch(ctx, source.shape, "u8")
    recipes.spread(ctx, codes, pairs)
    return codes
