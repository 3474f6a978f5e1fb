"""Tensors and launches of other libraries, to hold a kernel against: each is imported when a case
names it, and timed as kernels are.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from tilec.bench.measure import Clock, ClockReading
from tilec_runtime.errors import MissingError
from tilec_runtime.model.dtype import DTYPES

if TYPE_CHECKING:
    from tilec.bench.clocks import Clocks
    from tilec_runtime.device.seam import DeviceInfo

Array = np.ndarray[Any, np.dtype[Any]]
Call = Callable[[Mapping[str, Any]], Any]


class Contender(Protocol):
    """Launches of somebody else's; see `bench.measure.Subject`. `note` says what makes its times
    doubtful, empty for nothing.
    """

    note: str

    def seconds(self, launches: int) -> float:
        """Seconds of so many launches in a row."""

    def clocks(self) -> ClockReading | None:
        """The clocks now."""


class Library(Protocol):
    """A library on a device. `module` holds its functions, `title` is its name and version."""

    module: Any
    title: str

    def tensor(self, array: Array, dtype: str) -> Any:
        """A tensor with the array's contents."""

    def contender(
        self,
        call: Call,
        sets: Sequence[Mapping[str, Any]],
        *,
        flush: int,
        clocks: Clocks | None,
    ) -> Contender:
        """Calls to time: with sets of arguments in turn, the cache written over with `flush` bytes
        before each sample.
        """


def open_library(
    name: str,
    device: DeviceInfo,
    clock: Clock,
    find: Callable[[str], Any] = importlib.import_module,
) -> Library:
    """A library on a device.

    Args:
        name: `torch`, `cupy` or `numpy`.
        device: where.
        clock: of the host, for what runs there.
        find: imports.

    Raises:
        MissingError: it is not installed, or does not run there.
    """
    if name == "numpy":
        if device.interprets is None:
            raise MissingError("numpy computes on the host: a GPU is held against torch or cupy")
        return HostLibrary(np, lambda array, _dtype: array.copy(), clock)
    try:
        module = find(name)
    except ImportError as error:
        raise MissingError(f"{name} is not installed") from error
    if device.interprets is not None:
        if name == "cupy":
            raise MissingError("cupy computes on GPUs only")
        return HostLibrary(
            module, lambda array, dtype: _torch_tensor(module, array, dtype, "cpu"), clock
        )
    if name == "torch" and not module.cuda.is_available():
        raise MissingError(
            f"torch {module.__version__} sees no GPU", fix="install a build of torch for CUDA"
        )
    return (
        TorchLibrary(module, device.ordinal)
        if name == "torch"
        else CupyLibrary(module, device.ordinal)
    )


class HostLibrary:
    """Functions that are done when they return."""

    def __init__(self, module: Any, make: Callable[[Array, str], Any], clock: Clock) -> None:
        self.module, self._make, self._clock = module, make, clock
        self.title = _title(module)

    def tensor(self, array: Array, dtype: str) -> Any:
        """A copy."""
        return self._make(array, dtype)

    def contender(
        self,
        call: Call,
        sets: Sequence[Mapping[str, Any]],
        *,
        flush: int,  # noqa: ARG002 - of devices
        clocks: Clocks | None,  # noqa: ARG002 - of devices
    ) -> Contender:
        """Timed by the host's clock."""
        return HostContender(call, sets, self._clock)


@final
class HostContender:
    """Calls that are done when they return."""

    note = ""

    def __init__(self, call: Call, sets: Sequence[Mapping[str, Any]], clock: Clock) -> None:
        self._call, self._sets, self._clock = call, sets, clock

    def seconds(self, launches: int) -> float:
        """Seconds of so many calls."""
        begun = self._clock()
        for place in range(launches):
            self._call(self._sets[place % len(self._sets)])
        return self._clock() - begun

    def clocks(self) -> ClockReading | None:
        """A host's are not read."""
        return None


class TorchLibrary:
    """torch on a GPU."""

    def __init__(self, torch: Any, ordinal: int) -> None:
        self.module, self._device = torch, f"cuda:{ordinal}"
        self.title = _title(torch)

    def tensor(self, array: Array, dtype: str) -> Any:
        """A tensor on the GPU."""
        return _torch_tensor(self.module, array, dtype, self._device)

    def contender(
        self, call: Call, sets: Sequence[Mapping[str, Any]], *, flush: int, clocks: Clocks | None
    ) -> Contender:
        """In CUDA graphs, as kernels are."""
        return TorchContender(self.module, self._device, call, sets, flush=flush, clocks=clocks)


