"""Launches on a GPU whose plan is cached: nothing that changed since the plan was made is
overlooked.
"""

from __future__ import annotations

import pytest

from tilec_runtime import Tensor, current_device
from tilec_runtime.errors import (
    AliasError,
    ArgumentError,
    LaunchError,
    PlacementError,
    RequirementError,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]
SIZE, TIMES = 4096, 4


def ones(torch, count=3, size=SIZE):
    return [torch.full((size,), float(number), device="cuda") for number in range(1, count + 1)]


def tensors(count=3):
    driver = current_device().driver
    return [
        Tensor.uninitialized((SIZE,), "f32", driver=driver, ordinal=0, stream=0)
        for _ in range(count)
    ]


def known(kernels, torch):
    """Torch tensors whose launch has been seen."""
    z, x, y = ones(torch)
    for _ in range(TIMES):
        kernels.vector_add(z, x, y)
    return z, x, y


def test_what_changes_of_torch_tensors_is_seen(kernels, torch):
    stream = torch.cuda.current_stream()
    z, x, y = known(kernels, torch)
    x.fill_(5.0)
    kernels.vector_add(z, x, y, stream=stream)
    torch.testing.assert_close(z, x + y)
    x.set_(torch.full((SIZE,), 7.0, device="cuda"))
    kernels.vector_add(z, x, y, stream=stream)
    torch.testing.assert_close(z, x + y)
    for tensor in (z, x, y):
        tensor.resize_(SIZE // 2)
    z.zero_()
    kernels.vector_add(z, x, y, stream=stream)
    torch.testing.assert_close(z, x + y)
    y.resize_(SIZE // 4)
    with pytest.raises(RequirementError):
        kernels.vector_add(z, x, y, stream=stream)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda torch, x: x[:-1], RequirementError),
        (lambda torch, x: x.cpu(), PlacementError),
        (lambda torch, x: x.double(), LaunchError),
        (lambda torch, x: torch.zeros(2 * SIZE, device="cuda")[::2], LaunchError),
        (
            lambda torch, x: torch.zeros(SIZE, dtype=torch.complex64, device="cuda").conj().imag,
            ArgumentError,
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused_in_launches_that_are_known(
    kernels, torch, change, error
):
    z, x, y = known(kernels, torch)
    with pytest.raises(error, match=r"^vector_add: "):
        kernels.vector_add(z, change(torch, x), y)
    with pytest.raises(AliasError):
        kernels.vector_add(z, z, y)
    kernels.vector_add(z, x, y)
    torch.testing.assert_close(z, x + y)


def test_modes_of_torch_and_gradients(kernels, torch):
    z, x, y = known(kernels, torch)
    weight = torch.nn.Parameter(torch.full((SIZE,), 3.0, device="cuda"))
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            for _ in range(TIMES):
                z.zero_()
                kernels.vector_add(z, x, weight)
                torch.testing.assert_close(z, x + weight.detach())
                kernels.vector_add(z, x, y)
                torch.testing.assert_close(z, x + y)
