"""The op of `to_host`: elements that share bytes are taken apart on the device, so that the array
is complete when the op is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.copy_ops import Dup, ToHost
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.host import numpy_dtype
from tilec_runtime.tensors.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def to_host_op(tensor: Described, out: Array | None) -> DeviceOp[Array]:
    """An op that gives the contents of a tensor.

    Raises:
        TensorError: `out` does not fit, or the dtype is packed and there is `out`. OwnershipError:
            the tensor cannot be read.
    """
    return (
        ToHost(tensor, out)
        if out is not None or not DTYPES[tensor.dtype].packed
        else PackedToHost(tensor)
    )


@final
class PackedToHost(DeviceOp["Array"]):
    """The contents of a tensor whose elements share bytes, one element in a byte."""

    def __init__(self, tensor: Described) -> None:
        """Claim the tensor.

        Raises:
            TensorError: it has strides that cannot be copied. OwnershipError: it cannot be read.
        """
        self._copy: Dup | None = Dup(tensor, "to_host")

    @property
    def name(self) -> str:
        """`to_host`."""
        return "to_host"

    def _execute(self, ctx: ExecutionContext) -> Array:
        from tilec_runtime.kernels import (
            recipes,
        )  # which need not be there to copy what is whole bytes

        copy, self._copy = self._copy, None
        assert copy is not None
        pairs = ctx.run(copy)
        codes = Tensor.uninitialized(
            pairs.shape,
            "u8",
            driver=ctx.driver,
            ordinal=ctx.device,
            stream=ctx.stream,
            pool=ctx.pool,
        )
        ctx.writes(codes.storage)
        to, source = (
            recipes.Place(storage=one.storage, facts=one._facts)  # noqa: SLF001 - a tensor too
            for one in (codes, pairs)
        )
        recipes.spread(ctx, to, source)
        return ctx.run(ToHost(codes, None)).view(numpy_dtype(pairs.dtype))

    def _discard(self) -> None:
        if self._copy is not None:
            self._copy._discard()  # noqa: SLF001 - an op too

    def _require_here(self, ctx: ExecutionContext) -> None:
        if self._copy is not None:
            self._copy._require_here(ctx)  # noqa: SLF001
