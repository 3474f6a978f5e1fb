"""Libraries that kernels are compared with: torch, CuPy and NumPy."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilec_runtime.device.seam import DeviceInfo
from tilec_runtime.errors import MissingError
from tilec_runtime.model.dtype import DTYPES

Array = np.ndarray[Any, np.dtype[Any]]


class NumpyLibrary:
    """NumPy, on the cpu device. `module` has its functions, `title` is its name and version."""

    module = np
    title = f"numpy {np.__version__}"

    def tensor(self, array: Array, dtype: str) -> Any:  # noqa: ARG002 - of the array
        """Return a copy."""
        return array.copy()


class TorchLibrary:
    """torch on a GPU or on the host. `note` says what makes its times doubtful."""

    note = ""

    def __init__(self, torch: Any, device: str) -> None:
        self.module, self._device = torch, device
        self.title = f"torch {torch.__version__}"

    def tensor(self, array: Array, dtype: str) -> Any:
        """Return a tensor on the device."""
        row = DTYPES[dtype]
        kind = getattr(self.module, row.numpy, None)
        if kind is None or row.packed:
            raise MissingError(f"torch has no dtype for {dtype}")
        # torch refuses arrays of ml_dtypes, and read-only ones: it gets the bytes.
        raw = np.frombuffer(bytearray(np.ascontiguousarray(array).tobytes()), np.uint8)
        tensor = self.module.from_numpy(raw).view(kind).reshape(tuple(array.shape))
        return tensor.to(self._device)

    def on(self, stream: int) -> contextlib.AbstractContextManager[Any]:
        """Make torch enqueue on a stream."""
        cuda = self.module.cuda
        context: contextlib.AbstractContextManager[Any] = cuda.stream(self._stream(stream))
        return context

    def capture(self, enqueue: Callable[[], object], stream: int) -> Callable[[], object]:
        """Capture launches in a CUDA graph of torch's, and return a function that replays it.

        Raises:
            RuntimeError: they cannot be captured.
        """
        cuda = self.module.cuda
        graph = cuda.CUDAGraph()
        try:
            with cuda.graph(graph, stream=self._stream(stream)):
                enqueue()
        except RuntimeError:
            cuda.synchronize(self._device)
            raise
        replay: Callable[[], object] = graph.replay
        return replay

    def _stream(self, stream: int) -> Any:
        return self.module.cuda.ExternalStream(stream, device=self._device)


class CupyLibrary:
    """CuPy on a GPU, without graphs: its memory pool reuses the memory of captured calls."""

    note = "CuPy's launches are enqueued one by one, so times of short kernels include host time"

    def __init__(self, cupy: Any, ordinal: int) -> None:
        self.module, self._ordinal = cupy, ordinal
        self.title = f"cupy {cupy.__version__}"

    def tensor(self, array: Array, dtype: str) -> Any:
        """Return an array on the GPU."""
        name = DTYPES[dtype].numpy
        if name != array.dtype.name or not hasattr(np, name):
            raise MissingError(f"cupy has no dtype for {dtype}")
        with self.module.cuda.Device(self._ordinal):
            return self.module.asarray(array)

    @contextlib.contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """Make CuPy enqueue on a stream."""
        cuda = self.module.cuda
        with cuda.Device(self._ordinal), cuda.ExternalStream(stream, self._ordinal):
            yield

    def capture(self, enqueue: Callable[[], object], stream: int) -> Callable[[], object]:  # noqa: ARG002 - of torch
        """Return the launches as they are."""
        return enqueue


GpuLibrary = TorchLibrary | CupyLibrary
Library = NumpyLibrary | GpuLibrary


def open_library(
    name: str, device: DeviceInfo, find: Callable[[str], Any] = importlib.import_module
) -> Library:
    """Import a library for a device.

    Args:
        name: `torch`, `cupy` or `numpy`.
        device: the device.
        find: imports a module.

    Raises:
        MissingError: it is not installed, or cannot use the device.
    """
    if name == "numpy":
        if device.interprets is None:
            raise MissingError("numpy computes on the host: compare a GPU with torch or cupy")
        return NumpyLibrary()
    try:
        module = find(name)
    except ImportError as error:
        raise MissingError(f"{name} is not installed") from error
    if name == "cupy":
        if device.interprets is not None:
            raise MissingError("cupy computes on GPUs only")
        return CupyLibrary(module, device.ordinal)
    if device.interprets is not None:
        return TorchLibrary(module, "cpu")
    if not module.cuda.is_available():
        raise MissingError(
            f"torch {module.__version__} sees no GPU", fix="install a build of torch for CUDA"
        )
    return TorchLibrary(module, f"cuda:{device.ordinal}")


@contextlib.contextmanager
def tensor_cores(torch: Any) -> Iterator[None]:
    """Let torch multiply f32 matrices on tensor cores, as the fastest kernels do."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
