"""A cpu device whose kernels are Python functions, and a small kernel to launch on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.runtime_samples import ADD_ABI, ADD_PARAMS, bundle_of, image, kernel
from tests.unit.runtime.cpu.tileir.build import program
from tests.waiting import PATIENCE
from tilec_runtime import Module, load
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.cpu.graphs import Executable, Graph
from tilec_runtime.cpu.launch import CpuOptions, CpuRun
from tilec_runtime.cpu.queue import Queue, Work
from tilec_runtime.cpu.tileir.ir import Pointer, Scalar, Tile
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.errors import FaultError
from tilec_runtime.launch.binding import bind
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, VariantInfo

F32, I32, PTR = Tile(Scalar.F32, ()), Tile(Scalar.I32, ()), Tile(Pointer(Scalar.F32), ())
LAUNCH = LaunchInfo(
    grid=("cdiv(z.shape[0], 256)",),
    requires=("x.shape[0] == z.shape[0]", "y.shape[0] == z.shape[0]"),
)
ADD = dataclasses.replace(
    kernel(
        "add",
        ADD_PARAMS,
        (
            VariantInfo(
                id="add-any", abi=ADD_ABI, images=(image("add", "tileir"), image("add", "sm_90"))
            ),
        ),
        launch=LAUNCH,
    ),
    language="tile",
)


def program_of(*types: Tile) -> Program:
    """A kernel that takes these and does nothing."""
    return program(types, lambda builder, *_: builder.ret(), name="add")


class PacedCpu(CpuDriver):
    """A cpu device that overwrites freed memory, which shows later reads of it, and that calls
    `pace` on a stream's thread before each item of work.
    """

    def __init__(
        self, options: CpuOptions | None = None, *, pace: Callable[[], None] | None = None
    ) -> None:
        self._pace = pace
        super().__init__(options)

    def _free(self, address: int) -> None:
        if address in self._owners:
            self._bytes(address, self._owners[address][1]).fill(0xDD)
        super()._free(address)

    def _new_queue(self, handle: int) -> Queue:
        queue = super()._new_queue(handle)
        return queue if self._pace is None else _PacedQueue(queue.name, self._pace)

    def _replay(self, executable: Executable, nodes: Graph, stream: int) -> None:
        pace = self._pace
        if pace is not None:  # the queue itself is paced before the first
            nodes = (*nodes[:1], *(paced(pace, node) for node in nodes[1:]))
        super()._replay(executable, nodes, stream)


class _PacedQueue(Queue):
    def __init__(self, name: str, pace: Callable[[], None]) -> None:
        super().__init__(name)
        self._pace = pace

    def _do(self, work: Work, number: int) -> BaseException | None:
        return super()._do(paced(self._pace, work), number)


def paced(pace: Callable[[], None], work: Work) -> Work:
    def run(given_up: Callable[[], bool]) -> None:
        pace()
        work(given_up)

    return run


class PythonKernels(PacedCpu):
    """A cpu device whose images are no Tile IR: `run` of its options does their work."""

    types = (PTR, PTR, PTR, I32, F32)

    def load_module(self, ordinal: int, data: bytes) -> Any:
        return data

    def function(self, module: Any, symbol: str) -> Program:
        return program_of(*self.types)


def held(run: CpuRun, name: str) -> np.ndarray:
    """The elements of a parameter of float32, as an array over its memory."""
    regions = {region.name: region for region in run.memory.regions}
    return regions[name].data.view("f4")


def add(run: CpuRun) -> None:
    z, x, y = (held(run, name) for name in "zxy")
    np.add(x * run.arguments[4], y, out=z)


def device(
    run: Callable[[CpuRun], None] = add, *kernels: KernelInfo, **facts: Any
) -> tuple[Module, PythonKernels]:
    driver = PythonKernels(CpuOptions(run=run))
    for name, value in facts.items():
        setattr(driver, name, value)
    return load(bundle_of(*(kernels or (ADD,))), "cpu", driver=driver), driver


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def fails(run: CpuRun) -> None:
    """A kernel that fails where alpha is negative."""
    if run.arguments[4] < 0:
        raise FaultError(f"{run.kernel}: it went wrong", kernel=run.kernel)
    add(run)


def later(module: Any, stream: Any, *arrays: Any, **scalars: Any) -> None:
    """Enqueue a launch on arrays of NumPy without waiting for it, as an op does."""
    launcher = module.kernels["add"]
    values, _, _ = bind(launcher.contract, arrays, scalars)
    launcher.enqueue(stream, values)


def failed(module: Any, driver: CpuDriver, stream: Any) -> None:
    """A launch that has failed by now, of which nobody was told."""
    later(module, stream, ones(4), ones(4), ones(4), alpha=-1.0)
    handle = stream if isinstance(stream, int) else stream.handle
    queue = driver._queues[handle]
    assert queue.wait_for(queue.position, PATIENCE)
