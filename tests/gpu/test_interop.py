"""Tensors and streams of other libraries, refusals that leave the device untouched, and what the
real driver says of bad images.
"""

from __future__ import annotations

import re

import pytest

from tests.runtime_samples import ADD, bundle_of
from tilec_runtime import errors, load
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


@pytest.mark.parametrize("wrap", [DLPackOnly, InterfaceOnly], ids=["dlpack", "interface"])
def test_protocols_alone(kernels, torch, wrap):
    x, y = torch.randn(4096, device="cuda"), torch.randn(4096, device="cuda")
    z = torch.zeros_like(x)
    for _ in range(2):
        kernels.vector_add(wrap(z), wrap(x), y)
        torch.testing.assert_close(z, x + y)
        z.zero_()


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
