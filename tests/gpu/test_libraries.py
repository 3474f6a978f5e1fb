"""torch, CuPy, JAX and Numba on a GPU, each both ways: every dtype without a copy, order in both
directions, and processes that end while they hold tensors. Those that are not installed are
skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.gpu.busy import Busy
from tilec_runtime import Device, Module, Stream, Tensor, api
from tilec_runtime.errors import ArgumentError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import numpy_dtype

os.environ.setdefault(
    "XLA_PYTHON_CLIENT_PREALLOCATE", "false"
)  # JAX would take most of the GPU's memory
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
ROOT = Path(__file__).resolve().parents[2]
SIZE = 1 << 20
# Some tens of milliseconds of the device's clock.
LONG = 50_000_000
WHOLE = [name for name, row in DTYPES.items() if not row.packed]
SMALL = {"bf16", "f8e4m3", "f8e5m2", "f8e8m0"}


class Library(NamedTuple):
    """How a library is used.

    Attributes:
        take: its array of a tensor. make: its array of a NumPy array's contents. address, host: of
            its arrays.
        lacks: dtypes that some releases of it have no array of.
    """

    take: Callable[[Any], Any]
    make: Callable[[Any], Any]
    address: Callable[[Any], int]
    host: Callable[[Any], Any]
    lacks: set[str]


def _torch() -> Library:
    torch = pytest.importorskip("torch")

    def make(array: Any) -> Any:
        return torch.from_numpy(array.view(np.uint8)).cuda().view(getattr(torch, str(array.dtype)))

    def host(found: Any) -> Any:
        return found.view(torch.uint8).cpu().numpy()

    return Library(torch.from_dlpack, make, lambda found: found.data_ptr(), host, SMALL - {"bf16"})


def _cupy() -> Library:
    cupy = pytest.importorskip("cupy")
    return Library(
        cupy.from_dlpack, cupy.asarray, lambda found: found.data.ptr, cupy.asnumpy, SMALL
    )


def _jax() -> Library:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    jax.config.update("jax_enable_x64", True)
    return Library(
        jax.dlpack.from_dlpack,
        jax.numpy.asarray,
        lambda found: found.unsafe_buffer_pointer(),
        np.asarray,
        SMALL - {"bf16"},
    )


def _numba() -> Library:
    cuda = pytest.importorskip("numba.cuda")
    if not cuda.is_available():
        pytest.skip("Numba sees no GPU")

    def address(found: Any) -> int:
        return int(found.__cuda_array_interface__["data"][0])

    return Library(
        cuda.as_cuda_array, cuda.to_device, address, lambda found: found.copy_to_host(), SMALL
    )


LIBRARIES = {"torch": _torch, "cupy": _cupy, "jax": _jax, "numba": _numba}


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Library:
    return LIBRARIES[request.param]()


@pytest.fixture(scope="module")
def module(package: Any) -> Module:
    loaded: Module = package.load(0)
    return loaded


def numbers(name: str) -> np.ndarray[Any, Any]:
    return np.array([[1, 2, 4, 8], [16, 32, 1, 2]], np.float32).astype(numpy_dtype(name))


def same(found: Any, name: str) -> bool:
    """Whether a library's numbers on the host are those of a dtype, byte for byte."""
    return bool(np.asarray(found).tobytes() == numbers(name).tobytes())


def test_tensors_of_every_dtype_are_given_out(library: Library) -> None:
    given = []
    for name in WHOLE:
        t = api.from_host(numbers(name)).sync()
        try:
            theirs = library.take(t)
        except (TypeError, ValueError, RuntimeError, BufferError):
            assert name in library.lacks, name
            continue
        given.append(name)
        assert library.address(theirs) == t.ptr, name
        assert name in library.lacks or same(library.host(theirs), name), name
        assert t.to_host().tolist() == numbers(name).tolist(), name
    sys.stdout.write(f"given out: {', '.join(given)}\n")


def test_arrays_of_every_dtype_are_taken(library: Library) -> None:
    taken = []
    for name in WHOLE:
        try:
            theirs = library.make(numbers(name))
        except (TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError):
            assert name in library.lacks, name
            continue
        t = Tensor.from_foreign(theirs)
        taken.append(name)
        assert (t.dtype, t.shape, t.device, t.ptr) == (name, (2, 4), 0, library.address(theirs))
        assert same(t.to_host(), name), name
    sys.stdout.write(f"taken: {', '.join(taken)}\n")


