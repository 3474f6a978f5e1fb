"""Handles of streams, of whatever library made them, and the current streams of libraries."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tilec_runtime.device.scalars import shown
from tilec_runtime.errors import ArgumentError, TilecError

# Types of arrays that something is remembered of; programs may make types without end.
MOST_TYPES = 256


def stream_handle(stream: Any, kernel: str) -> int:
    """The handle of a stream.

    Raises:
        ArgumentError: it is none; the message starts with the kernel's name.
    """
    fix = 'pass a stream of torch, CuPy or cuda.core, a tilec_runtime.Stream (Stream("cpu") on the cpu device), or a handle as an int; '
    fix += "0 is the legacy default stream"
    try:
        handle = handle_of(stream)
    except TilecError as error:  # a closed one of tilec's own
        raise ArgumentError(
            f"{kernel}: {error.what}", cause=error.cause, fix=error.fix, kernel=kernel
        ) from error
    except Exception as error:  # noqa: BLE001 - foreign streams raise what they like
        what = f"{error}"
    else:
        if 0 <= handle < 2**64:
            return handle
        what = f"the stream's handle is {shown(handle)}"
    raise ArgumentError(f"{kernel}: {what}", fix=fix, kernel=kernel)


def handle_of(stream: Any) -> int:
    """The handle of a stream, unchecked.

    Raises:
        Exception: it has none.
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
    """The attribute of a type of streams, torch's or tilec's own, that has the handle: the launch
    core reads it. None for all others.
    """
    name = {"torch": "cuda_stream", "tilec_runtime": "handle"}.get(
        cls.__module__.partition(".")[0], ""
    )
    return (
        name if name and hasattr(cls, name) else None
    )  # a torch.Stream may be of any device, and has none


def current_stream(values: tuple[Any, ...]) -> int:
    """The stream of a launch that names none: the current one of the first array whose library has
    one, else the default stream.
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
    """What asks for the current stream of an array's library; None where that has none."""
    libraries = libraries_of(cls)
    return (
        _current_of_torch
        if "torch" in libraries
        else _current_of_cupy
        if "cupy" in libraries
        else None
    )


def libraries_of(cls: type) -> set[str]:
    """Return the libraries whose arrays a type is one of: `torch`, `cupy`, `numpy`."""
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
