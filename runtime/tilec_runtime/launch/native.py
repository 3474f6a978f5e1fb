"""The launch core for launchers: their base type and their tables of plans."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.core import CORE
from tilec_runtime.device.handles import current_stream, handle_attribute, handle_of
from tilec_runtime.device.layout import is_of_jax
from tilec_runtime.device.lines import lines_of
from tilec_runtime.device.recording import RECORDINGS
from tilec_runtime.device.scalars import encoded
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.facts import is_torch, tensor_facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilec_runtime._core import Table
    from tilec_runtime.device.seam import DeviceDriver
    from tilec_runtime.launch.contract import Contract
    from tilec_runtime.model.kernel import AxisValue
    from tilec_runtime.protocols import StreamLike

# Ways in which the core reads arrays of a type (`enum reading_kind` in _core/array.h).
BY_PYTHON, BY_TORCH_EXCHANGE, BY_EXCHANGE, BY_LAUNCHER, BY_OWNER = range(5)


def reading_of(cls: type) -> int:
    """Return how the core reads arrays of a type; the core calls this once per type."""
    if hasattr(cls, "grid_wish"):
        return BY_LAUNCHER
    if hasattr(cls, "_tilec_facts_"):
        return BY_OWNER if hasattr(cls, "_tilec_leased_") else BY_PYTHON
    if is_torch(cls):
        return BY_TORCH_EXCHANGE
    # JAX's arrays are read-only, but their protocols do not declare it.
    return BY_PYTHON if is_of_jax(cls) else BY_EXCHANGE


class PlainLauncher:
    """The base type of launchers without a launch core: Python makes every launch."""

    _table: Table | None = None  # the cached plans
    _call: Callable[..., Any]
    _launch: Callable[..., None]

    def __call__(self, /, *args: Any, stream: StreamLike | None = None, **kwargs: Any) -> Any:
        """Check the arguments and enqueue the kernel.

        Return the outputs that a call of an operator leaves out: one array or a tuple.

        Args:
            args: the kernel's arguments in order.
            stream: the stream to enqueue on: a stream of torch, CuPy or cuda.core, or a handle as
                an int. None is the current stream of the arrays' library (torch, CuPy), and the
                device's default stream for all other arrays.
            kwargs: arguments by name, and axes (`BM=128`).

        Raises:
            LaunchError: the call was refused; nothing was enqueued.
            NoImageError: the bundle has no image for this device.
            DriverError: the driver refused the image or the launch.
            FaultError: the kernel failed on the cpu device, in a call with an array of another
                library.
        """
        return self._call(*args, stream=stream, **kwargs)

    def launch(
        self,
        stream: StreamLike | None,
        values: tuple[Any, ...],
        choices: tuple[AxisValue | None, ...] = (),
        /,
    ) -> None:
        """Check the arguments and enqueue the kernel; generated code calls this.

        On the cpu device, a launch that takes an array of another library returns when it is done,
        because reads of such an array do not wait. Reads of tilec's own tensors wait.

        Args:
            stream: the stream to enqueue on, as for a call.
            values: every argument, in order.
            choices: the value of every axis that a caller chooses, in the manifest's order; None
                leaves an axis open. Empty if the caller chooses none.

        Raises:
            As for a call.
        """
        self._launch(stream, values, choices)


def table_of(contract: Contract, driver: DeviceDriver, ordinal: int) -> Table | None:
    """Return an empty table of plans, or None if Python makes all launches."""
    target = None if CORE is None else driver.launch_target(ordinal)
    if CORE is None or target is None:
        return None
    try:
        table: Table = CORE.Table(
            parameters=len(contract.params),
            tensors=contract.tensors,
            others=contract.others,
            keyed=contract.keyed,
            read=functools.partial(_facts, driver),
            recordings=RECORDINGS,
            lines=lines_of(driver, ordinal),
            target=target,
            adopts=ordinal == 0,  # see `Driver.adopt`
            outs=contract.outs,
        )
    except (OSError, ValueError):  # an old driver; a kernel with too many parameters for the core
        return None
    return table


def _facts(driver: DeviceDriver, value: Any) -> Any:
    return tensor_facts(value, driver.pointer_device)


if CORE is not None:
    CORE.configure(
        tuple((row.name, *row.dlpack) for row in DTYPES.values()),
        reading_of,
        encoded,
        handle_attribute,
        handle_of,
        current_stream,
    )
if TYPE_CHECKING:
    LauncherBase = PlainLauncher
else:
    LauncherBase = PlainLauncher if CORE is None else CORE.Launcher  # the same type in C
