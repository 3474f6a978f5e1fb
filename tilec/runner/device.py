"""The GPU as a run needs it: tilec's own buffers, and the launchers of a loaded bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilec.runner.inputs import Array
from tilec.runtime.memory import DeviceBuffer

if TYPE_CHECKING:
    from tilec.runtime.load import Module
    from tilec.runtime.seam import DeviceDriver

STREAM = 0  # the legacy default stream: runs are one after another


class GpuDevice:
    """Launches kernels of one module on its device.

    Args:
        module: a bundle that is loaded on a device.
        driver: what it is loaded through.
    """

    def __init__(self, module: Module, driver: DeviceDriver) -> None:
        self._module = module
        self._driver = driver
        self._ordinal = module.device.ordinal

    def to_device(self, array: Array, dtype: str) -> DeviceBuffer:
        """A buffer with the array's contents."""
        return DeviceBuffer.from_host(array, self._ordinal, dtype=dtype, driver=self._driver)

    def from_device(self, tensor: DeviceBuffer) -> Array:
        """The buffer's contents."""
        array: Array = tensor.to_host(STREAM)
        return array

    def launch(self, kernel: str, arguments: Mapping[str, Any], axes: Mapping[str, Any]) -> None:
        """Launch a kernel and wait until it is done."""
        self._module.kernels[kernel](STREAM, **arguments, **axes)
        self._driver.synchronize(self._ordinal, STREAM)
