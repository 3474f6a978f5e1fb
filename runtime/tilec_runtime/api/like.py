"""Functions that make a tensor with another one's shape and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilec_runtime.api.create import empty, full, ones, zeros
from tilec_runtime.errors import TensorError
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors.described import dtype_name
from tilec_runtime.tensors.tensor import Tensor

_Make = Callable[[Any, Any], DeviceOp[Tensor]]


def empty_like(source: Any, dtype: Any = None) -> DeviceOp[Tensor]:
    """Return an op that makes an uninitialized tensor with another one's shape.

    The new tensor is contiguous, and on the device where the op runs.

    Args:
        source: a tensor of tilec of any kind, even one that was moved; an array or tensor of
            another library; or an op that returns one of these, which runs as a part of this op.
        dtype: tilec's name, or a dtype of NumPy or torch; None for the source's.

    Raises:
        TensorError: the source has no shape and dtype, or the dtype is not valid.
    """
    return _like("empty_like", source, dtype, empty)


def zeros_like(source: Any, dtype: Any = None) -> DeviceOp[Tensor]:
    """Return an op that makes a tensor of zeros.

    Everything else is as for `empty_like`.
    """
    return _like("zeros_like", source, dtype, zeros)


def ones_like(source: Any, dtype: Any = None) -> DeviceOp[Tensor]:
    """Return an op that makes a tensor of ones.

    Everything else is as for `empty_like`.
    """
    return _like("ones_like", source, dtype, ones)


def full_like(source: Any, value: Any, dtype: Any = None) -> DeviceOp[Tensor]:
    """Return an op that makes a tensor of one value.

    Everything else is as for `empty_like`.
    """
    return _like("full_like", source, dtype, lambda shape, name: full(shape, value, name))


def _like(function: str, source: Any, dtype: Any, make: _Make) -> DeviceOp[Tensor]:
    if isinstance(source, DeviceOp):
        return source.then(lambda result: _like(function, result, dtype, make))
    shape, own = getattr(source, "shape", None), getattr(source, "dtype", None)
    if shape is None or own is None:
        fix = "pass a tensor, an array, or an op that gives one; of lists take the shape"
        raise TensorError(
            f"{function} takes what has a shape and a dtype, and got a {type(source).__qualname__}",
            fix=fix,
        )
    return make(tuple(shape), dtype_name(own if dtype is None else dtype))
