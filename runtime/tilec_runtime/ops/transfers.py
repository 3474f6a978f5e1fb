"""Ops that copy host arrays to new tensors, and contents to existing tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from tilec_runtime.device.layout import Shape, contiguous_stride, may_overlap, overlaps_itself
from tilec_runtime.device.seam import CopyKind
from tilec_runtime.errors import AliasError, TensorError
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.copies import copy_boxes, new_storage, on_host
from tilec_runtime.ops.holding import HoldingOp
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors import host
from tilec_runtime.tensors.contents import pinned_bytes
from tilec_runtime.tensors.copies import boxes, byte_layout
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.lease import holder_here
from tilec_runtime.tensors.staging import staging_of
from tilec_runtime.tensors.storage import Storage
from tilec_runtime.tensors.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# Most bytes of a host array that are staged in pinned memory for a copy on the op's stream. The
# driver copies larger arrays as fast from pageable memory (10 GB/s on an H100), on a stream of its
# own.
_SMALL = 64 << 10
_READ_ONCE = "the array is read while the op is enqueued, and a graph would copy the same contents again and again"


def new_tensor(ctx: ExecutionContext, shape: Shape, dtype: str) -> Tensor:
    """Return a tensor in new memory that an execution writes."""
    return Tensor(new_storage(ctx, shape, dtype), shape, dtype)


@final
class FromHost(DeviceOp[Tensor]):
    """An op that makes a new tensor with the contents of a host array."""

    def __init__(self, source: Any) -> None:
        """Keep the array until the op runs.

        Raises:
            TensorError: the array cannot become a tensor.
        """
        self._array: Array | None = host.as_array(source)
        self._dtype = host.dtype_of(self._array)

    @property
    def name(self) -> str:
        """Always `from_host`."""
        return "from_host"

    def _execute(self, ctx: ExecutionContext) -> Tensor:
        array, self._array = self._array, None
        assert array is not None
        ctx.refuse_capture(
            "from_host",
            cause=_READ_ONCE,
            fix="make the tensor before, and update it: graph.update(api.memcpy(t, x))",
        )
        memory = host.memory_of(array, self._dtype)
        if memory.nbytes <= _SMALL:
            tensor = new_tensor(ctx, array.shape, self._dtype)
            _send(ctx, tensor, memory)
            return tensor
        # The memory is new, so the copy need not wait for this stream's work.
        staging = staging_of(ctx.driver, ctx.device)
        storage = Storage.allocate(ctx.driver, ctx.device, memory.nbytes, staging.stream, ctx.pool)
        ctx.driver.copy_in(
            ctx.device, storage.address, memory.ctypes.data, memory.nbytes, staging.stream
        )
        storage.use(staging.line, write=True)
        ctx.writes(storage)
        return Tensor(storage, array.shape, self._dtype)


@final
class Memcpy(HoldingOp[None]):
    """An op that copies one tensor's contents to another.

    It allocates nothing, so that a graph can replay it.
    """

    _graph_node_: ClassVar[Literal[True]] = True

    def __init__(self, target: Described, source: Described) -> None:
        """Claim both tensors.

        Raises:
            TensorError: the contents do not fit, or the copy would take too many calls of the
                driver.
            AliasError: the tensors share memory.
            OwnershipError: a tensor cannot be read or written.
        """
        holder, to, of = holder_here("memcpy"), target.facts, source.facts
        _check_fits(target, of.dtype, of.shape, dense=source.is_contiguous)
        if target is source or may_overlap(to, of):  # an empty tensor does not overlap itself
            raise AliasError(
                f"memcpy: the source {source!r} shares memory with the target {target!r}",
                cause=f"the source is {source._tilec_origin_} and the target {target._tilec_origin_}, in {holder}",
                fix="copy it first (dup)",
            )
        there = byte_layout(to)
        # Two tensors of different shapes both have no gaps.
        self._boxes = boxes(there, byte_layout(of) if to.shape == of.shape else there)
        self._hold(holder, (target, source), (0,))

    def _work(self, ctx: ExecutionContext, *values: Any) -> None:
        target, source = values
        ctx.reads(source.storage)
        ctx.writes(target.storage)
        copy_boxes(ctx, self._boxes, target, source)


@final
class Upload(HoldingOp[None]):
    """An op that copies a host array to an existing tensor."""

    def __init__(self, target: Described, source: Any) -> None:
        """Claim the target, and keep the array until the op runs.

        Raises:
            TensorError: the array cannot become a tensor or does not fit, or the target has gaps.
            OwnershipError: the target cannot be written.
        """
        self._array: Array | None = host.as_array(source)
        self._dtype = host.dtype_of(self._array)
        _check_fits(target, self._dtype, self._array.shape, dense=True)
        if not target.is_contiguous:
            raise TensorError(
                f"memcpy from the host takes a contiguous target, and this is {target!r}",
                fix="copy to the device first: api.from_host(x).then(lambda y: api.memcpy(t, y))",
            )
        self._hold(holder_here("memcpy"), (target,), (0,))

    def _work(self, ctx: ExecutionContext, *values: Any) -> None:
        ctx.refuse_capture(
            "memcpy from the host",
            cause=_READ_ONCE,
            fix="run it before each launch: graph.update(api.memcpy(t, x))",
        )
        array, self._array = self._array, None
        assert array is not None
        ctx.writes(values[0].storage)
        _send(ctx, values[0], host.memory_of(array, self._dtype))


def _send(ctx: ExecutionContext, target: Described, memory: Array) -> None:
    """Stage host memory in pinned memory, and copy that to a tensor in stream order."""
    if memory.nbytes:
        own = pinned_bytes(ctx.driver, ctx.device, memory.nbytes)
        own[...] = memory
        ctx.keep(own)
        kind = CopyKind.ON_HOST if on_host(target) else CopyKind.TO_DEVICE
        ctx.driver.copy_async(
            ctx.device, target.facts.ptr, own.ctypes.data, own.nbytes, ctx.stream, kind
        )


def _check_fits(tensor: Described, dtype: str, shape: Shape, *, dense: bool) -> None:
    """Check that contents can be copied to a tensor element by element.

    The shapes have to be equal, or the numbers of elements if both sides have no gaps (`dense`).
    """
    target = tensor.facts
    in_order = (
        dense
        and target.size == math.prod(shape)
        and target.stride == contiguous_stride(target.shape)
    )
    if target.dtype != dtype or not (target.shape == shape or in_order):
        message = f"memcpy: the source is {dtype} of shape {shape}, and the target {target.dtype} of shape {target.shape}"
        if target.dtype != dtype:
            raise TensorError(
                message,
                cause="a copy changes no dtype",
                fix=f"convert the source: api.convert(source, {target.dtype!r}), or reinterpret one of them",
            )
        raise TensorError(
            message,
            cause="shapes may differ where there are as many elements, and neither side has gaps",
            fix="reshape one of them, or dup() what has gaps",
        )
    if overlaps_itself(target):
        raise AliasError(
            f"memcpy: strides {target.stride} of the target name elements more than once",
            fix="write a tensor of its own",
        )
