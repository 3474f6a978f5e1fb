"""Device memory without ownership checks, to run kernels without a framework."""

from __future__ import annotations

import functools
import math
from typing import Any

from tilec_runtime.device.devices import driver_of, ordinal_of
from tilec_runtime.device.frees import FREES, Release
from tilec_runtime.device.handles import stream_handle
from tilec_runtime.device.layout import TensorFacts, contiguous_stride
from tilec_runtime.device.seam import DeviceDriver
from tilec_runtime.errors import DTypeError, SchedulingError
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES
from tilec_runtime.protocols import DeviceLike, StreamLike
from tilec_runtime.tensors.exposed import Exposed
from tilec_runtime.tensors.facts import UnreadableError
from tilec_runtime.tensors.host import array_in, empty_array, memory_of
from tilec_runtime.tensors.shapes import checked_packing, checked_shape
from tilec_runtime.tensors.storage import allocate_bytes
from tilec_runtime.values import Uncopied


class DeviceBuffer(Exposed, Uncopied):
    """A C-contiguous tensor in device memory.

    `free` frees it, or its finalization does (in the order of its stream).

    On the cpu device it is an array too: `numpy.asarray(buffer)` shares its memory, and does not
    wait for launches that write it.

    Attributes:
        shape: extents.
        dtype: a dtype's name.
        device: ordinal; -1 for the cpu device.
        nbytes: size in bytes.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: str,
        device: DeviceLike | None = None,
        stream: StreamLike | None = None,
        *,
        driver: DeviceDriver | None = None,
    ) -> None:
        """Allocate uninitialized memory.

        Args:
            shape: extents.
            dtype: a dtype's name, such as `f32`.
            device: the device; None for the default device (`use_device`).
            stream: the stream in whose order memory is allocated and freed; None allocates at once.
            driver: the driver of the device; the process's driver for it by default.

        Raises:
            DTypeError: there is no such dtype.
            TensorError: the shape is not valid.
            OutOfMemoryError: there is no memory of this size.
            DriverError: the driver fails otherwise.
        """
        if dtype not in DTYPES:
            raise DTypeError(f"{dtype!r} is no dtype; known are {', '.join(DTYPES)}")
        self.shape = checked_shape(shape)
        self.dtype = dtype
        self.device = ordinal_of(device)
        checked_packing(dtype, self.shape)
        self.nbytes = DTYPES[dtype].size_of(math.prod(self.shape))
        self._driver = driver or driver_of(device)
        self._stream = None if stream is None else stream_handle(stream, "DeviceBuffer")
        self._ptr = (
            allocate_bytes(self._driver, self.device, self.nbytes, self._stream)
            if self.nbytes
            else 0
        )
        self.facts = TensorFacts(
            ptr=self._ptr,
            shape=self.shape,
            stride=contiguous_stride(self.shape),
            dtype=dtype,
            device=self.device,
        )
        self._release: Release | None = None
        if self._ptr:
            self._release = Release(
                functools.partial(_free, self._driver, self.device, self._ptr, self._stream)
            )

    @classmethod
    def from_host(
        cls,
        array: Any,
        device: DeviceLike | None = None,
        stream: StreamLike | None = None,
        *,
        dtype: str = "",
        driver: DeviceDriver | None = None,
    ) -> DeviceBuffer:
        """Return a copy of a NumPy array on the device.

        Args:
            array: a NumPy array, of any strides.
            device: the device; None for the default device (`use_device`).
            stream: the stream in whose order memory is allocated; the copy is complete when this
                returns.
            dtype: the dtype of the array's bytes, if NumPy's dtype does not tell it (`u2` bytes
                that hold `bf16`).
            driver: the driver of the device; the process's driver for it by default.

        Raises:
            DTypeError: the array's dtype is unknown, or has another element size than `dtype`.
        """
        import numpy as np

        host = np.ascontiguousarray(array)
        name = dtype or (BY_NUMPY[str(host.dtype)].name if str(host.dtype) in BY_NUMPY else "")
        if name not in DTYPES or DTYPES[name].bytes != host.dtype.itemsize:
            raise DTypeError(
                f"an array of {host.dtype} cannot be a tensor of {name or 'any known dtype'}"
            )
        buffer = cls(tuple(array.shape), name, device, stream, driver=driver)
        buffer.put(host)
        return buffer

    def put(self, array: Any) -> None:
        """Copy in an array of the same shape and element size; complete when this returns."""
        import numpy as np

        host = memory_of(np.asarray(array), self.dtype)
        if self.nbytes:
            self._driver.copy_in(
                self.device, self.ptr, host.ctypes.data, self.nbytes, self._stream or 0
            )

    @property
    def ptr(self) -> int:
        """Address of the first element; 0 for an empty tensor.

        Raises:
            SchedulingError: the buffer was freed.
        """
        if self._release is not None and not self._release.due:
            raise SchedulingError("the buffer was freed", fix="free buffers after their last use")
        return self._ptr

    def _expose(self, noun: str) -> tuple[Any, int | None]:
        """Check that the buffer was not freed.

        Readers have to wait for launches themselves.
        """
        del noun
        _ = self.ptr
        return self, self._stream

    def _tilec_facts_(self) -> TensorFacts:
        if self._release is not None and not self._release.due:
            raise UnreadableError("the buffer was freed")
        return self.facts

    def to_host(self, stream: StreamLike = 0) -> Any:
        """Return a NumPy array with the contents, once all work on `stream` is done.

        A dtype that NumPy does not have comes as an `ml_dtypes` array.
        """
        memory = empty_array("u8", (self.nbytes,))
        if self.nbytes:
            handle = stream_handle(stream, "DeviceBuffer")
            self._driver.copy_out(self.device, memory.ctypes.data, self.ptr, self.nbytes, handle)
        return array_in(memory, self.dtype, self.shape)

    def fill(self, byte: int, stream: StreamLike = 0) -> None:
        """Set every byte, in stream order."""
        if self.nbytes:
            self._driver.fill(
                self.device, self.ptr, byte, self.nbytes, stream_handle(stream, "DeviceBuffer")
            )

    def free(self) -> None:
        """Free the memory, in the order of the buffer's stream. Further calls do nothing."""
        if self._release is not None:
            self._release()


def _free(driver: DeviceDriver, ordinal: int, address: int, stream: int | None) -> None:
    if stream is not None and driver.capturing(ordinal, stream):
        FREES.later(
            functools.partial(_free, driver, ordinal, address, stream)
        )  # during the capture, the free would become a node of the graph
        return
    with driver.outside_captures(ordinal):
        driver.free(ordinal, address, stream)
