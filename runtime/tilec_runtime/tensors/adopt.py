"""Memory of other owners as tensors: another library's, or at an address."""

from __future__ import annotations

import dataclasses
from typing import Any

from tilec_runtime.device.devices import driver_of, ordinal_of
from tilec_runtime.device.handles import stream_handle
from tilec_runtime.device.layout import (
    ON_ANY,
    ON_CPU,
    ON_GPU,
    TensorFacts,
    byte_range,
    settled_stride,
)
from tilec_runtime.device.scalars import bare, whole
from tilec_runtime.device.seam import DeviceDriver
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors import dlpack
from tilec_runtime.tensors.described import Described, dtype_name
from tilec_runtime.tensors.facts import UnreadableError, tensor_facts
from tilec_runtime.tensors.shapes import checked_packing, checked_shape
from tilec_runtime.tensors.storage import Storage, freeing_stream

_LEGACY = 1
_LARGEST = 2**63 - 1


_MALFORMED = (
    "what the library says of its tensor is wrong, or it is a view of bytes at an odd place"
)
_DESCRIBE = "look at its __cuda_array_interface__ or its DLPack capsule"


def adopt(
    source: Any, *, stream: Any = None, driver: DeviceDriver | None = None
) -> tuple[Storage, TensorFacts]:
    """Adopt another library's tensor, which is kept until the last use.

    Args:
        source: any object with DLPack, `__cuda_array_interface__` or NumPy's protocol.
        stream: the stream that may use the tensor without a wait; other streams wait for it. None
            for an internal stream.
        driver: the driver of the tensor's device; the process's driver for it by default.

    Raises:
        TensorError: `source` is not a tensor, is tilec's own, is on an unknown device, has a dtype
            or strides that tensors cannot have, or reaches beyond its allocation.
    """
    if isinstance(source, Described):
        raise TensorError(
            f"{source!r} is a tensor of tilec already", fix="move, share or borrow it"
        )
    try:
        facts = tensor_facts(source, lambda address: _pointer_device(address, driver))
    except UnreadableError as error:
        raise TensorError(f"this is no tensor that can be used: {error}") from error
    if facts.dtype not in DTYPES:
        fix = (
            'pass its bytes, as in x.view(torch.uint8), and reinterpret("f4e2m1") the tensor'
            if "float4" in facts.dtype
            else ""
        )
        raise TensorError(
            f"a tensor of {facts.dtype} cannot be used: known dtypes are {', '.join(DTYPES)}",
            fix=fix,
        )
    if any(extent < 0 for extent in facts.shape):
        raise TensorError(
            f"a tensor of shape {facts.shape} has a negative extent",
            cause=_MALFORMED,
            fix=_DESCRIBE,
        )
    if facts.device == ON_GPU:
        raise TensorError("the tensor is on an accelerator that is not CUDA's")
    ordinal = 0 if facts.device == ON_ANY else facts.device
    if driver is None:
        driver = driver_of("cpu" if ordinal == ON_CPU else ordinal)
    nbytes = _checked_extent(facts)
    if nbytes and (facts.ptr < 0 or facts.ptr % facts.itemsize):
        message = f"address {facts.ptr:#x} is not aligned to elements of {facts.itemsize} bytes"
        raise TensorError(message, cause=_MALFORMED, fix="make a contiguous copy, which is aligned")
    _check_inside(facts, nbytes, driver)
    storage = Storage(driver, ordinal, facts.ptr, nbytes, owner=source, readonly=facts.readonly)
    _order(storage, source, stream)
    return storage, dataclasses.replace(facts, device=ordinal)


