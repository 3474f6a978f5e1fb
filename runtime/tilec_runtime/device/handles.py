"""Stream handles of any library, and the current streams of libraries."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tilec_runtime.device.scalars import shown
from tilec_runtime.errors import ArgumentError, TilecError

# Most array types in a cache: a program may create types without limit.
MOST_TYPES = 256


def stream_handle(stream: Any, kernel: str) -> int:
    """Return the handle of a stream.

    Raises:
        ArgumentError: `stream` is not a stream; the message starts with the kernel's name.
    """
    fix = 'pass a stream of torch, CuPy or cuda.core, a tilec_runtime.Stream (Stream("cpu") on the cpu device), or a handle as an int; '
    fix += "0 is the legacy default stream"
    try:
        handle = handle_of(stream)
    except TilecError as error:  # a stream of tilec's own that is closed
        raise ArgumentError(
            f"{kernel}: {error.what}", cause=error.cause, fix=error.fix, kernel=kernel
        ) from error
    except Exception as error:  # noqa: BLE001 - streams of other libraries may raise any error
        message = f"{error}"
    else:
        if 0 <= handle < 2**64:
            return handle
        message = f"the stream's handle is {shown(handle)}"
    raise ArgumentError(f"{kernel}: {message}", fix=fix, kernel=kernel)


def stream_ordinal(stream: Any) -> int | None:
    """Return the device that a stream names, as torch's do; None if it names none."""
    index = getattr(getattr(stream, "device", None), "index", None)
    return index if type(index) is int else None


def handle_of(stream: Any) -> int:
    """Return the handle of a stream, unchecked.

    Raises:
        Exception: the object has no handle.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return int(stream)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise TypeError(f"the stream's __cuda_stream__ is of version {version}, and 0 is known")
        return int(handle)
    for name in ("cuda_stream", "ptr"):  # torch; CuPy
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    if stream is None or isinstance(stream, bool):
        raise TypeError("the stream is None" if stream is None else f"{stream!r} is no stream")
    raise TypeError(f"a {type(stream).__module__}.{type(stream).__qualname__} is no stream")


def handle_attribute(cls: type) -> str | None:
    """Return the attribute with the handle in a stream type of torch or tilec.

    Other types give None. The launch core reads the attribute directly.
    """
    name = {"torch": "cuda_stream", "tilec_runtime": "handle"}.get(
        cls.__module__.partition(".")[0], ""
    )
    return (
        name if name and hasattr(cls, name) else None
    )  # a plain torch.Stream has no such attribute: it may be on a device without CUDA


def current_stream(values: tuple[Any, ...]) -> int:
    """Return the stream of a launch that names none.

    It is the current stream of the first array whose library has one, else the default stream.
    """
    for value in values:
        cls: type = type(value)
        current = _current_of(cls)
        handle = None if current is None else current(value)
        if handle is not None:
            return handle
    return 0


@functools.lru_cache(maxsize=MOST_TYPES)
def _current_of(cls: type) -> Callable[[Any], int | None] | None:
    """Return a function that reads the current stream of an array's library, or None."""
    libraries = libraries_of(cls)
    return (
        _current_of_torch
        if "torch" in libraries
        else _current_of_cupy
        if "cupy" in libraries
        else None
    )


def libraries_of(cls: type) -> set[str]:
    """Return the libraries that a type's arrays belong to: `torch`, `cupy`, `numpy`."""
    return {
        base.__module__.partition(".")[0]
        for base in cls.__mro__
        if base.__name__ in ("Tensor", "ndarray")
    }


def _current_of_torch(tensor: Any) -> int | None:
    return (
        int(sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream)
        if tensor.is_cuda
        else None
    )


def _current_of_cupy(array: Any) -> int | None:
    with array.device:  # CuPy has a current stream for each device
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
