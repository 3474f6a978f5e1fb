"""The ops that make, fill and convert tensors, and their checks.

All checks come before any work is enqueued.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, final

from tilec_runtime.device.layout import byte_range
from tilec_runtime.device.scalars import encoded, is_number, packed_format, refusal, shown
from tilec_runtime.errors import CallError, TensorError
from tilec_runtime.kernels import CODES, recipes
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.copies import dense_copy
from tilec_runtime.ops.holding import HoldingOp
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.ops.transfers import new_tensor
from tilec_runtime.tensors.copies import CopyCall, boxes, byte_layout
from tilec_runtime.tensors.described import Described, dtype_name
from tilec_runtime.tensors.lease import holder_here
from tilec_runtime.tensors.shapes import checked_packing, checked_shape
from tilec_runtime.tensors.tensor import Tensor

# Dtypes that the kernels support; dtypes without a zero, or with too few numbers to count.
SUPPORTED = tuple(CODES)
NOT_COUNTED = ("bool", "f8e8m0", *(name for name in DTYPES if name not in CODES))
# The largest tensor that virtual addresses allow, in bytes.
_MOST = 1 << 48
# Bits of the largest integers that f64 can hold.
_BITS = 1023


@final
class Make(DeviceOp[Tensor]):
    """An op that makes a tensor and fills it."""

    def __init__(
        self, what: str, shape: tuple[int, ...], dtype: str, recipe: recipes.Recipe | None
    ) -> None:
        """Keep arguments that were checked.

        Args:
            what: the function, for messages.
            shape: extents.
            dtype: tilec's name.
            recipe: fills the tensor; None leaves it uninitialized.
        """
        self._what, self._shape, self._dtype, self._recipe = what, shape, dtype, recipe

    @property
    def name(self) -> str:
        """For example `zeros`."""
        return self._what

    def _execute(self, ctx: ExecutionContext) -> Tensor:
        tensor = new_tensor(ctx, self._shape, self._dtype)
        if self._recipe is not None:
            recipes.enqueue(self._recipe, ctx, tensor)
        return tensor


@final
class FillIn(HoldingOp[Any]):
    """An op that sets all elements of an existing tensor, and returns it.

    It holds the tensor as a launch does.
    """

    _graph_node_: ClassVar[Literal[True]] = True

    def __init__(self, tensor: Described, recipe: recipes.Fill) -> None:
        """Hold the tensor.

        Raises:
            OwnershipError: it cannot be written.
        """
        self._recipe = recipe
        self._hold(holder_here("fill"), (tensor,), (0,), moved=True)

    def _work(self, ctx: ExecutionContext, *values: Any) -> Any:
        (tensor,) = values
        ctx.writes(tensor.storage)
        recipes.enqueue(self._recipe, ctx, tensor)
        return tensor


@final
class Convert(HoldingOp[Tensor]):
    """An op that converts the elements of a tensor to another dtype, in new memory."""

    def __init__(self, source: Described, dtype: str) -> None:
        """Claim the tensor for reading, until the op has run.

        Raises:
            OwnershipError: it cannot be read.
            TensorError: its strides cannot be copied, or packed elements would not fill their
                bytes.
        """
        checked_packing(dtype, source.shape)
        self._dtype = dtype
        # The kernels read contiguous elements, so gaps are closed first. For the same dtype, that
        # copy is the result.
        self._boxes: list[CopyCall] | None = None
        if not source.is_contiguous or source.dtype == dtype:
            layout = byte_layout(source.facts)
            self._boxes = boxes(layout.dense, layout)
        self._hold(holder_here("convert"), (source,))

    def _work(self, ctx: ExecutionContext, *values: Any) -> Tensor:
        source: Described = values[0]
        if self._boxes is not None:
            source = dense_copy(ctx, source, self._boxes)
            if source.dtype == self._dtype:
                return Tensor(source.storage, source.shape, source.dtype)
        ctx.reads(source.storage)
        tensor = new_tensor(ctx, source.shape, self._dtype)
        recipes.convert(ctx, tensor, source)
        return tensor


def known(function: str, dtype: Any, *, but: tuple[str, ...] = ()) -> str:
    """Return the name of a dtype that a function supports.

    Args:
        function: the function, for messages.
        dtype: tilec's name, or a dtype of NumPy or torch.
        but: dtypes that the function does not support.

    Raises:
        TensorError: there is no such dtype, or the function does not support it.
    """
    name = dtype_name(dtype)
    if name in but:
        raise TensorError(
            f"{function} makes no tensors of {name}",
            fix=f"take one of {', '.join(d for d in DTYPES if d not in but)}",
        )
    return name


def sized(function: str, shape: Any, dtype: str) -> tuple[int, ...]:
    """Return the extents of a new tensor.

    Raises:
        TensorError: the shape is not valid, has a negative extent, or exceeds virtual addresses.
    """
    extents = checked_shape(shape)
    checked_packing(dtype, extents)
    nbytes = DTYPES[dtype].size_of(math.prod(extents))
    if nbytes >= _MOST:
        function = f"{function}: a tensor of {dtype} and shape {extents} has {nbytes} bytes, and no device has as much memory"
        raise TensorError(function, cause="extents multiply", fix="check the shape")
    return extents


def filled(function: str, value: Any, dtype: str) -> recipes.Fill:
    """Return the recipe that fills a tensor with a value.

    Raises:
        TensorError: the dtype cannot hold the value.
    """
    row = DTYPES[dtype]
    if not is_number(value):
        raise TensorError(
            f"{function}: the value is a {type(value).__qualname__}, and elements are numbers"
        )
    why = refusal(value, dtype)
    if why:
        raise TensorError(f"{function}: the value {why}")
    bits = int.from_bytes(encoded(packed_format(dtype), value), "little")
    if row.packed:
        bits = sum(bits << row.bits * index for index in range(row.per_byte))
    return recipes.Fill(bits=bits)


def real(function: str, name: str, value: Any) -> float:
    """Return a number that is not a bool.

    Raises:
        CallError: the value is not a number, is not finite, or exceeds f64.
    """
    plain = value.item() if is_number(value) and hasattr(value, "item") else value
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        raise CallError(f"{function}: {name} is {shown(value)}, and must be a number")
    if isinstance(plain, int) and plain.bit_length() > _BITS:
        raise CallError(
            f"{function}: {name} is an integer of {plain.bit_length()} bits, which f64 cannot hold"
        )
    if not math.isfinite(plain):
        raise CallError(f"{function}: {name} is {plain!r}, and must be finite")
    return plain


def dense(tensor: Described) -> None:
    """Check that a tensor's elements have no gaps, in any order of its dimensions.

    Raises:
        TensorError: there are gaps.
    """
    first, end = byte_range(tensor.facts)
    if end - first != tensor.nbytes:
        message = f"fill: the elements of {tensor!r} do not lie side by side: other memory is between them"
        raise TensorError(
            message, fix="fill the whole tensor, or copy a filled one to this part (memcpy)"
        )
