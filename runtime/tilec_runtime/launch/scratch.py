"""Launches that need scratch memory: each allocates its own, in stream order."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilec_runtime.errors import LaunchError

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver, LaunchCall, LaunchShape

_ADDRESS = ctypes.sizeof(ctypes.c_void_p)


def with_scratch(
    bind: Callable[[LaunchShape, int], LaunchCall],
    driver: DeviceDriver,
    ordinal: int,
    sizes: Sequence[tuple[int, int]],
    kernel: str,
) -> Callable[[LaunchShape, int], LaunchCall]:
    """Return a `bind` whose launches allocate and free scratch memory.

    Both happen in stream order.

    Args:
        bind: binds the launch alone.
        driver: allocates the memory.
        ordinal: the device.
        sizes: (place among the arguments, bytes for each block) of each address.
        kernel: name of the kernel, for messages.
    """

    def bound(shape: LaunchShape, stream: int) -> LaunchCall:
        call, blocks = bind(shape, stream), math.prod(shape.grid)

        def launch(parameters: int, extra: Any) -> Any:
            if driver.capturing(ordinal, stream):
                message = f"{kernel}: needs scratch memory, which each launch allocates, and its stream is captured"
                fix = "launch it outside of the graph, or pass descriptors that are made on the host: descriptor(x, …) in args"
                raise LaunchError(message, fix=fix, kernel=kernel)
            taken: list[int] = []
            try:
                for index, size in sizes:
                    taken.append(driver.allocate(ordinal, size * blocks, stream))
                    slot = ctypes.c_void_p.from_address(parameters + index * _ADDRESS).value or 0
                    ctypes.c_uint64.from_address(slot).value = taken[-1]
                return call(parameters, extra)
            finally:
                for address in taken:
                    driver.free(ordinal, address, stream)

        return launch

    return bound
