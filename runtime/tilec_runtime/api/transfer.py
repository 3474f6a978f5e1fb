"""Transfers as lazy ops: host to device and back, and copies on the device. None of them makes the
host wait for the device.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

from tilec_runtime.device.device import Device
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.copies import Dup, packed_error, to_host_op
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.ops.policy import current_device
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
    """A new tensor with the contents of a host array, on the device where the op runs.

    The array is kept, and read while the op is enqueued (by `sync`, `future` or `await`):
    afterwards it may change. Large arrays are copied on a stream of their own, so that nothing
    waits for what the device has to compute.

    Args:
        source: a NumPy or ml_dtypes array of any strides, a tensor of another library in host
            memory, or a buffer (bytes, array.array, memoryview). Elements of packed dtypes are
            packed on the way.

    Raises:
        TensorError: it is none of these, or has a dtype that tensors have not.
    """
    return FromHost(source)


def to_host(tensor: Described | DeviceOp[Any], *, out: Array | None = None) -> DeviceOp[Array]:
    """The contents of a tensor as a NumPy array, which is complete when the op is. `Tensor.to_host`
    is the call that waits.

    Args:
        tensor: of any kind, which is claimed for reading until the op has run; or an op that gives
            one.
        out: a C-contiguous array to copy to. To memory of `pinned` the device copies by itself;
            with other memory, enqueuing waits for the device. Without `out` the array is made of
            such memory; one of a tensor with gaps may have strides.

    Raises:
        TensorError: it is no tensor, or `out` does not fit: nothing is copied to `out` from packed
            elements.
        OwnershipError: it cannot be read.
    """
    if isinstance(tensor, DeviceOp):
        return tensor.then(lambda found: to_host(found, out=out))
    return to_host_op(require_tensor(tensor, "to_host"), out)


def dup(tensor: Described | DeviceOp[Any]) -> DeviceOp[Tensor]:
    """A contiguous copy of a tensor or view, in memory of its own on the same device.

    Args:
        tensor: of any kind, which is claimed for reading until the op has run; or an op that gives
            one.

    Raises:
        TensorError: it is no tensor, or its strides would take more than 4,096 calls of the driver.
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
    """Copy contents to a tensor that is there, and stays where it is.

    Args:
        target: a tensor, a mutable borrow, or a partition. It is claimed for writing until the op
            has run, and does not move.
        source: a tensor or view of the same dtype, shape and device, which is claimed for reading,
            strides being free on both sides; an op that gives one; or a host array, which is read
            while the op is enqueued. The shape may be another of as many elements where neither
            side has gaps.

    Raises:
        TensorError: the contents do not fit, or the target is no tensor.
        AliasError: they share memory.
        OwnershipError: the target cannot be written, or the source not be read.
    """
    written = require_tensor(target, "memcpy")
    if isinstance(source, DeviceOp):
        return source.then(lambda found: Memcpy(written, require_tensor(found, "memcpy")))
    return Memcpy(written, source) if isinstance(source, Described) else Upload(written, source)


def pinned(shape: Any, dtype: Any, device: DeviceLike | None = None) -> Array:
    """A NumPy array in memory that a device copies to by itself, for `to_host(out=)`. Its contents
    are whatever was there.

    Args:
        shape: extents.
        dtype: tilec's name, or a dtype of NumPy or torch.
        device: whose driver makes it; None for the default device.

    Raises:
        TensorError: the dtype is packed, or none.
        DriverError: there is no such memory.
    """
    extents, name = checked_shape(shape), dtype_name(dtype)
    if DTYPES[name].packed:
        raise packed_error(name)
    where = current_device() if device is None else Device(device)
    memory = pinned_bytes(
        where.driver, where.ordinal, DTYPES[name].size_of(math.prod(extents)), needed=True
    )
    return host.array_in(memory, name, extents)
