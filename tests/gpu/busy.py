"""A stream that is busy for a while: a kernel of one thread that reads the clock. Without torch, so
that sanitizers can follow.
"""

from __future__ import annotations

from tilec_runtime import Device, Stream, load_module_from_ptx
from tilec_runtime.device.driver import driver
from tilec_runtime.device.seam import LaunchCall, LaunchParts, LaunchShape
from tilec_runtime.launch.packing import ArgumentBlock

# Ends so many cycles after it began, written for PTX ISA 7.0 so that every driver reads it.
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry busy(.param .u64 cycles)
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [cycles];
    mov.u64 %rd2, %clock64;
AGAIN:
    mov.u64 %rd3, %clock64;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra AGAIN;
    ret;
}
"""


class Busy:
    """Makes streams of a device busy."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._function = load_module_from_ptx(PTX, device).function("busy", ("u64",))
        self._parts = LaunchParts(kernel="busy", sizes=(8,), addresses=(), tensors=())

    def __call__(self, stream: Stream, cycles: int) -> None:
        """Enqueue so many cycles of the device's clock, past everything that tilec does for a
        launch.
        """
        block = ArgumentBlock(cycles.to_bytes(8, "little"), (0,))
        shape = LaunchShape(grid=(1, 1, 1), block=(1, 1, 1))
        call: LaunchCall = driver().bind_launch(
            self._device.ordinal, self._function.handle, shape, stream.handle, self._parts
        )
        driver().adopt(self._device.ordinal)
        (result,) = call(block.address, 0)
        assert not result, result
