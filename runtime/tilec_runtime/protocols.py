"""Types that generated launchers take: tensors, streams, devices and structs.

They are for type checkers and for readers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable


class SupportsDLPack(Protocol):
    """A tensor with DLPack. The methods' exact signatures differ between its releases."""

    @property
    def __dlpack__(self) -> Callable[..., Any]:
        """Return a capsule that describes the tensor."""

    @property
    def __dlpack_device__(self) -> Callable[..., Any]:
        """Return (device type, device number)."""


class SupportsCudaArray(Protocol):
    """A tensor with `__cuda_array_interface__`."""

    @property
    def __cuda_array_interface__(self) -> Any:
        """Return address, shape, strides and element type."""


class SupportsCudaStream(Protocol):
    """A stream with `__cuda_stream__`, which returns (version, handle)."""

    @property
    def __cuda_stream__(self) -> Any:
        """Return (0, handle)."""


class HasStreamHandle(Protocol):
    """A stream whose handle is an attribute, as in torch."""

    @property
    def cuda_stream(self) -> int:
        """The handle."""


TensorLike = SupportsDLPack | SupportsCudaArray
"""A tensor of tilec, torch, CuPy, JAX or NumPy, or any other object that has these interfaces."""

StreamLike = SupportsCudaStream | HasStreamHandle | int
"""A stream of tilec, torch, CuPy or cuda.core, or a stream's handle; 0 is the legacy default stream."""

StructLike = bytes | bytearray | memoryview
"""The bytes of a struct that a kernel takes by value."""

# A number, `"cuda:1"`, `"cpu"`, or a device object of torch, CuPy or cuda.core.
DeviceLike = Any


@runtime_checkable
class SchedulingPolicy(Protocol):
    """Picks the stream of an op. Any thread may call it."""

    def next_stream(self) -> StreamLike:
        """Return the stream of the next op, which runs on the stream's device."""
