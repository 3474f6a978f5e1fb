"""Every dtype by every way in and out: what works gives the same bytes, what is refused says why
and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.runtime_samples import TENSOR, Array, image, kernel, loaded, slot
from tilec_runtime import Device, Tensor, api, use_device
from tilec_runtime.errors import DTypeError, TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param
from tilec_runtime.tensors import dlpack
from tilec_runtime.tensors.described import dtype_name
from tilec_runtime.tensors.host import numpy_dtype

Host = np.ndarray[Any, Any]


def sample(name: str) -> Host:
    """Two rows of four, with the extremes of the dtype where it has any."""
    dtype = numpy_dtype(name)
    row = DTYPES[name]
    if row.kind == "bool":
        return np.array([[True, False, True, False]] * 2)
    if row.kind in ("int", "uint"):
        info = np.iinfo(dtype)
        return np.array([[0, 1, info.min, info.max]] * 2, dtype)
    return np.array([[1, 2, 0.5, 4]] * 2).astype(dtype)


def equal(found: Host, wanted: Host) -> bool:
    return (found.dtype, found.shape, found.tobytes()) == (
        wanted.dtype,
        wanted.shape,
        wanted.tobytes(),
    )


# How contents come into a tensor, and on which devices: memory of the cpu device has no CUDA
# interface, and no NumPy array is on a GPU.


def through_host(source: Host, device: Device) -> Tensor:
    return api.from_host(source).sync()


def through_numpy(source: Host, device: Device) -> Tensor:
    return Tensor.from_foreign(source, driver=device.driver)


class Exporter:
    """A tensor of another library with DLPack alone, in the memory of one of tilec."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        return self.tensor.__dlpack__(
            stream=None if self.tensor.device < 0 else -1, max_version=max_version
        )