@final
class TorchContender:
    """Calls of torch in a CUDA graph: torch's own capture, which gives graphs memory that nobody
    else is given.
    """

    def __init__(
        self,
        torch: Any,
        device: str,
        call: Call,
        sets: Sequence[Mapping[str, Any]],
        *,
        flush: int = 0,
        clocks: Clocks | None = None,
    ) -> None:
        self.note = ""
        self._torch, self._device, self._call, self._sets, self._clocks = (
            torch,
            device,
            call,
            sets,
            clocks,
        )
        with torch.cuda.device(device):
            self._stream = torch.cuda.Stream(device)
            self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._flush = torch.empty(flush, dtype=torch.uint8, device=device) if flush else None
        self._graphs: dict[int, Any] = {}

    def seconds(self, launches: int) -> float:
        """Seconds that the device is busy."""
        with self._torch.cuda.device(self._device), self._torch.cuda.stream(self._stream):
            taken, left = 0.0, launches
            while left:
                part = left if self._flush is None else min(left, len(self._sets))
                enqueue = self._ready(part)
                if self._flush is not None:
                    self._flush.fill_(left & 0xFF)
                self._start.record(self._stream)
                enqueue()
                self._end.record(self._stream)
                self._end.synchronize()
                taken += self._start.elapsed_time(self._end) * 1e-3
                left -= part
            return taken

    def clocks(self) -> ClockReading | None:
        """The clocks now."""
        return self._clocks.read() if self._clocks else None

    def _ready(self, launches: int) -> Callable[[], None]:
        if launches == 1 or self.note:
            return lambda: self._launch(launches)
        if launches not in self._graphs:
            graph = self._torch.cuda.CUDAGraph()
            try:
                self._launch(min(launches, len(self._sets)))  # what is made once is made now
                self._stream.synchronize()
                with self._torch.cuda.graph(graph, stream=self._stream):
                    self._launch(launches)
            except RuntimeError as error:  # not everything that runs can be captured
                self.note = f"it cannot be captured in a CUDA graph, so that its time holds what its launches cost the host: {_line(error)}"
                self._torch.cuda.synchronize(self._device)
                return lambda: self._launch(launches)
            self._graphs[launches] = graph
        replay: Callable[[], None] = self._graphs[launches].replay
        return replay

    def _launch(self, launches: int) -> None:
        for place in range(launches):
            self._call(self._sets[place % len(self._sets)])


class CupyLibrary:
    """CuPy on a GPU."""

    def __init__(self, cupy: Any, ordinal: int) -> None:
        self.module, self._ordinal = cupy, ordinal
        self.title = _title(cupy)

    def tensor(self, array: Array, dtype: str) -> Any:
        """An array on the GPU."""
        if DTYPES[dtype].numpy != array.dtype.name or not hasattr(np, DTYPES[dtype].numpy):
            raise MissingError(f"cupy has no dtype for {dtype}")
        with self.module.cuda.Device(self._ordinal):
            return self.module.asarray(array)

    def contender(
        self, call: Call, sets: Sequence[Mapping[str, Any]], *, flush: int, clocks: Clocks | None
    ) -> Contender:
        """Launched one by one: memory of CuPy's pool that a graph has used is given to others."""
        return CupyContender(self.module, self._ordinal, call, sets, flush=flush, clocks=clocks)


@final
class CupyContender:
    """Calls of CuPy, one by one."""

    note = "CuPy's launches are enqueued one by one, so that times of short ones hold what that costs the host"

    def __init__(
        self,
        cupy: Any,
        ordinal: int,
        call: Call,
        sets: Sequence[Mapping[str, Any]],
        *,
        flush: int = 0,
        clocks: Clocks | None = None,
    ) -> None:
        self._cupy, self._device, self._call, self._sets, self._clocks = (
            cupy,
            cupy.cuda.Device(ordinal),
            call,
            sets,
            clocks,
        )
        with self._device:
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._start, self._end = cupy.cuda.Event(), cupy.cuda.Event()
            self._flush = cupy.empty(flush, dtype="uint8") if flush else None

    def seconds(self, launches: int) -> float:
        """Seconds that the device is busy."""
        with self._device, self._stream:
            taken, left = 0.0, launches
            while left:
                part = left if self._flush is None else min(left, len(self._sets))
                if self._flush is not None:
                    self._flush.fill(left & 0xFF)
                self._start.record(self._stream)
                for place in range(part):
                    self._call(self._sets[place % len(self._sets)])
                self._end.record(self._stream)
                self._end.synchronize()
                taken += float(self._cupy.cuda.get_elapsed_time(self._start, self._end)) * 1e-3
                left -= part
            return taken

    def clocks(self) -> ClockReading | None:
        """The clocks now."""
        return self._clocks.read() if self._clocks else None


@contextlib.contextmanager
def tensor_cores(torch: Any) -> Iterator[None]:
    """While it lasts, torch multiplies matrices of f32 on tensor cores, as the fastest kernels for
    them do.
    """
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _torch_tensor(torch: Any, array: Array, dtype: str, device: str) -> Any:
    row = DTYPES[dtype]
    kind = getattr(torch, row.numpy, None)
    if kind is None or row.packed:
        raise MissingError(f"torch has no dtype for {dtype}")
    raw = np.frombuffer(bytearray(np.ascontiguousarray(array).tobytes()), np.uint8)
    return torch.from_numpy(raw).view(kind).reshape(tuple(array.shape)).to(device)


def _title(module: Any) -> str:
    return f"{module.__name__} {getattr(module, '__version__', '')}".strip()


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
