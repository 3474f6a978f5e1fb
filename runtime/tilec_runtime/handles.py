"""Handles of streams, of whatever library made them, and the current streams of libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from tilec_runtime.errors import ArgumentError, TilecError
from tilec_runtime.scalars import shown

Getter = Callable[[Any], "int | None"]


class Handles(dict[type, Getter]):
    """How to get a stream's handle, by its type; a type met for the first time is classified once."""

    def __missing__(self, cls: type) -> Getter:
        """Classify a type."""
        getter: Getter
        if cls is int:
            getter = int
        elif cls.__name__ == "Stream" and cls.__module__.partition(".")[0] == "torch":
            getter = attrgetter("cuda_stream")  # an attribute in C: the usual case, read at every launch
        else:
            getter = _handle
        self[cls] = getter
        return getter


def stream_handle(stream: Any, kernel: str) -> int:
    """The handle of a stream.

    Raises:
        ArgumentError: it is none; the message starts with the kernel's name.
    """
    what = ""
    try:
        handle = HANDLES[type(stream)](stream)
        if handle is None:  # a stream of tilec's own, whose slot is read at launches: the property says that it is closed
            handle = stream.handle
    except TilecError as error:  # a closed one of tilec's own
        raise ArgumentError(f"{kernel}: {error.what}", cause=error.cause, fix=error.fix, kernel=kernel) from error
    except Exception as error:  # noqa: BLE001 - foreign streams raise what they like
        what = f"{error}"
    else:
        if 0 <= handle < 2**64:
            return handle
        what = f"the stream's handle is {shown(handle)}"
    own = 'a tilec_runtime.Stream (Stream("cpu") on the cpu device)'
    fix = f"pass a stream of torch, CuPy or cuda.core, {own}, or a handle as an int; 0 is the legacy default stream"
    raise ArgumentError(f"{kernel}: {what}", fix=fix, kernel=kernel)


def _handle(stream: Any) -> int:
    if stream is None:
        raise TypeError("the stream is None")
    if isinstance(stream, bool):
        raise TypeError(f"{stream!r} is no stream")
    if isinstance(stream, int):
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
    raise TypeError(f"a {type(stream).__module__}.{type(stream).__qualname__} is no stream")


class Currents(dict[type, Getter]):
    """How to get the current stream of an array's library, by the array's type; a type met for the first time is classified once."""

    def __missing__(self, cls: type) -> Getter:
        """Classify a type; libraries without a current stream give None."""
        libraries = {base.__module__.partition(".")[0] for base in cls.__mro__ if base.__name__ in ("Tensor", "ndarray")}
        getter = _current_of_torch if "torch" in libraries else _current_of_cupy if "cupy" in libraries else _no_current
        self[cls] = getter
        return getter


def current_stream(values: tuple[Any, ...]) -> int:
    """The stream of a launch that names none: the current one of the first array whose library has one, else the default stream."""
    for value in values:
        handle = CURRENTS[type(value)](value)
        if handle is not None:
            return handle
    return 0


def _current_of_torch(tensor: Any) -> int | None:
    return int(sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream) if tensor.is_cuda else None


def _current_of_cupy(array: Any) -> int | None:
    with array.device:  # CuPy has a current stream for each device
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)


def _no_current(_: Any) -> None:
    return None


HANDLES = Handles()
CURRENTS = Currents()
