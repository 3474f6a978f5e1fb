"""Tensors and streams of other libraries, refusals that leave the device untouched, and what the
real driver says of bad images.
"""

from __future__ import annotations

import dataclasses
import re

import pytest

from tests.runtime_samples import ADD, bundle_of
from tilec_runtime import DeviceBuffer, errors, load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.driver import driver

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


class DLPackOnly:
    """A tensor that shows nothing but DLPack."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


class InterfaceOnly:
    """A tensor that shows nothing but the array interface, so that the driver is asked for its
    device.
    """

    def __init__(self, tensor):
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


@pytest.fixture(scope="module")
def cupy():
    module = pytest.importorskip("cupy")
    if module.cuda.runtime.getDeviceCount() == 0:
        pytest.skip("CuPy sees no GPU")
    return module


@pytest.mark.parametrize("wrap", [DLPackOnly, InterfaceOnly], ids=["dlpack", "interface"])
def test_protocols_alone(kernels, torch, wrap):
    x, y = torch.randn(4096, device="cuda"), torch.randn(4096, device="cuda")
    z = torch.zeros_like(x)
    for _ in range(2):
        kernels.vector_add(wrap(z), wrap(x), y)
        torch.testing.assert_close(z, x + y)
        z.zero_()


def test_dlpack_of_a_dtype_that_the_interface_lacks(kernels, torch):
    a, b = (torch.randn(128, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c = torch.zeros_like(a)
    kernels.gemm(DLPackOnly(c), DLPackOnly(a), DLPackOnly(b))
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-2, atol=2e-1)


def test_cupy(kernels, cupy):
    x, y = cupy.arange(5000, dtype="float32"), cupy.ones(5000, dtype="float32")
    stream = cupy.cuda.Stream(non_blocking=True)
    for handle in (stream, stream.ptr, cupy.cuda.get_current_stream()):
        z = cupy.zeros_like(x)
        cupy.cuda.Device().synchronize()
        kernels.vector_add(z, x, y, stream=handle)
        cupy.cuda.Device().synchronize()
        assert bool((z == x + y).all())
    with pytest.raises(errors.LayoutError, match=r"^vector_add: argument 'x' has strides \(2,\)"):
        kernels.vector_add(z[:2500], x[::2], y[:2500], stream=stream)


def test_libraries_mixed_in_one_launch(kernels, torch, cupy):
    x = torch.ones(4096, device="cuda")
    y = cupy.full(4096, 2.0, dtype="float32")
    z = DeviceBuffer((4096,), "f32")
    torch.cuda.synchronize()
    kernels.vector_add(z, x, y)
    assert z.to_host().tolist() == [3.0] * 4096


def test_a_launch_is_refused_before_the_device_sees_it(kernels, torch):
    half = torch.float16
    a, b = (
        torch.ones(64, 32, device="cuda", dtype=half),
        torch.ones(32, 48, device="cuda", dtype=half),
    )
    c = torch.full((64, 48), 7.0, device="cuda", dtype=half)
    stream = torch.cuda.current_stream()
    calls = {
        "gemm: requires a.shape[1] == b.shape[0]: left-hand side is 32, right-hand side is 16": lambda: (
            kernels.gemm(c, a, b[:16], stream=stream)
        ),
        "gemm: argument 'b' has strides (1, 32)": lambda: kernels.gemm(
            c, a, torch.ones(48, 32, device="cuda", dtype=half).t(), stream=stream
        ),
        "gemm: argument 'a' has dtype bf16, but T is f16 by 'c'": lambda: kernels.gemm(
            c, a.bfloat16(), b, stream=stream
        ),
        "gemm: output 'c' has dtype f64, and T was built for f16, bf16": lambda: kernels.gemm(
            c.double(), a, b, stream=stream
        ),
        "gemm: argument 'a' is on the CPU": lambda: kernels.gemm(c, a.cpu(), b, stream=stream),
        "gemm: argument 'a' has 1 dimension (shape (2048,)), the kernel takes 2": lambda: (
            kernels.gemm(c, a.flatten(), b, stream=stream)
        ),
        "gemm: output 'c' overlaps argument 'a'": lambda: kernels.gemm(c, c, b, stream=stream),
        "gemm: BM = 32 was not built; built are 64, 128": lambda: kernels.gemm(
            c, a, b, BM=32, BN=32, stream=stream
        ),
        "gemm: no variant with T=f16, BM=64, BN=128": lambda: kernels.gemm(
            c, a, b, BM=64, BN=128, stream=stream
        ),
    }
    for words, call in calls.items():
        with pytest.raises(errors.LaunchError) as caught:
            call()
        assert caught.value.what.startswith(words)
        assert caught.value.kernel == "gemm"
    torch.cuda.synchronize()
    assert torch.all(c == 7.0)


def test_memory_that_is_not_there(torch):
    with pytest.raises(
        errors.OutOfMemoryError, match=f"has no memory of {4 << 45} bytes"
    ) as caught:
        DeviceBuffer((1 << 45,), "f32")
    assert "torch.cuda.empty_cache" in caught.value.fix


def test_an_image_that_the_driver_cannot_read(torch):
    module = load(bundle_of(ADD), driver=driver())
    if module.device.cc != (9, 0):
        pytest.skip("the sample's image says that it is for sm_90")
    z, x, y = (torch.zeros(1024, device="cuda") for _ in range(3))
    with pytest.raises(
        errors.KernelCacheError, match=r"^add: the image for sm_90 \(add_fast\) cannot be loaded"
    ) as caught:
        module.add(z, x, y)
    assert re.search("CUDA_ERROR_INVALID_(IMAGE|PTX|SOURCE)", caught.value.what)
    torch.cuda.synchronize()  # the context is as good as before


def test_an_entry_point_that_is_not_there(dist, torch, monkeypatch):
    (path,) = dist.glob("*.tilec")
    real = Bundle.open(path)
    kernel = next(kernel for kernel in real.info.kernels if kernel.name == "stencil")
    wrong = tuple(
        dataclasses.replace(
            v, images=tuple(dataclasses.replace(i, symbol="nothing_here") for i in v.images)
        )
        for v in kernel.variants
    )
    monkeypatch.setattr(
        Bundle, "kernel", lambda _, name: dataclasses.replace(kernel, variants=wrong)
    )
    x = torch.zeros(64, 64, device="cuda")
    with pytest.raises(
        errors.KernelCacheError, match=r"^stencil: .*CUDA_ERROR_NOT_FOUND"
    ) as caught:
        load(real).stencil(torch.empty_like(x), x, 0.1)
    assert "no entry point of this name" in caught.value.cause


def test_a_block_beyond_the_device(torch):
    greedy = dataclasses.replace(ADD.launch, block=("2048",))
    module = load(bundle_of(dataclasses.replace(ADD, launch=greedy)), driver=driver())
    z, x, y = (torch.zeros(1024, device="cuda") for _ in range(3))
    with pytest.raises(
        errors.LaunchLimitError, match=r"^add: block\.x is 2048, and device 0 .* allows 1024$"
    ):
        module.add(z, x, y)
