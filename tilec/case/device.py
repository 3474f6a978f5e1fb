"""Launches cases of a loaded bundle on its device, with buffers of tilec's own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilec.case.cases import BoundCase, BoundStep, variants_at
from tilec.case.inputs import Array
from tilec_runtime.bundle.choose import LACKS_TILE_IR, DeviceFacts, choose_image, cpu_advice
from tilec_runtime.device.events import Event
from tilec_runtime.device.seam import DeviceDriver, DeviceInfo
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import KernelCacheError, LaunchError, NoImageError, TilecError
from tilec_runtime.launch.jit import Compiled
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.launch.load import Module
from tilec_runtime.launch.prepare import Explanation
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.tensors.buffer import DeviceBuffer

STREAM = 0  # the legacy default stream: launches of a run wait for each other


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KernelCall:
    """One launch of a case: a launcher with its arguments.

    Attributes:
        launcher: of the kernel, on a device.
        arguments: by parameter name.
        axes: values that the launcher takes by keyword.
        step: the step of a chain; None for a case of one kernel.
    """

    launcher: Launcher
    arguments: Mapping[str, Any]
    axes: Mapping[str, Any]
    step: BoundStep | None = None

    def prepared(self, stream: Any) -> Callable[[], None]:
        """Return a function that launches on `stream`."""
        info = self.launcher.info
        arguments = info.in_lists(self.arguments)
        names = [param.name for param in info.call_params]
        # The launcher's fast path takes arguments by position.
        leading = list(itertools.takewhile(arguments.__contains__, names))
        rest = {
            "stream_" if name == "stream" else name: value
            for name, value in arguments.items()
            if name not in leading
        }
        values = (arguments[name] for name in leading)
        return functools.partial(self.launcher, *values, **rest, **self.axes, stream=stream)

    def launch(self, stream: Any) -> None:
        """Enqueue the launch; an error of a step names the step."""
        with self._named():
            self.prepared(stream)()

    def explain(self) -> Explanation:
        """Return variant, image and shape of the launch, without launching."""
        with self._named():
            given = self.launcher.info.in_lists(self.arguments)
            return self.launcher.explain(**given, **self.axes)

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (LaunchError, NoImageError, KernelCacheError) as error:
            # Other errors may be about an earlier launch, whose failure shows here.
            if self.step is not None:
                error.what = f"{self.step.title}: {error.what}"
                error.args = (error.what,)
                error.location = error.location or self.step.location
            raise


def calls_of(
    case: BoundCase, module: Module, arguments: Mapping[str, Any]
) -> tuple[KernelCall, ...]:
    """Return the launches of a case in order: one, or one for each step of a chain.

    Args:
        case: the case.
        module: a bundle on a device.
        arguments: of the case, by name, on that device.
    """
    if not case.steps:
        launcher = module.kernels[case.kernel]
        return (KernelCall(launcher=launcher, arguments=arguments, axes=dict(case.choose)),)
    return tuple(
        KernelCall(
            launcher=module.kernels[step.kernel],
            arguments={
                name: arguments[one.name] if one.name else one.value for name, one in step.arguments
            },
            axes=dict(step.axes),
            step=step,
        )
        for step in case.steps
    )


class ModuleDevice:
    """Launches cases of one module on its device.

    Args:
        module: a bundle that is loaded on a device.
        driver: the driver it was loaded through.
        advice: how to get Tile IR into the module, where the manifest is not the reason.

    Attributes:
        launching: the launches of the case that is running.
    """

    def __init__(self, module: Module, driver: DeviceDriver, *, advice: str = "") -> None:
        self._module = module
        self._driver = driver
        self._device = module.device
        self._advice = advice
        self.launching: tuple[KernelCall, ...] = ()
        self._behind: list[Event] = []  # one behind each launch but the last
        self._events = threading.Lock()

    @property
    def device(self) -> DeviceInfo:
        """The device."""
        return self._device

    @property
    def compiled(self) -> tuple[Compiled, ...]:
        """Images that the driver compiled at load so far."""
        return self._module.compiled

    def refusal(self, case: BoundCase) -> str:
        """Return why the case needs a GPU; empty where it does not.

        On a GPU nothing is refused: a missing image is an error of the build.
        """
        if not case.steps:
            return self._refusal(case.kernel, dict(case.axes))
        for step in case.steps:
            if reason := self._refusal(step.kernel, dict(step.axes)):
                return f"{step.kernel}: {reason}"
        return ""

    def _refusal(self, kernel: str, axes: Mapping[str, AxisValue]) -> str:
        if self._device.interprets is None:
            return ""
        info = self._module.kernels[kernel].info
        facts = DeviceFacts(interprets=self._device.interprets)
        variants = variants_at(info, axes)
        if not variants or any(choose_image(variant.images, facts).image for variant in variants):
            return ""
        return refusal_of(info.language, variants[0].images, advice=self._advice)

    def to_device(self, array: Array, dtype: str) -> DeviceBuffer:
        """Return a buffer with the array's contents."""
        return DeviceBuffer.from_host(array, self._device, dtype=dtype, driver=self._driver)

    def unset(self, like: Array, dtype: str) -> DeviceBuffer:
        """Return an uninitialized buffer of the array's shape."""
        return DeviceBuffer(like.shape, dtype, self._device, driver=self._driver)

    def from_device(self, tensor: DeviceBuffer) -> Array:
        """Return the buffer's contents."""
        array: Array = tensor.to_host(STREAM)
        return array

    def launch(self, case: BoundCase, arguments: Mapping[str, Any]) -> None:
        """Launch a case on one stream, step behind step, and synchronize."""
        calls = self.launching = calls_of(case, self._module, arguments)
        stream = Stream.borrow_raw(STREAM, self._device, driver=self._driver)
        try:
            for call in calls:
                if call is not calls[0]:
                    event = Event(self._device, driver=self._driver)
                    event.record(stream)
                    self._behind.append(event)
                call.launch(STREAM)
            self._driver.synchronize(self._device.ordinal, STREAM)
        finally:
            self.launching = ()
            with self._events:
                for event in self._behind:
                    event.close()
                self._behind.clear()

    def step_under_way(self) -> int | None:
        """Return the place in `launching` of the launch that the device executes, or None if the
        driver cannot tell. Called from another thread.
        """
        with self._events:
            try:
                return sum(event.reached for event in self._behind)
            except TilecError:
                return None


def refusal_of(language: str, images: Sequence[ImageInfo] = (), *, advice: str = "") -> str:
    """Return why the cpu device cannot run a kernel of a language, with the next step: `advice`,
    where only Tile IR is missing.
    """
    cause, fix = cpu_advice(images, language)
    return f"{cause}: {advice if advice and cause == LACKS_TILE_IR else fix}"
