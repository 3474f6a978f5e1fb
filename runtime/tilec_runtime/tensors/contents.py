"""The contents of tensors as NumPy arrays, and copies that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilec_runtime.device.layout import ON_CPU, TensorFacts
from tilec_runtime.device.seam import CopyKind, DeviceDriver
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors import host
from tilec_runtime.tensors.copies import ByteLayout, boxes, byte_layout
from tilec_runtime.tensors.staging import staging_of
from tilec_runtime.tensors.storage import Storage, allocate_bytes

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# A tensor with gaps is copied with them. If the copy would exceed four times the contents and
# 64 KiB, the gaps are closed on the device first.
_GAPS, _FEW = 4, 64 << 10


def contents(storage: Storage, facts: TensorFacts, out: Array | None = None) -> Array:
    """Copy a tensor's contents to a new array or to `out`; wait for writes."""
    storage.sync(write=False)
    layout = byte_layout(facts)
    if not layout.nbytes:
        return host.empty_array(facts.dtype, facts.shape) if out is None else out
    if facts.device == ON_CPU:
        memory = host.host_memory(facts.ptr, layout.reach)
    else:
        memory, layout = _download(storage.driver, facts, layout)
    array = array_over(memory, facts, layout)
    if out is not None:
        out[...] = array
        return out
    if DTYPES[facts.dtype].packed:  # unpacking has copied it
        return array
    return (
        array.copy(order="C") if facts.device == ON_CPU or not array.flags.c_contiguous else array
    )


def array_over(memory: Array, facts: TensorFacts, layout: ByteLayout) -> Array:
    """Return an array over bytes in a layout; packed elements are copied."""
    import numpy as np

    strided = np.lib.stride_tricks.as_strided
    if not layout.nbytes:
        return host.empty_array(facts.dtype, facts.shape)
    if DTYPES[facts.dtype].packed:
        return host.array_in(strided(memory, layout.shape, layout.stride), facts.dtype, facts.shape)
    # Integers first: NumPy's protocol has no name for some dtypes of ml_dtypes.
    integers = memory[: layout.reach].view(f"u{DTYPES[facts.dtype].bytes}")
    return strided(integers, layout.shape, layout.stride).view(host.numpy_dtype(facts.dtype))


def has_wide_gaps(layout: ByteLayout) -> bool:
    """Whether a tensor's gaps are worth closing before a copy to the host."""
    return layout.reach > max(_GAPS * layout.nbytes, _FEW)


def pinned_bytes(driver: DeviceDriver, ordinal: int, size: int, *, needed: bool = False) -> Array:
    """Return pinned memory or, if the driver has none left, pageable memory.

    Copies to pageable memory block the host.

    Raises:
        DriverError: the driver has no pinned memory left, and it is `needed`.
    """
    import numpy as np

    block = staging_of(driver, ordinal).block(size, needed=needed) if size else None
    return host.empty_array("u8", (size,)) if block is None else np.asarray(block)[:size]


def _download(
    driver: DeviceDriver, facts: TensorFacts, layout: ByteLayout
) -> tuple[Array, ByteLayout]:
    """Copy the bytes of a tensor on a GPU; close wide gaps first."""
    ordinal, stream = facts.device, staging_of(driver, facts.device).stream
    if not has_wide_gaps(layout):
        memory = host.empty_array("u8", (layout.reach,))
        driver.copy_out(ordinal, memory.ctypes.data, facts.ptr, layout.reach, stream)
        return memory, layout
    memory = host.empty_array("u8", (layout.nbytes,))
    calls = boxes(layout.dense, layout)
    gathered = allocate_bytes(driver, ordinal, layout.nbytes, stream)
    try:
        for call in calls:
            driver.copy_box(
                ordinal,
                gathered + call.target,
                facts.ptr + call.source,
                call.box,
                stream,
                CopyKind.ON_DEVICE,
            )
        driver.copy_out(ordinal, memory.ctypes.data, gathered, layout.nbytes, stream)
    finally:
        driver.free(ordinal, gathered, stream)
    return memory, layout.dense
