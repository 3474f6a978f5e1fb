"""Occupancy by the rules of CUDA, against cases worked out by hand."""

from __future__ import annotations

import pytest

from tilec.model.occupancy import occupancy
from tilec_runtime.model.arch import ARCHS

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
