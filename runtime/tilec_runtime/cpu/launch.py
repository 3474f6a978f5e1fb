"""One launch on the cpu device: unpack arguments, find memory, run the kernel."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilec_runtime.cpu.memory import Allocations
from tilec_runtime.cpu.queue import Work
from tilec_runtime.cpu.tileir.blocks import refuse_huge
from tilec_runtime.cpu.tileir.execute import execute
from tilec_runtime.cpu.tileir.frame import Options
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
    """A launch that is ready to run.

    Attributes:
        program: prepared kernel.
        arguments: one per parameter of the entry point.
        grid: blocks along x, y and z.
        memory: memory that it may access: one region per tensor, and one per allocation behind a
            plain address.
        options: options of the interpreter, with the id of the variant.
        slots: expression of each argument over the launcher's parameters (`x.ptr`, `x.shape[0]`);
            empty if unknown.
    """

    program: Program
    arguments: Sequence[Any]
    grid: Dim3
    memory: Memory
    options: Options
    slots: tuple[str, ...] = ()

    @property
    def kernel(self) -> str:
        """Id of the variant."""
        return self.options.kernel

    def with_options(self, **changes: Any) -> CpuRun:
        """Return the launch with other options of the interpreter."""
        return dataclasses.replace(self, options=dataclasses.replace(self.options, **changes))


def execute_run(run: CpuRun) -> None:
    """Run every block."""
    execute(run.program, run.arguments, run.grid, run.memory, run.options)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CpuOptions(Options):
    """Options of a cpu device, for all its launches.

    Attributes:
        run: runs a launch on the stream's thread; tools replace it to inspect launches.
    """

    run: Callable[[CpuRun], None] = execute_run


class QueuedCall:
    """A launch bound to kernel, grid, tensor shapes and a stream (`LaunchCall`).

    A call adds addresses and scalars, and enqueues it.
    """

    def __init__(
        self,
        program: Program,
        grid: Dim3,
        parts: LaunchParts,
        options: CpuOptions,
        allocations: Allocations,
        enqueue: Callable[[Work], None],
    ) -> None:
        """Check the entry point's parameters, and the estimated work of the grid.

        `enqueue` raises a closed stream's error, or that of earlier work on it.

        Raises:
            BundleError: the parameters differ from the arguments that launches pass.
            LaunchLimitError: the launch has too many blocks or elements for a CPU.
        """
        self._program = program
        self._grid = grid
        self._parts = parts
        self._options = dataclasses.replace(options, kernel=parts.kernel)
        self._allocations = allocations
        self._enqueue = enqueue
        self._elements = tuple(_element(kind) for kind in program.signature.params)
        needed = tuple(
            8 if isinstance(element, Pointer) else max(element.bits // 8, 1)
            for element in self._elements
        )
        if needed != parts.sizes:
            message = f"{parts.kernel}: the image's parameters have {_listed(needed)} bytes, and launches pass {_listed(parts.sizes)}"
            raise BundleError(
                message,
                cause="the bundle's index and its images disagree",
                fix="build the bundle again",
                kernel=parts.kernel,
            )
        refuse_huge(program.footprint, grid, options.batch, options.elements, parts.kernel)

    def __call__(
        self, parameters: int, held: tuple[tuple[Any, ...], tuple[Any, ...]]
    ) -> tuple[BaseException | None]:
        """Enqueue the launch; return an error as a value.

        Args:
            parameters: address of the array of parameter addresses.
            held: addresses of the tensors, and all arguments of the call, which the work keeps
                alive.
        """
        try:
            run = self.run(parameters, held)
            self._enqueue(lambda given_up: self._execute(run, given_up))
        except Exception as error:  # noqa: BLE001 - `launch_failed` raises it
            return (error,)
        return (None,)

    def run(self, parameters: int, held: tuple[tuple[Any, ...], tuple[Any, ...]]) -> CpuRun:
        """Unpack the arguments of a call, for a caller that executes the launch.

        Raises:
            ArgumentError: a plain address is outside the device's allocations.
        """
        addresses, owners = held
        pointers = (
            (ctypes.c_void_p * len(self._elements)).from_address(parameters)
            if self._elements
            else ()
        )
        arguments = [
            _read(pointer, element)
            for pointer, element in zip(pointers, self._elements, strict=True)
        ]
        parts = self._parts
        tensors = [
            self._region(part, address, owners)
            for part, address in zip(parts.tensors, addresses, strict=False)
            if part.first != part.end
        ]
        plain = [self._plain(arguments[pointer], name) for pointer, name in parts.addresses]
        return CpuRun(
            program=self._program,
            arguments=arguments,
            grid=self._grid,
            memory=Memory([*tensors, *(region for region in plain if region is not None)]),
            options=self._options,
            slots=parts.slots,
        )

    def _execute(self, run: CpuRun, given_up: Callable[[], bool]) -> None:
        kernel, stop = run.kernel, self._options.cancelled
        cancelled = given_up if stop is None else lambda: stop() or given_up()
        try:
            self._options.run(run.with_options(cancelled=cancelled))
        except (TilecError, OSError):  # OSError comes from the consumer of the kernel's output
            raise
        except MemoryError as error:
            raise out_of_memory(f"{kernel}: {error}", kernel=kernel) from error
        except Exception as error:
            message = f"{kernel}: the cpu device failed at it: {type(error).__name__}: {error}"
            raise InternalError(
                message, fix="please report it, with the kernel", kernel=kernel
            ) from error

    def _region(self, part: TensorPart, address: int, owners: tuple[Any, ...]) -> MemoryRegion:
        low, size = address + part.first, part.end - part.first
        data = self._allocations.part(low, size)
        if data is None:
            # For tilec's tensors, keep the memory alive and not the object: a view ends when only
            # the device refers to it.
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
        """Return the region of a plain address: its whole allocation, or None for a null."""
        if not address:
            return None
        holding = self._allocations.holding(address)
        if holding is None:
            kernel = self._parts.kernel
            message = f"{kernel}: argument {name!r} is the address {address:#x}, which is of no memory that this device allocated"
            fix = "pass the `ptr` of a DeviceBuffer of the cpu device: of other memory the device cannot know how far it reaches"
            raise ArgumentError(message, fix=fix, kernel=kernel)
        start, data = holding
        return MemoryRegion(name, start, data)


def out_of_memory(subject: str, *, kernel: str = "") -> DriverError:
    """Return the out-of-memory error of a GPU's driver."""
    cause, fix = (
        "the machine has no free memory of this size",
        "free buffers that are not needed any more, or use smaller inputs",
    )
    return DriverError(
        subject,
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


def _read(address: int | None, element: Scalar | Pointer) -> Any:
    """Read a parameter: a signed integer, or a NumPy float."""
    if isinstance(element, Pointer):
        return int.from_bytes(ctypes.string_at(address or 0, 8), "little")
    data = ctypes.string_at(address or 0, max(element.bits // 8, 1))
    if element is Scalar.I1:
        return int(data != b"\0")
    if not element.is_float:
        return int.from_bytes(data, "little", signed=True)
    return np.frombuffer(data, storage(element))[0]


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) or "none"
