"""Disassemblies read into instructions, counted by class, and what they warn of."""

from __future__ import annotations

import pytest

from tilec.inspection.mix import CLASSES, OTHER, class_of, mix
from tilec.inspection.sass import Instruction, instructions

TEXT = """\
	.target	sm_90
.text.add:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/               @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64+0x10] ;
        /*0020*/              @UP1 BRA `(.L_x_3) ;
.L_x_3:
        /*0030*/                   HGMMA.64x128x16.F32 R24, gdesc[UR8], R24, gsb0 ;
        /*0040*/                   BRA 0x40 ;                       /* 0xfffffffffffffff0 */
        /*0050*/                   NOP ;
"""


def code(*lines: str) -> list[Instruction]:
    return list(
        instructions(
            "\n".join(
                f"        /*{16 * number:04x}*/    {line} ;" for number, line in enumerate(lines)
            )
        )
    )


def test_reading() -> None:
    found = list(instructions(TEXT))
    assert [one.opcode for one in found] == ["LDC", "LDG", "BRA", "HGMMA", "BRA", "NOP"]
    assert found[1] == Instruction(
        address=16,
        predicate="!P0",
        opcode="LDG",
        modifiers=("E", "128", "CONSTANT"),
        operands="R4, desc[UR4][R2.64+0x10]",
    )
    assert [one.normal for one in found] == [
        "LDC R, c[0x0][0x28]",
        "@!P LDG.E.128.CONSTANT R, desc[UR][R.64+0x10]",
        "@UP BRA L",
        "HGMMA.64x128x16.F32 R, gdesc[UR], R, gsb0",
        "BRA L",
        "NOP",
    ]


def test_constant_registers_keep_their_names() -> None:
    (one,) = code("ISETP.GE.AND P0, PT, R3, RZ, PT")
    assert one.normal == "ISETP.GE.AND P, PT, R, RZ, PT"


def test_counts_leave_padding_out() -> None:
    found = mix(instructions(TEXT), (9, 0))
    assert found.total == 5
    assert found.classes == (
        ("tensor core, warp group (wgmma)", 1),
        ("global memory", 1),
        ("constant memory", 1),
        ("control flow", 2),
    )
    assert found.opcodes[0] == ("BRA", 2)
    assert (found.loads, found.stores) == (((16, 1),), ())
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("LDGSTS", "asynchronous copies (cp.async)"),
        ("LDG", "global memory"),
        ("LDTM", "tensor memory"),
        ("LDSM", "shared memory"),
        ("UTMALDG", "bulk copies (TMA)"),
        ("UTCHMMA", "tensor core, tensor memory (tcgen05)"),
        ("REDUX", "warp exchange"),
        ("REDG", "atomics"),
        ("HFMA2", "floating point"),
        ("F2FP", "conversions"),
        ("IADD3", OTHER),
    ],
)
def test_classes(opcode: str, expected: str) -> None:
    assert class_of(opcode) == expected
    assert expected in (*CLASSES, OTHER)


def warnings(*lines: str, cc: tuple[int, int] = (9, 0), double: bool = True) -> tuple[str, ...]:
    return mix(code(*lines), cc, double=double).warnings


def test_local_memory() -> None:
    (text,) = warnings("STL.64 [R1+0x8], R2", "LDL R4, [R1]")
    assert text.startswith("2 accesses of local memory: registers are spilled")


@pytest.mark.parametrize(
    ("lines", "cc", "expected"),
    [
        (("HMMA.16816.F32 R4, R8, R10, R4",), (9, 0), "wgmma"),
        (("HMMA.16816.F32 R4, R8, R10, R4", "HGMMA.64x64x16.F32 R4, gdesc[UR4], R4"), (9, 0), ""),
        (("HMMA.16816.F32 R4, R8, R10, R4",), (8, 0), ""),
        (("HMMA.16816.F32 R4, R8, R10, R4",), (12, 0), ""),
        (("HMMA.16816.F32 R4, R8, R10, R4",), (10, 3), "tcgen05"),
        (
            ("HMMA.16816.F32 R4, R8, R10, R4", "UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8]"),
            (10, 0),
            "",
        ),
    ],
)
def test_tensor_cores(lines: tuple[str, ...], cc: tuple[int, int], expected: str) -> None:
    found = warnings(*lines, cc=cc)
    assert len(found) == bool(expected)
    assert all(expected in text for text in found)


def test_double_precision_that_nobody_asked_for() -> None:
    assert warnings("DMUL R2, R2, R4", double=True) == ()
    (text,) = warnings("DMUL R2, R2, R4", double=False)
    assert (
        text
        == "double precision (1 of the instructions), and no f64 in the signature: a literal such as 1.0 for 1.0f?"
    )
