"""Launches on a GPU whose plan is cached, and of any arguments: nothing that changed is overlooked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.dispatch_cases import arguments, check_choice, cut
from tilec_runtime import load
from tilec_runtime.errors import (
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


BUNDLE = Path(__file__).resolve().parents[2] / "dist" / "dispatch" / "dist" / "blends-1.0.tilec"


EXAMPLES = int(os.environ.get("TILEC_DISPATCH_EXAMPLES", "300"))


@pytest.fixture(scope="module")
def module(torch):
    if not BUNDLE.is_file():
        pytest.skip(f"{BUNDLE} is not there: build it first, as the head of this file says")
    return load(BUNDLE, 0)


@settings(deadline=None, max_examples=EXAMPLES)
@given(arguments())
def test_any_arguments_get_the_right_answer(module, torch, drawn):
    shape, cuts, more, seed = drawn
    made = [cut(shape, how, more, seed + number) for number, how in enumerate(cuts)]
    bases = [torch.from_numpy(base).cuda() for base, _ in made]
    places = [
        (place[:2], place[2:], how.offset) for (_, place), how in zip(made, cuts, strict=True)
    ]
    z, x, y = (torch.as_strided(base, *place) for base, place in zip(bases, places, strict=True))
    wanted, before = x * 2 + y, bases[0].clone()
    facts = {
        name: (tuple(t.shape), tuple(t.stride()), t.data_ptr())
        for name, t in (("z", z), ("x", x), ("y", y))
    }
    stream = torch.cuda.current_stream()
    check_choice(module.blend.explain(z, x, y), facts)
    for _ in range(2):
        module.blend(z, x, y, stream=stream)
        torch.cuda.synchronize()
    assert torch.equal(z, wanted)
    torch.as_strided(before, *places[0]).copy_(wanted)
    assert torch.equal(bases[0], before)