def adopt_raw(
    pointer: int,
    layout: tuple[Any, Any, Any],
    *,
    device: Any,
    owner: Any = None,
    nbytes: int | None = None,
    driver: DeviceDriver | None = None,
) -> tuple[Storage, TensorFacts]:
    """Adopt memory at an address.

    Args:
        pointer: address of the first element.
        layout: shape, dtype, and strides in elements or None for a contiguous tensor.
        device: the memory's device.
        owner: an object that keeps the memory; None if the caller keeps it.
        nbytes: size in bytes from the address on; None if the caller knows that it suffices.
        driver: the driver of the device; the process's driver for it by default.

    Raises:
        TensorError: the tensor reaches beyond `nbytes`, or its address is not aligned.
    """
    pointer = whole("borrow_raw: the address", bare(pointer), TensorError)
    shape, name = checked_shape(layout[0]), dtype_name(layout[1])
    ordinal = ordinal_of(device)
    stride = settled_stride(shape, None if layout[2] is None else tuple(layout[2]))
    facts = TensorFacts(
        ptr=pointer if 0 not in shape else 0, shape=shape, stride=stride, dtype=name, device=ordinal
    )
    needed = _checked_extent(facts)
    if nbytes is not None and needed > nbytes:
        raise TensorError(
            f"a tensor of shape {shape}, strides {stride} and {name} needs {needed} bytes, and there are {nbytes}"
        )
    if needed and not pointer:
        raise TensorError(
            "the address is null, and the tensor has elements",
            fix="pass the address of memory that is there",
        )
    if needed and (pointer < 0 or pointer % facts.itemsize):
        raise TensorError(
            f"address {pointer:#x} is not aligned to elements of {facts.itemsize} bytes"
        )
    return Storage(driver or driver_of(device), ordinal, facts.ptr, needed, owner=owner), facts


def _checked_extent(facts: TensorFacts) -> int:
    if any(step < 0 for step in facts.stride):
        raise TensorError(
            f"a tensor with strides {facts.stride} runs backwards", fix="make a contiguous copy"
        )
    checked_packing(facts.dtype, facts.shape, facts.stride)
    _, needed = byte_range(facts)
    if needed > _LARGEST - facts.ptr:
        raise TensorError(
            f"a tensor of shape {facts.shape} and strides {facts.stride} reaches beyond all addresses"
        )
    return needed


def _check_inside(facts: TensorFacts, nbytes: int, driver: DeviceDriver) -> None:
    """Check that the memory lies in its allocation, as far as the driver knows.

    A tensor with a wrong description would otherwise write other memory.
    """
    if nbytes and not facts.ptr:
        raise TensorError(
            "the tensor has elements and no memory",
            cause="it is a meta or fake tensor, or its memory was given up",
        )
    bounds = driver.allocation(facts.ptr) if nbytes else None
    if bounds is not None and facts.ptr + nbytes > bounds[0] + bounds[1]:
        left = bounds[0] + bounds[1] - facts.ptr
        raise TensorError(
            f"a tensor of shape {facts.shape} and strides {facts.stride} needs {nbytes} bytes, and its allocation ends after {left}"
        )


def _pointer_device(address: int, driver: DeviceDriver | None) -> int | None:
    return (driver or driver_of(0)).pointer_device(address)


def _order(storage: Storage, source: Any, stream: Any) -> None:
    """Make work on the storage wait for the work that its owner has enqueued."""
    if storage.ordinal == ON_CPU:
        return
    handle = (
        freeing_stream(storage.driver, storage.ordinal)
        if stream is None
        else stream_handle(stream, "from_foreign")
    )
    if hasattr(source, "__dlpack__"):
        try:
            dlpack.view(
                source, stream=handle or _LEGACY
            )  # the exporter makes this stream wait for its own work
        except Exception as error:  # tensors of other libraries may raise any error
            raise TensorError(
                f"the tensor is not given out: {error}",
                fix="detach() it from what computes its gradient",
            ) from error
    else:
        named = (getattr(source, "__cuda_array_interface__", None) or {}).get("stream")
        if named is not None and (not isinstance(named, int) or not 0 <= named < 2**64):
            raise TensorError(
                f"its __cuda_array_interface__ names the stream {named!r}, which is none",
                fix=_DESCRIBE,
            )
        theirs = 0 if named in (None, _LEGACY) else named
        # A library that names no stream may have work on the legacy default stream, as Numba does.
        # An event on that stream would break the captures of other libraries.
        if named is not None or not storage.driver.capturing(storage.ordinal, theirs):
            storage.pass_through(theirs, write=True)
    storage.pass_through(handle, write=True)