class Interface:
    """A tensor of another library with the array interface alone, and the name of its dtype."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.dtype = numpy_dtype(tensor.dtype)
        self.device = type("Place", (), {"id": 0})()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.tensor.__cuda_array_interface__


def through_dlpack(source: Host, device: Device) -> Tensor:
    return Tensor.from_foreign(Exporter(through_host(source, device)), driver=device.driver)


def through_cuda_array(source: Host, device: Device) -> Tensor:
    return Tensor.from_foreign(Interface(through_host(source, device)), driver=device.driver)


WAYS_IN: dict[str, tuple[Callable[[Host, Device], Tensor], tuple[str, ...]]] = {
    "from_host": (through_host, ("cpu", "gpu")),
    "NumPy": (through_numpy, ("cpu",)),
    "DLPack": (through_dlpack, ("cpu", "gpu")),
    "__cuda_array_interface__": (through_cuda_array, ("gpu",)),
}
# What each way in does not take, and what it says.
REFUSED_IN = {
    (
        "NumPy",
        "f4e2m1",
    ): "whose elements may lie one in a byte there: copy a host array with api.from_host",
    ("DLPack", "f4e2m1"): r'2 elements of f4e2m1 share a byte, .* give them reinterpret\("u8"\)',
    (
        "__cuda_array_interface__",
        "f4e2m1",
    ): "its __cuda_array_interface__ cannot be read|got a .*Interface",
}


@pytest.mark.parametrize(
    ("way", "place"), [(way, place) for way, (_, places) in WAYS_IN.items() for place in places]
)
@pytest.mark.parametrize("name", DTYPES)
def test_ways_in(name: str, way: str, place: str, request: pytest.FixtureRequest) -> None:
    make, _ = WAYS_IN[way]
    device, source = request.getfixturevalue(place), sample(name)
    refusal = REFUSED_IN.get((way, name))
    if refusal:
        with pytest.raises(TensorError, match=refusal):
            make(source, device)
        return
    t = make(source, device)
    assert (t.dtype, t.shape, t.nbytes) == (name, (2, 4), DTYPES[name].size_of(8))
    assert equal(t.to_host(), source)
    assert equal(api.dup(t).sync().to_host(), source)
    target = api.from_host(np.zeros_like(source)).sync()
    api.memcpy(target, t).sync()
    assert equal(target.to_host(), source)
    if name != "f4e2m1":
        assert equal(api.to_host(t).sync(), source)
        assert equal(api.to_host(t, out=api.pinned((2, 4), name)).sync(), source)
    assert equal(t.to_host(out=np.zeros_like(source)), source)


@pytest.mark.parametrize("name", DTYPES)
def test_ways_out(name: str, cpu: Device, gpu: Device) -> None:
    row, source = DTYPES[name], sample(name)
    with use_device(cpu):
        t = api.from_host(source).sync()
    with use_device(gpu):
        u = api.from_host(source).sync()
    if row.packed:
        for tensor in (t, u):
            with pytest.raises(BufferError, match=r'give them reinterpret\("u8"\), or to_host\(\)'):
                tensor.__dlpack__()
        return
    for tensor, kind in ((t, dlpack.CPU), (u, dlpack.CUDA)):
        view = dlpack.view(Exporter(tensor))
        assert (view.dtype, view.lanes, view.shape, view.device) == (
            row.dlpack,
            1,
            (2, 4),
            (kind, 0),
        )
    # NumPy has no word for small floats: there they are bytes, which ml_dtypes views.
    assert equal(np.asarray(t).view(numpy_dtype(name)), source)
    assert u.__cuda_array_interface__["typestr"] == (row.typestr or f"|V{row.bytes}")
    if row.typestr:
        assert equal(np.from_dlpack(t), source)


def test_tf32_is_no_dtype_of_tensors() -> None:
    for name in ("tf32", "tfloat32"):
        with pytest.raises(
            TensorError,
            match=r"^tf32 is what kernels compute with, and no tensor holds it; known are bool",
        ) as caught:
            dtype_name(name)
        assert "use f32" in caught.value.fix
    with pytest.raises(TensorError, match=r"^'complex64' is no dtype; known are bool, i8, "):
        dtype_name("complex64")


@pytest.mark.parametrize("name", DTYPES)
def test_names(name: str) -> None:
    row = DTYPES[name]
    dtype = numpy_dtype(name)
    assert {dtype_name(other) for other in (name, row.numpy, dtype, f"torch.{row.numpy}")} == {name}
    if hasattr(ml_dtypes, row.numpy):
        assert dtype_name(getattr(ml_dtypes, row.numpy)) == name


@pytest.mark.parametrize("name", DTYPES)
def test_launches(name: str) -> None:
    """A kernel of this dtype takes tensors of it, and no others; foreign arrays too, where elements
    have bytes of their own.
    """
    abi = (slot("ptr", "x.ptr"), slot("i32", "x.shape[1]"), slot("i64", "nbytes(x)"))
    info = kernel(
        "take",
        (Param(name="x", kind=TENSOR, dtype=name, rank=2, out=True),),
        (VariantInfo(id="any", abi=abi, images=(image(f"take_{name}"),)),),
        launch=LaunchInfo(grid=("x.shape[0]",), block=("32",)),
    )
    module, driver = loaded(info)
    foreign, size = Array(2, 4, dtype=name), DTYPES[name].size_of(8)
    with use_device(Device(0, driver=driver)):
        t = api.from_host(sample(name)).sync()
        other = api.from_host(sample("i16" if name != "i16" else "f32")).sync()
        for _ in range(2):
            module.take(t)
            assert driver.launches[-1].arguments == (t.ptr, 4, size)
        with pytest.raises(DTypeError, match=f"^take: output 'x' takes {name}, got {other.dtype}$"):
            module.take(other)
    if DTYPES[name].packed:
        with pytest.raises(TypeError, match="whose elements may lie one in a byte there"):
            module.take(foreign)
    else:
        module.take(foreign)
        assert driver.launches[-1].arguments == (0x10000, 4, size)
