"""Real libraries on the cpu device, both ways and in every dtype: torch and JAX, where they are
installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.processes import run_python
from tilec_runtime import Tensor, api, use_device
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import numpy_dtype

WHOLE = [name for name, row in DTYPES.items() if not row.packed]
# What holds memory of tilec's while the process ends, by the library that it is for. Writing to
# what they have would be seen.
HOLDERS = {
    "torch": "import torch\nheld = [torch.from_dlpack(t) for t in tensors]\nassert float(held[0].sum()) == 32",
    "jax": "import jax\nheld = [jax.dlpack.from_dlpack(t) for t in tensors]\nassert float(held[0].sum()) == 32",
    "numpy": "import numpy\nheld = [numpy.from_dlpack(t) for t in tensors]\nassert float(held[0].sum()) == 32",
}


@pytest.fixture(params=["torch", "jax"])
def library(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """What makes the library's array of an exporter, and of a NumPy array."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    found = pytest.importorskip(request.param)
    if request.param == "torch":
        return found.from_dlpack, lambda array: found.from_numpy(array.view(np.uint8)).view(
            getattr(found, str(array.dtype))
        )
    found.config.update("jax_enable_x64", True)  # it has no numbers of 64 bits otherwise
    return found.dlpack.from_dlpack, found.numpy.asarray


def _address(array: Any) -> int:
    return int(array.data_ptr() if hasattr(array, "data_ptr") else array.unsafe_buffer_pointer())


def _numbers(name: str) -> np.ndarray[Any, Any]:
    return np.array([[1, 2, 4, 8], [16, 32, 1, 2]], np.float32).astype(numpy_dtype(name))


def test_tensors_of_every_dtype_are_given_out(library: Any) -> None:
    take, _ = library
    for name in WHOLE:
        with use_device("cpu"):
            t = api.from_host(_numbers(name)).sync()
        theirs = take(t)
        assert (tuple(theirs.shape), _address(theirs)) == ((2, 4), t.ptr), name
        back = Tensor.from_foreign(theirs)
        assert (back.dtype, back.ptr) == (name, t.ptr)
        assert back.to_host().tolist() == _numbers(name).tolist(), name


def test_arrays_of_every_dtype_are_taken(library: Any) -> None:
    _, make = library
    for name in WHOLE:
        theirs = make(_numbers(name))
        t = Tensor.from_foreign(theirs)
        assert (t.dtype, t.shape, t.ptr, t.device) == (name, (2, 4), _address(theirs), -1)
        assert t.to_host().tolist() == _numbers(name).tolist(), name
        with use_device("cpu"):
            copy = api.from_host(theirs).sync()
        assert (copy.dtype, copy.ptr != t.ptr, copy.to_host().tolist()) == (
            name,
            True,
            _numbers(name).tolist(),
        )


@pytest.mark.parametrize("name", HOLDERS)
def test_a_process_ends_while_they_hold_tensors(name: str) -> None:
    pytest.importorskip(name)
    code = (
        "from tilec_runtime import api, use_device\n"
        "with use_device('cpu'):\n"
        "    tensors = [api.ones((4, 8)).sync() for _ in range(20)]\n"
        f"{HOLDERS[name]}\n"
        "print('end')\n"
    )
    assert run_python(code, JAX_PLATFORMS="cpu")[:2] == (0, "end\n")


def test_a_consumer_may_let_go_when_there_is_no_interpreter_any_more() -> None:
    """As JAX does, whose arrays go with its libraries: at the end of the process, behind all of
    Python.
    """
    code = (
        "import atexit, ctypes\n"
        "libc = ctypes.CDLL(None)\n"
        "held = []\n"
        "def at_the_end():\n"  # registered before tilec is imported, so it runs behind all that tilec does at the end
        "    for managed in held:\n"
        "        libc.__cxa_atexit(ctypes.c_void_p(managed.deleter), ctypes.c_void_p(ctypes.addressof(managed)), None)\n"
        "atexit.register(at_the_end)\n"
        "from tilec_runtime import api, use_device\n"
        "from tilec_runtime.tensors.dlpack import RawManaged\n"
        "pointer = ctypes.pythonapi.PyCapsule_GetPointer\n"
        "pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)\n"
        "rename = ctypes.pythonapi.PyCapsule_SetName\n"
        "rename.argtypes = (ctypes.py_object, ctypes.c_void_p)\n"
        "used = ctypes.create_string_buffer(b'used_dltensor')\n"
        "def consume(t):\n"
        "    capsule = t.__dlpack__()\n"
        "    held.append(RawManaged.from_address(pointer(capsule, b'dltensor')))\n"
        "    rename(capsule, ctypes.addressof(used))\n"
        "with use_device('cpu'):\n"
        "    t = api.ones((4, 8)).sync()\n"
        "consume(t)\n"
        "atexit.register(lambda: consume(t))\n"
        "print('end')\n"
    )
    assert run_python(code) == (0, "end\n", "")
