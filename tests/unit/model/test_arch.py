"""Architectures and targets, what drivers read of them, and the blocks that they hold."""

from __future__ import annotations

import pytest

from tilec.model.occupancy import occupancy
from tilec_runtime.model.arch import ARCHS, Target, TargetKind, Version
from tilec_runtime.model.driver import (
    BRANCHES,
    cuda_of_branch,
    cuda_of_ptx_isa,
    driver_of_ptx_isa,
    ptx_isa_of_cuda,
)


@pytest.mark.parametrize("arch", ARCHS.values(), ids=lambda arch: str(arch.cc))
def test_rows_agree_with_themselves(arch) -> None:
    assert arch.ptx <= (arch.ptx_a or arch.ptx)
    assert arch.ptx <= (arch.ptx_f or arch.ptx)
    assert cuda_of_ptx_isa(arch.ptx) <= arch.toolkit
    assert arch.warps * 32 == arch.threads
    assert arch.threads in (1024, 1536, 2048)
    assert arch.shared_block + arch.shared_reserved == arch.shared
    assert arch.registers == 65536


@pytest.mark.parametrize(
    ("name", "kind", "cc", "suffix"),
    [
        ("sm_90a", TargetKind.CUBIN, (9, 0), "a"),
        ("compute_103f", TargetKind.PTX, (10, 3), "f"),
        ("sm_121", TargetKind.CUBIN, (12, 1), ""),
        ("tileir", TargetKind.TILEIR, (0, 0), ""),
    ],
)
def test_parse(name: str, kind: TargetKind, cc: Version, suffix: str) -> None:
    assert Target.parse(name) == Target(kind, cc, suffix)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "sm90",
            "unknown target 'sm90': targets are sm_NN (cubin), compute_NN (PTX), lto_NN (LTO-IR) and tileir; for example sm_90, compute_80",
        ),
        ("", "unknown target ''"),
        ("SM_90", "unknown target 'SM_90'"),
        ("sm_9", "unknown target 'sm_9'"),
        ("sm_90b", "unknown target 'sm_90b'"),
        ("ltoir_90", "unknown target 'ltoir_90'"),
        ("sm_70", "unknown architecture in target 'sm_70': known are sm_75, sm_80"),
        (
            "compute_101",
            "unknown architecture in target 'compute_101': known are compute_75, compute_80",
        ),
        ("sm_80a", "target 'sm_80a' does not exist: compute capability 8.0 has sm_80"),
        ("sm_90f", "target 'sm_90f' does not exist: compute capability 9.0 has sm_90, sm_90a"),
    ],
)
def test_parse_refuses(name: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        Target.parse(name)
    assert str(caught.value).startswith(says)


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


A100, GA10X, H100, TURING, BLACKWELL = (
    ARCHS[8, 0],
    ARCHS[8, 6],
    ARCHS[9, 0],
    ARCHS[7, 5],
    ARCHS[10, 0],
)


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "static", "dynamic", "blocks", "limiter"),
    [
        (A100, 256, 32, 0, 0, 8, "threads"),
        (A100, 32, 16, 0, 0, 32, "blocks"),
        (GA10X, 256, 32, 0, 0, 6, "threads"),
        (GA10X, 64, 32, 0, 0, 16, "blocks"),
        # 64 registers are 2048 per warp: 8 warps per part of 16384, 32 warps in all.
        (A100, 256, 64, 0, 0, 4, "registers"),
        # 65 registers round up to 72 per thread: 7 warps per part, 28 in all.
        (A100, 256, 65, 0, 0, 3, "registers"),
        (A100, 128, 65, 0, 0, 7, "registers"),
        (A100, 1024, 64, 0, 0, 1, "registers"),
        (A100, 1024, 65, 0, 0, 0, "registers"),
        (A100, 256, 255, 0, 0, 1, "registers"),
        (A100, 128, 256, 0, 0, 0, "registers"),
        # 48 KiB and the reserved one: 3 fit into 164.
        (A100, 128, 32, 48 << 10, 0, 3, "shared"),
        (A100, 128, 32, 16 << 10, 32 << 10, 3, "shared"),
        (A100, 128, 32, 0, 163 << 10, 1, "shared"),
        (A100, 128, 32, 0, (163 << 10) + 1, 0, "shared"),
        (H100, 128, 32, 0, 227 << 10, 1, "shared"),
        (TURING, 256, 32, 32 << 10, 0, 2, "shared"),
        (TURING, 1024, 32, 0, 0, 1, "threads"),
        (BLACKWELL, 384, 168, 0, 200 << 10, 1, "registers"),
        (A100, 1025, 16, 0, 0, 0, "threads"),
        (A100, 1, 0, 0, 0, 32, "blocks"),
        (A100, 33, 16, 0, 0, 32, "threads"),
    ],
)
def test_blocks(
    arch, threads: int, registers: int, static: int, dynamic: int, blocks: int, limiter: str
) -> None:
    result = occupancy(
        arch,
        threads_per_block=threads,
        registers=registers,
        shared_static=static,
        shared_dynamic=dynamic,
    )
    assert (result.blocks_per_sm, result.limiter) == (blocks, limiter)
    assert result.warps == blocks * -(-threads // 32)
    assert result.fraction == result.warps / arch.warps
    assert 0 <= result.fraction <= 1


@pytest.mark.parametrize(
    "change",
    [{"threads_per_block": 0}, {"registers": -1}, {"shared_static": -1}, {"shared_dynamic": -1}],
)
def test_no_such_block(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="no such block"):
        occupancy(A100, **{"threads_per_block": 32, "registers": 32, **change})
