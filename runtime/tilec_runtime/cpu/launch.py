"""One launch on the cpu device: arguments out of the parameter block, the memory that they stand
for, and the run.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tilec_runtime.cpu.memory import Allocations
from tilec_runtime.cpu.queue import Queue, Work
from tilec_runtime.cpu.tileir.blocks import refuse_huge
from tilec_runtime.cpu.tileir.execute import DEFAULT, Options, execute
from tilec_runtime.cpu.tileir.frame import Observer, Undetermined
from tilec_runtime.cpu.tileir.ir import Pointer, Scalar, Tile, Type
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.cpu.tileir.values import storage
from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.device.seam import Dim3, LaunchParts, TensorPart
from tilec_runtime.errors import ArgumentError, BundleError, DriverError, InternalError, TilecError
from tilec_runtime.tensors.facts import is_leased
from tilec_runtime.tensors.host import host_memory


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CpuRun:
    """A launch whose turn has come, with all that it needs.

    Attributes:
        kernel: id of the variant.
        program: the kernel.
        arguments: one for each parameter of the entry point.
        grid: blocks along x, y and z.
        memory: all that it may touch: a region for each tensor and for each allocation that a plain
            address points into.
        regions: those of the tensors, by name of the parameter; tensors of no elements have none.
        options: how to execute it.
        slots: what each argument is of the launcher's parameters (`x.ptr`, `x.shape[0]`), where
            that is known.
    """

    kernel: str
    program: Program
    arguments: Sequence[Any]
    grid: Dim3
    memory: Memory
    regions: Mapping[str, MemoryRegion]
    options: Options
    slots: tuple[str, ...] = ()


def execute_run(run: CpuRun) -> None:
    """Run every block."""
    execute(run.program, run.arguments, run.grid, run.memory, run.options)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CpuOptions:
    """How a cpu device runs kernels.

    Attributes:
        order: of the blocks: "forward", "reverse", or the seed of a random one.
        batch: most blocks in flight; 0 to have it chosen.
        steps: most passes of loops of one batch of blocks; 0 for the interpreter's own limit.
        elements: most elements that a launch may compute, by the estimate before it starts; 0 for
            the interpreter's own limit.
        output: takes what kernels print; None for standard output.
        observer: makes the observer of a launch, on the stream's thread and just before the launch;
            None for none.
        undetermined: says what elements of a launch hold whose value Tile IR leaves open, likewise.
        cancelled: asked at each pass of a loop whether to stop the launch; None for never.
        run: does a launch; replaced by who wants to look at it closer.
    """

    order: str | int = "forward"
    batch: int = 0
    steps: int = 0
    elements: int = 0
    output: Callable[[str], None] | None = None
    observer: Callable[[CpuRun], Observer | None] | None = None
    undetermined: Callable[[], Undetermined] = Undetermined
    cancelled: Callable[[], bool] | None = None
    run: Callable[[CpuRun], None] = execute_run


# Arguments, all regions, and those of the tensors by name.
_Taken: TypeAlias = "tuple[Sequence[Any], Sequence[MemoryRegion], Mapping[str, MemoryRegion]]"


class Launching:
    """A launch that is bound to its kernel, grid and tensors' facts: what is left are addresses and
    numbers.
    """

    def __init__(
        self,
        program: Program,
        grid: Dim3,
        parts: LaunchParts,
        options: CpuOptions,
        allocations: Allocations,
    ) -> None:
        """Check the entry point's parameters against what launches pass, and the grid against what
        a CPU can do.

        Raises:
            BundleError: they do not fit.
            LaunchLimitError: the grid is too much.
        """
        self._program = program
        self._grid = grid
        self._parts = parts
        self._options = options
        self._allocations = allocations
        self._elements = tuple(_element(kind) for kind in program.signature.params)
        needed = tuple(
            8 if isinstance(element, Pointer) else max(element.bits // 8, 1)
            for element in self._elements
        )
        if needed != parts.sizes:
            what = f"{parts.kernel}: the image's parameters have {_listed(needed)} bytes, and launches pass {_listed(parts.sizes)}"
            raise BundleError(
                what,
                cause="the bundle's index and its images disagree",
                fix="build the bundle again",
                kernel=parts.kernel,
            )
        refuse_huge(
            program.footprint,
            grid,
            options.batch,
            options.elements or DEFAULT.elements,
            parts.kernel,
        )

    def prepare(
        self, parameters: int, held: tuple[tuple[Any, ...], tuple[Any, ...]]
    ) -> Callable[[Callable[[], bool]], None]:
        """Take a launch's arguments, and give what runs it later.

        Args:
            parameters: address of the array of parameter addresses.
            held: addresses of the tensors first, and all arguments of the call, which live until
                the run is over.

        Raises:
            ArgumentError: a plain address is of no memory of the device.
        """
        taken = self._take(parameters, held)

        def work(cancelled: Callable[[], bool]) -> None:
            self._execute(self._made(taken, cancelled))

        return work

    def run(self, parameters: int, held: tuple[tuple[Any, ...], tuple[Any, ...]]) -> CpuRun:
        """Take a launch's arguments as `prepare` does, for a caller that executes it at once and
        in another way.
        """
        run = self._made(self._take(parameters, held), None)
        observer = self._options.observer
        return (
            run
            if observer is None
            else dataclasses.replace(
                run, options=dataclasses.replace(run.options, observer=observer(run))
            )
        )

    def _take(self, parameters: int, held: tuple[tuple[Any, ...], tuple[Any, ...]]) -> _Taken:
        addresses, owners = held
        places = (
            (ctypes.c_void_p * len(self._elements)).from_address(parameters)
            if self._elements
            else ()
        )
        arguments = [
            _read(place, element) for place, element in zip(places, self._elements, strict=True)
        ]
        regions = {
            part.name: self._region(part, address, owners)
            for part, address in zip(self._parts.tensors, addresses, strict=False)
            if part.first != part.end
        }
        plain = [self._plain(arguments[place], name) for place, name in self._parts.addresses]
        return (
            arguments,
            [*regions.values(), *(region for region in plain if region is not None)],
            regions,
        )

    def _made(self, taken: _Taken, cancelled: Callable[[], bool] | None) -> CpuRun:
        parts, wish = self._parts, self._options
        arguments, memory, regions = taken
        stop = wish.cancelled
        options = Options(
            kernel=parts.kernel,
            order=wish.order,
            batch=wish.batch,
            steps=wish.steps or DEFAULT.steps,
            elements=wish.elements or DEFAULT.elements,
            output=wish.output or DEFAULT.output,
            cancelled=cancelled
            if stop is None
            else lambda: stop() or (cancelled is not None and cancelled()),
            undetermined=wish.undetermined(),
        )
        return CpuRun(
            kernel=parts.kernel,
            program=self._program,
            arguments=arguments,
            grid=self._grid,
            memory=Memory(memory),
            regions=regions,
            options=options,
            slots=parts.slots,
        )

    def _execute(self, run: CpuRun) -> None:
        parts, wish = self._parts, self._options
        try:
            if wish.observer is not None:
                run = dataclasses.replace(
                    run, options=dataclasses.replace(run.options, observer=wish.observer(run))
                )
            wish.run(run)
        except (TilecError, OSError):  # the latter from the consumer of what the kernel prints
            raise
        except MemoryError as error:
            raise out_of_memory(f"{parts.kernel}: {error}", kernel=parts.kernel) from error
        except Exception as error:
            what = f"{parts.kernel}: the cpu device failed at it: {type(error).__name__}: {error}"
            raise InternalError(
                what, fix="please report it, with the kernel", kernel=parts.kernel
            ) from error

    def _region(self, part: TensorPart, address: int, owners: tuple[Any, ...]) -> MemoryRegion:
        low, size = address + part.first, part.end - part.first
        data = self._allocations.part(low, size)
        if data is None:
            # Of tilec's own tensors the memory is kept, and not the object: a view ends when
            # only the device has it.
            kept = tuple(value.storage if is_leased(value) else value for value in owners)
            data = host_memory(low, size, writable=not part.readonly, owner=kept)
        return MemoryRegion(
            part.name,
            low,
            data,
            writable=not part.readonly,
            itemsize=part.itemsize,
            shape=part.shape,
            strides=part.stride,
            origin=-part.first,
        )

    def _plain(self, address: int, name: str) -> MemoryRegion | None:
        """What a plain address stands for: all of the allocation; nothing is known of the memory of
        others.
        """
        if not address:
            return None
        holding = self._allocations.holding(address)
        if holding is None:
            kernel = self._parts.kernel
            what = f"{kernel}: argument {name!r} is the address {address:#x}, which is of no memory that this device allocated"
            fix = "pass the `ptr` of a DeviceBuffer of the cpu device: of other memory the device cannot know how far it reaches"
            raise ArgumentError(what, fix=fix, kernel=kernel)
        start, data = holding
        return MemoryRegion(name, start, data)


class QueuedCall:
    """What enqueues a launch on a stream; it reports failure by its result and never raises for
    one.

    Attributes:
        launching: the launch.
    """

    __slots__ = ("_put", "_queue", "launching")

    def __init__(
        self, launching: Launching, queue: Callable[[], Queue], put: Callable[[Work], None]
    ) -> None:
        """Take a launch, what finds the stream's queue (it may be closed between calls), and what
        puts work there.
        """
        self.launching = launching
        self._queue = queue
        self._put = put

    def __call__(self, parameters: int, held: Any) -> tuple[BaseException | None]:
        """As `LaunchCall`."""
        try:
            self._queue().check()
            self._put(self.launching.prepare(parameters, held))
        except Exception as error:  # noqa: BLE001 - `launch_failed` raises it
            return (error,)
        return (None,)


def out_of_memory(what: str, *, kernel: str = "") -> DriverError:
    """The error of a device whose memory is used up, as the driver of a GPU gives it."""
    cause, fix = (
        "the machine has no free memory of this size",
        "free buffers that are not needed any more, or use smaller inputs",
    )
    return DriverError(
        what,
        result="CUDA_ERROR_OUT_OF_MEMORY",
        code=2,
        cause=cause,
        fix=fix,
        kernel=kernel,
        device=ON_CPU,
    )


def _element(kind: Type) -> Scalar | Pointer:
    element = kind.element if isinstance(kind, Tile) and not kind.shape else kind
    if not isinstance(element, Scalar | Pointer):
        raise BundleError(
            f"a kernel's parameter is a {type(kind).__name__}, and launches pass numbers and addresses"
        )
    return element


def _read(place: int | None, element: Scalar | Pointer) -> Any:
    """A parameter's value; integers as they are signed, floats as NumPy holds them."""
    if isinstance(element, Pointer):
        return int.from_bytes(ctypes.string_at(place or 0, 8), "little")
    data = ctypes.string_at(place or 0, max(element.bits // 8, 1))
    if element is Scalar.I1:
        return int(data != b"\0")
    if not element.is_float:
        return int.from_bytes(data, "little", signed=True)
    return np.frombuffer(data, storage(element))[0]


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) or "none"
