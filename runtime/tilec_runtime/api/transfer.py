"""Transfers as lazy ops: host to device, device to host, and copies on the device.

The host does not wait for the device.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

from tilec_runtime.device.device import Device
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.copies import Dup, ToHost, packed_error
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.ops.transfers import FromHost, Memcpy, Upload
from tilec_runtime.protocols import DeviceLike
from tilec_runtime.tensors import host
from tilec_runtime.tensors.contents import pinned_bytes
from tilec_runtime.tensors.described import Described, dtype_name, require_tensor
from tilec_runtime.tensors.shapes import checked_shape
from tilec_runtime.tensors.tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def from_host(source: Any) -> DeviceOp[Tensor]:
    """Return an op that makes a tensor with the contents of a host array.

    The array is kept, and read while the op is enqueued (by `sync`, `future` or `await`);
    afterwards it may change. Large arrays are copied on an internal stream, so that they wait for
    no other device work.

    Args:
        source: a NumPy or ml_dtypes array of any strides, a tensor of another library in host
            memory, or a buffer (bytes, array.array, memoryview). Elements of packed dtypes are
            packed during the transfer.

    Raises:
        TensorError: `source` is none of these, or has a dtype that tensors do not have.
    """
    return FromHost(source)


def to_host(tensor: Described | DeviceOp[Any], *, out: Array | None = None) -> DeviceOp[Array]:
    """Return an op that copies a tensor to a NumPy array.

    The array is complete when the op is. `Tensor.to_host` is the call that waits.

    Args:
        tensor: a tensor of any kind, which is claimed for reading until the op has run; or an op
            that returns one.
        out: a C-contiguous array to copy to. The device copies to memory of `pinned` by itself;
            with other memory, the enqueue waits for the device. Without `out`, the op makes a
            pinned array; if the tensor has gaps, that array may have strides.

    Raises:
        TensorError: `tensor` is not a tensor, or `out` does not fit. A packed dtype cannot be
            copied to `out`.
        OwnershipError: the tensor cannot be read.
    """
    if isinstance(tensor, DeviceOp):
        return tensor.then(lambda result: to_host(result, out=out))
    return ToHost(require_tensor(tensor, "to_host"), out)


def dup(tensor: Described | DeviceOp[Any]) -> DeviceOp[Tensor]:
    """Return an op that makes a contiguous copy of a tensor on the same device.

    Args:
        tensor: a tensor of any kind, which is claimed for reading until the op has run; or an op
            that returns one.

    Raises:
        TensorError: `tensor` is not a tensor, or its strides would take more than 4,096 calls of
            the driver.
        OwnershipError: it cannot be read.
    """
    if isinstance(tensor, DeviceOp):
        return tensor.then(dup)
    return Dup(require_tensor(tensor, "dup"), Tensor)


@overload
def memcpy(target: Described, source: Described) -> Memcpy: ...
@overload
def memcpy(target: Described, source: Any) -> DeviceOp[None]: ...
def memcpy(target: Described, source: Any) -> DeviceOp[None]:
    """Return an op that copies contents to an existing tensor, which does not move.

    Args:
        target: a tensor, a mutable borrow, or a partition, which is claimed for writing until the
            op has run.
        source: a tensor or view of the same dtype, shape and device, which is claimed for reading;
            an op that returns one; or a host array, which is read while the op is enqueued. Strides
            may differ. If neither side has gaps, shapes with the same number of elements may differ
            too.

    Raises:
        TensorError: the contents do not fit, or the target is not a tensor.
        AliasError: target and source share memory.
        OwnershipError: the target cannot be written, or the source cannot be read.
    """
    written = require_tensor(target, "memcpy")
    if isinstance(source, DeviceOp):
        return source.then(lambda result: Memcpy(written, require_tensor(result, "memcpy")))
    return Memcpy(written, source) if isinstance(source, Described) else Upload(written, source)


def pinned(shape: Any, dtype: Any, device: DeviceLike | None = None) -> Array:
    """Return an uninitialized NumPy array in pinned memory, for `to_host(out=)`.

    A device copies to pinned memory by itself.

    Args:
        shape: extents.
        dtype: tilec's name, or a dtype of NumPy or torch.
        device: the device; None for the default device.

    Raises:
        TensorError: the dtype is packed, or there is no such dtype.
        DriverError: the driver has no pinned memory left.
    """
    extents, name = checked_shape(shape), dtype_name(dtype)
    if DTYPES[name].packed:
        raise packed_error(name)
    where = Device(device)
    memory = pinned_bytes(
        where.driver, where.ordinal, DTYPES[name].size_of(math.prod(extents)), needed=True
    )
    return host.array_in(memory, name, extents)
