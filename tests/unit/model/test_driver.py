"""Driver branches, CUDA releases and PTX ISAs."""

from __future__ import annotations

import pytest

from tilec_runtime.model.arch import Version
from tilec_runtime.model.driver import (
    BRANCHES,
    cuda_of_branch,
    cuda_of_ptx_isa,
    driver_of_ptx_isa,
    ptx_isa_of_cuda,
)


@pytest.mark.parametrize(
    ("cuda", "isa"),
    [
        ((10, 0), (6, 3)),
        ((10, 2), (6, 5)),
        ((11, 0), (7, 0)),
        ((11, 8), (7, 8)),
        ((12, 0), (8, 0)),
        ((12, 4), (8, 4)),
        ((12, 5), (8, 5)),
        ((12, 6), (8, 5)),
        ((12, 8), (8, 7)),
        ((12, 9), (8, 8)),
        ((13, 0), (9, 0)),
        ((13, 4), (9, 4)),
    ],
)
def test_ptx_isa_of_cuda(cuda: Version, isa: Version) -> None:
    assert ptx_isa_of_cuda(cuda) == isa


def test_the_two_directions_agree() -> None:
    for cuda in BRANCHES:
        isa = ptx_isa_of_cuda(cuda)
        assert cuda_of_ptx_isa(isa) <= cuda
        assert ptx_isa_of_cuda(cuda_of_ptx_isa(isa)) == isa
    assert cuda_of_ptx_isa((8, 5)) == (12, 5)
    assert cuda_of_ptx_isa((8, 6)) == (12, 7)
    assert cuda_of_ptx_isa((6, 3)) == (10, 0)
    assert cuda_of_ptx_isa((6, 0)) == (10, 0)
    assert cuda_of_ptx_isa((5, 0)) == (10, 0)


@pytest.mark.parametrize(
    ("branch", "cuda"),
    [
        (440, None),
        (450, (11, 0)),
        (535, (12, 2)),
        (579, (12, 9)),
        (580, (13, 0)),
        (585, (13, 0)),
        (590, (13, 1)),
        (615, (13, 4)),
        (700, (13, 4)),
    ],
)
def test_cuda_of_branch(branch: int, cuda: Version | None) -> None:
    assert cuda_of_branch(branch) == cuda


def test_the_oldest_driver_of_an_isa_in_words() -> None:
    assert driver_of_ptx_isa((9, 0)) == "580 (CUDA 13.0)"
    assert driver_of_ptx_isa((11, 1)) == "the driver of CUDA 15.1"
