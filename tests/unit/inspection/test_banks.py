"""Bank conflicts: the turns that addresses take, and addresses that follow from the thread's number through real instructions."""

from __future__ import annotations

import pytest

from tests.unit.inspection.test_mix import code
from tilec.inspection.banks import LANES, conflicts, turns_of
from tilec.inspection.mix import mix


@pytest.mark.parametrize(
    ("stride", "width", "turns"),
    [
        (4, 4, 1),
        (0, 4, 1),  # one word for all
        (8, 4, 2),
        (16, 4, 4),
        (128, 4, 32),
        (132, 4, 1),  # padded by one word
        (1, 1, 1),
        (2, 2, 1),
        (8, 8, 1),
        (16, 8, 2),
        (16, 16, 1),
        (32, 16, 2),
        (256, 16, 8),
    ],
)
def test_strides_take_turns(stride: int, width: int, turns: int) -> None:
    assert turns_of([stride * lane for lane in range(LANES)], width) == turns


# tile[j][x] of float[32][32] with x = threadIdx.x & 31, then tile[x][j]; as compiled for sm_90.
TRANSPOSE = (
    "S2R R0, SR_TID.X",
    "LOP3.LUT R2, R0, 0x1f, RZ, 0xc0, !PT",
    "SHF.R.U32.HI R0, RZ, 0x5, R0",
    "S2UR UR5, SR_CgaCtaId",
    "UMOV UR4, 0x400",
    "ULEA UR4, UR5, UR4, 0x18",
    "LEA R5, R0, UR4, 0x7",
    "IMAD R4, R2, 0x4, R5",
    "STS [R4], R7",
    "@P2 IADD3 R4, R4, 0x400, RZ",
    "STS [R4+0x800], R13",
    "BAR.SYNC.DEFER_BLOCKING 0x0",
    "LEA R6, R2, UR4, {row}",
    "{more}",
    "IMAD R6, R0.reuse, 0x4, R6",
    "LDS R7, [R6+0x20]",
)


def transpose(row: str, more: str) -> list[int]:
    return conflicts(code(*(line.format(row=row, more=more) for line in TRANSPOSE)))


def test_a_transpose_is_told_with_and_without_padding() -> None:
    assert transpose("0x7", "NOP") == [1, 1, 32]
    assert transpose("0x7", "IMAD R6, R2, 0x4, R6") == [1, 1, 1]  # 132 bytes a row


def test_scaled_addresses_and_masks() -> None:
    lines = ("S2R R9, SR_TID.X", "SHF.L.U32 R0, R9.reuse, 0x4, RZ", "LOP3.LUT R0, R0, 0xff0, RZ, 0xc0, !PT")
    assert conflicts(code(*lines, "STS [R9.X4], R2", "LDS R0, [R0]", "LDS R7, [R9.X8]", "LDS.64 R2, [R9.X8]")) == [1, 4, 2, 1]


@pytest.mark.parametrize(
    "lines",
    [
        ("LDS R1, [R0]",),  # of nothing that is known
        ("S2R R0, SR_TID.X", "LDG.E R1, desc[UR4][R2.64]", "IMAD R0, R1, 0x4, R0", "LDS R2, [R0]"),
        ("S2R R0, SR_TID.X", "IMAD.WIDE.U32 R0, R0, 0x10, R2", "LDS R2, [R0]"),
        ("S2R R0, SR_TID.X", "LDS.64 R0, [UR4]", "LDS R4, [R1]"),  # the second half of a load
        ("S2R R0, SR_TID.X", "SHF.L.U32 R0, R0, 0x7, RZ", "EXIT", "LDS R2, [R0]"),  # come to from elsewhere
        ("S2R R0, SR_TID.X", "@P0 SHF.L.U32 R0, R0, 0x7, RZ", "LDS R2, [R0]"),  # or perhaps not
        ("S2R R0, SR_TID.X", "LOP3.LUT R0, R0, 0x70, RZ, 0xc0, !PT", "S2R R1, SR_CTAID.X", "SHF.R.U32.HI R0, RZ, 0x6, R0", "LDS R3, [R5]"),
    ],
)
def test_what_cannot_be_told_is_not(lines: tuple[str, ...]) -> None:
    assert set(conflicts(code(*lines))) <= {1}


def test_the_warning_counts_them_and_asks_for_rows_of_whole_warps() -> None:
    lines = code("S2R R0, SR_TID.X", "LDS R1, [R0.X8]", "LDS R2, [R0.X16]", "LDS R3, [R0.X4]")
    assert mix(lines, (9, 0)).warnings == ()
    assert mix(lines, (9, 0), rows=True).warnings == (
        "2 accesses of shared memory in which up to 4 threads of a warp meet in one bank: pad rows, or let neighbours take neighbour words",
    )