def test_their_arrays_are_arguments(library: Library, module: Module) -> None:
    theirs = library.make(np.full(SIZE, 3, np.float32))
    Device(0).sync()
    with Stream(0) as stream:
        z, one = api.zeros(SIZE).sync_on(stream), api.ones(SIZE).sync_on(stream)
        module.vector_add(z, theirs, one, stream=stream)
        assert set(z.to_host().tolist()) == {4.0}
        if type(theirs).__module__.startswith("jax"):  # whose arrays never change
            with pytest.raises(ArgumentError, match=r"is read-only, and the kernel writes it"):
                module.vector_add(theirs, z, one, stream=stream)
        z, _, _ = module.ops.vector_add(z, Tensor.from_foreign(theirs), one).sync_on(stream)
        assert set(z.to_host().tolist()) == {4.0}


def test_they_read_what_was_enqueued_before(library: Library, module: Module) -> None:
    busy = Busy(Device(0))
    z, x, one = api.zeros(SIZE).sync(), api.full(SIZE, 2).sync(), api.ones(SIZE).sync()
    with Stream(0) as stream:
        module.vector_add(z, x, x, stream=stream)
        busy(stream, LONG)
        module.vector_add(z, x, one, stream=stream)
        found = np.asarray(library.host(library.take(z))).view(np.float32)
        assert set(found.ravel().tolist()) == {3.0}


def test_what_they_read_is_written_behind_them_and_outlives_the_tensor(library: Library) -> None:
    z = api.full(SIZE, 2).sync()
    theirs = library.take(z)
    del z
    for _ in range(8):  # what was freed would be given out again
        api.full(SIZE, 7).sync()
    assert set(np.asarray(library.host(theirs)).view(np.float32).ravel().tolist()) == {2.0}


HOLD = {
    "torch": "import torch\nheld = [torch.from_dlpack(t) for t in tensors]\nback = [Tensor.from_foreign(torch.ones(9, device='cuda'))]",
    "cupy": "import cupy\nheld = [cupy.from_dlpack(tensors[0]), cupy.asarray(tensors[1])]\nback = [Tensor.from_foreign(cupy.ones(9))]",
    "jax": "import jax\nheld = [jax.dlpack.from_dlpack(t) for t in tensors]\nback = [Tensor.from_foreign(jax.numpy.ones(9))]",
    "numba": "from numba import cuda\nheld = [cuda.as_cuda_array(t) for t in tensors]\n"
    "back = [Tensor.from_foreign(cuda.to_device(__import__('numpy').ones(9)))]",
    "nobody": "held = back = [t.__dlpack__() for t in tensors]",
}
END = """
import sys
from tilec_runtime import Device, Stream, Tensor, api
from tests.gpu.busy import Busy
stream = Stream(0)
tensors = [api.ones((4, 8)).sync() for _ in range(20)]
{hold}
Busy(Device(0))(stream, 20_000_000)                         # the device is at it when the process ends
late = api.ones(1 << 20).enqueue_on(stream)
future = api.full(1 << 20, 3).dup().future()
cycle = [late, future]
cycle.append(cycle)
print("end", len(held), len(back))
"""


def test_processes_end_while_tensors_and_what_others_have_of_them_are_in_use() -> None:
    """All at once, since each takes seconds to import its library."""
    environment = {
        **os.environ,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    started = {}
    for name, hold in HOLD.items():
        command = [sys.executable, "-W", "ignore", "-c", END.format(hold=hold)]
        started[name] = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
    problems = []
    for name, process in started.items():
        try:
            out, err = process.communicate(timeout=150)
        except subprocess.TimeoutExpired:
            process.kill()
            problems.append(f"{name}: hangs")
            continue
        if "ModuleNotFoundError" in err:
            continue
        if process.returncode or not out.startswith("end ") or "Traceback" in err:
            problems.append(f"{name}: {process.returncode}, {out!r}, {err[-2000:]}")
    assert problems == []
