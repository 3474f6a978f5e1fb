"""A device as a run needs it: tilec's own buffers, and the launchers of a bundle that is loaded
there.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilec.case.inputs import Array
from tilec_runtime.bundle.choose import LACKS_TILE_IR, DeviceFacts, choose_image, cpu_advice
from tilec_runtime.errors import TilecError
from tilec_runtime.tensors.buffer import DeviceBuffer

if TYPE_CHECKING:
    from tilec_runtime.device.events import Event
    from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
    from tilec_runtime.device.seam_types import LaunchShape
    from tilec_runtime.launch.jit import Compiled
    from tilec_runtime.launch.load import Module
    from tilec_runtime.model.image import ImageInfo
    from tilec_runtime.ops.op import DeviceOp

# The launch of a kernel: its name, arguments and axes by name.
Call = tuple[str, Mapping[str, Any], Mapping[str, Any]]

STREAM = 0  # the legacy default stream: runs are one after another


class ModuleDevice:
    """Launches kernels of one module on its device.

    Args:
        module: a bundle that is loaded on a device.
        driver: what it is loaded through.
        advice: what brings Tile IR into the module, where that is not a matter of the manifest.

    Attributes:
        launching: the launches that are being waited for.
    """

    def __init__(self, module: Module, driver: DeviceDriver, *, advice: str = "") -> None:
        self._module = module
        self._driver = driver
        self._device = module.device
        self._advice = advice
        self.launching: tuple[Call, ...] = ()
        self._behind: list[Event] = []  # one behind each step of a chain but the last
        self._events = threading.Lock()

    def refusal(self, kernel: str, axes: Mapping[str, Any]) -> str:
        """Why a kernel needs a GPU, or an empty text where it does not.

        On a GPU nothing is refused: an image that is missing for it is an error of the build.
        """
        device, info = self._device, self._module.kernels[kernel].info
        if device.interprets is None:
            return ""
        facts = DeviceFacts(interprets=device.interprets)
        variants = [
            v
            for v in info.variants
            if all(axes.get(name, value) == value for name, value in v.axes)
        ]
        if not variants or any(choose_image(variant.images, facts).image for variant in variants):
            return ""
        return refusal_of(info.language, variants[0].images, advice=self._advice)

    @property
    def device(self) -> DeviceInfo:
        """Where it is."""
        return self._device

    @property
    def compiled(self) -> tuple[Compiled, ...]:
        """The images that were no machine code and were compiled so far."""
        return self._module.compiled

    def to_device(self, array: Array, dtype: str) -> DeviceBuffer:
        """A buffer with the array's contents."""
        return DeviceBuffer.from_host(array, self._device, dtype=dtype, driver=self._driver)

    def unset(self, like: Array, dtype: str) -> DeviceBuffer:
        """A buffer for such an array that nothing has been written to."""
        return DeviceBuffer(like.shape, dtype, self._device, driver=self._driver)

    def from_device(self, tensor: DeviceBuffer) -> Array:
        """The buffer's contents."""
        array: Array = tensor.to_host(STREAM)
        return array

    def launch(self, kernel: str, arguments: Mapping[str, Any], axes: Mapping[str, Any]) -> None:
        """Launch a kernel and wait until it is done."""
        self.launching = ((kernel, arguments, axes),)
        try:
            given = {
                "stream_" if name == "stream" else name: value for name, value in arguments.items()
            }
            self._module.kernels[kernel](**given, **axes, stream=STREAM)
            self._driver.synchronize(self._device.ordinal, STREAM)
        finally:
            self.launching = ()

    def shape(
        self, kernel: str, arguments: Mapping[str, Any], axes: Mapping[str, Any]
    ) -> LaunchShape:
        """Return grid, block and shared memory of a launch.

        Raises:
            LaunchError: it would be refused.
        """
        return self._module.kernels[kernel].explain(**arguments, **axes).shape

    def launch_in_order(
        self, calls: Sequence[Call], failed: Callable[[int, TilecError], None]
    ) -> None:
        """Launch (kernel, arguments, axes) as one chain of `then`: one behind the other on one
        stream. Wait until the last is done.

        Args:
            calls: what to launch.
            failed: told of an error, and the place of the call that was launched last, or was about
                to be.
        """
        from tilec_runtime.device.events import Event
        from tilec_runtime.device.streams import Stream

        lazy, reached = self._module.lazy, 0
        stream = Stream.borrow_raw(STREAM, self._device, driver=self._driver)

        def made(place: int) -> DeviceOp[Any]:
            nonlocal reached
            reached = place
            if place:
                event = Event(self._device, driver=self._driver)
                event.record(stream)  # one that is not recorded counts as reached
                self._behind.append(event)
            kernel, arguments, axes = calls[place]
            op: DeviceOp[Any] = lazy[kernel](**arguments, **axes)
            return op

        def behind(chain: DeviceOp[Any], place: int) -> DeviceOp[Any]:
            # Made when those before it are on the stream: until then it would hold what they write.
            return chain.then(lambda _: made(place))

        self.launching = tuple(calls)
        try:
            chain = functools.reduce(behind, range(1, len(calls)), made(0))
            chain.sync_on(stream)
        except TilecError as error:
            error.op = ""  # made here, at no line of the user's
            failed(reached, error)
            raise
        finally:
            self.launching = ()
            with self._events:
                for event in self._behind:
                    event.close()
                self._behind.clear()

    def step_under_way(self) -> int | None:
        """Return the place in `launching` of the launch that the device is at; None where the
        driver does not tell. For another thread.
        """
        with self._events:
            try:
                return sum(event.reached for event in self._behind)
            except TilecError:
                return None


def refusal_of(language: str, images: Sequence[ImageInfo] = (), *, advice: str = "") -> str:
    """Why the cpu device cannot run a kernel of a language, and the next step: `advice`, where Tile
    IR is all that is missing.
    """
    cause, fix = cpu_advice(images, language)
    return f"{cause}: {advice if advice and cause == LACKS_TILE_IR else fix}"
