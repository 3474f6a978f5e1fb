"""Tensors and streams of other libraries, refusals that leave the device untouched, and what the
real driver says of bad images.
"""

from __future__ import annotations

import pytest

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
