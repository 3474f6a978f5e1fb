"""What the installed disassemblers print is read whole, counted, warned of and compared."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.toolchain.cuda_jobs import compile_text
from tests.toolchain.prebuilt_samples import fatbin
from tilec.frontends.base import ToolSearch
from tilec.inspection.code import image_codes
from tilec.inspection.container import describe, open_code
from tilec.inspection.dump import machine_code
from tilec.inspection.mix import mix
from tilec.inspection.sass import Instruction, instructions
from tilec_runtime.errors import BundleError, CompileError
from tilec_runtime.model.image import Image

pytestmark = pytest.mark.toolchain

SEARCH = ToolSearch(path=os.environ.get("PATH", ""))
COPY = """
extern "C" __global__ void k(float* y, const float* x, int n) {{
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {{ {body} }}
}}
"""
NARROW = "float a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3]; y[i] = a; y[i + 1] = b; y[i + 2] = c; y[i + 3] = d;"
WIDE = "*(float4*)(y + i) = *(const float4*)(x + i);"


def code(image: Image) -> list[Instruction]:
    return list(instructions(machine_code(image.data, image.info.symbol, SEARCH)[1]))


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_every_instruction_is_read(tmp_path: Path, target: str) -> None:
    image = compile_text(tmp_path, COPY.format(body=NARROW), target=target)
    found = code(image)
    # Each takes 16 bytes; the code's size says how many there are.
    assert image.info.resources.code == 16 * len(found)
    assert [one.address for one in found] == list(range(0, 16 * len(found), 16))


def test_wide_accesses(tmp_path: Path) -> None:
    found = mix(code(compile_text(tmp_path, COPY.format(body=WIDE))), (9, 0), double=False)
    assert (found.loads, found.stores, found.warnings) == (((16, 1),), ((16, 1),), ())


def test_doubles_and_local_memory(tmp_path: Path) -> None:
    body = "float t[999]; for (int j = 0; j < n; j++) t[j] = x[j * n]; y[i] = 1.7 * t[n % 64] + t[n / 3];"
    local, double = mix(
        code(compile_text(tmp_path, COPY.format(body=body))), (9, 0), double=False
    ).warnings
    assert "accesses of local memory" in local
    assert "double precision" in double


def test_numbers_of_registers_do_not_count(tmp_path: Path) -> None:
    one, other = (
        [
            each.normal
            for each in code(
                compile_text(
                    tmp_path / name,
                    COPY.format(body=WIDE).replace("(float* y, const float* x,", params),
                )
            )
        ]
        for name, params in (
            ("a", "(float* y, const float* x,"),
            ("b", "(float* y, const float* x, int unused,"),
        )
    )
    # The extra parameter moves the offset of `n` and nothing else.
    assert len(one) == len(other)
    assert sum(a != b for a, b in zip(one, other, strict=True)) == 1


def host_object(inside: bytes) -> bytes:
    """An object file of an x86-64 host whose one section is what nvcc puts there."""
    names, at = b"\0.nv_fatbin\0.shstrtab\0", 64
    table = (at + len(inside) + len(names) + 7) // 8 * 8
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2
    )
    rows = [
        (0,) * 10,
        (1, 1, 2, 0, at, len(inside), 0, 0, 8, 0),
        (12, 3, 0, 0, at + len(inside), len(names), 0, 0, 1, 0),
    ]
    return (head + inside + names).ljust(table, b"\0") + b"".join(
        struct.pack("<IIQQQQIIQQ", *row) for row in rows
    )


def test_an_object_an_archive_and_a_program_without_kernels(tmp_path: Path) -> None:
    whole = host_object(fatbin(ltoir=False, tileir=False))
    entry = (
        b"k.o/".ljust(16)
        + b"0".ljust(12)
        + b"0".ljust(6) * 2
        + b"644".ljust(8)
        + str(len(whole)).encode().ljust(10)
        + b"`\n"
    )
    (tmp_path / "k.o").write_bytes(whole)
    (tmp_path / "libk.a").write_bytes(b"!<arch>\n" + entry + whole)
    for name in ("k.o", "libk.a"):
        code = open_code(tmp_path / name, SEARCH)
        (kernel,) = describe(code).info.kernels
        assert (code.kind, kernel.name) == ("host code", "scale")
        assert [str(image.target) for image in kernel.variants[0].images] == ["sm_90", "compute_80"]
        assert len(kernel.params) == 5
    (tmp_path / "plain.o").write_bytes(
        host_object(b"\0" * 64).replace(b".nv_fatbin", b".no_fatbin")
    )
    with pytest.raises(CompileError, match=r"plain.o: there is no code for GPUs in it"):
        open_code(tmp_path / "plain.o", SEARCH)


def test_a_fatbin_of_others(tmp_path: Path) -> None:
    """Every architecture of a kernel is an image; parameters come from the PTX, and resources are
    those of the cubins.
    """
    (tmp_path / "k.fatbin").write_bytes(fatbin())
    code = open_code(tmp_path / "k.fatbin", SEARCH)
    (kernel,) = describe(code).info.kernels
    assert code.kind == "fatbin"
    found = {str(image.target): image for image in kernel.variants[0].images}
    assert {"sm_90", "compute_80"} <= set(found)
    assert found["sm_90"].resources.registers
    assert found["compute_80"].resources.registers is None
    (one,) = image_codes(code.bundle, code.bundle.info, SEARCH)
    assert (str(one.image.target), one.held, one.mix.total > 10) == ("sm_90", None, True)
    (tmp_path / "cut.fatbin").write_bytes(fatbin()[:60])
    with pytest.raises(CompileError, match="the fatbin cannot be read"):
        open_code(tmp_path / "cut.fatbin", SEARCH)
    (tmp_path / "tile.fatbin").write_bytes(fatbin(cubin=False, ptx=False, ltoir=False))
    with pytest.raises(CompileError, match="this fatbin holds Tile IR alone"):
        open_code(tmp_path / "tile.fatbin", SEARCH)
    (tmp_path / "lto.fatbin").write_bytes(fatbin(cubin=False, ptx=False, tileir=False))
    with pytest.raises(BundleError, match="LTO-IR is no code of an architecture yet"):
        open_code(tmp_path / "lto.fatbin", SEARCH)
