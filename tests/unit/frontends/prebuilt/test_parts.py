"""What is read of prebuilt files without any tool: digests, kinds, PTX texts, and which file serves
which target.
"""

from __future__ import annotations

import re
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest

from tests.cubin_samples import build_cubin
from tilec.frontends.base import ToolSearch
from tilec.frontends.prebuilt.choose import choose, members
from tilec.frontends.prebuilt.declare import declarations
from tilec.frontends.prebuilt.ptx import read_ptx
from tilec.frontends.prebuilt.tools import Opener
from tilec.frontends.tools import abi
from tilec.frontends.tools.compiled_files import FileKind, Prebuilt, input_files, prebuilt_files
from tilec.model.job import Source
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
TRITON = (
    HEAD
    + """// a comment with .entry nothing(
.visible .entry add_kernel(
	.param .u64 .ptr .global .align 1 add_kernel_param_0,
	.param .u64 .ptr .global .align 1 add_kernel_param_1,
	.param .u32 add_kernel_param_2 /* how many, (all) */,
	.param .u64 .ptr .global .align 1 add_kernel_param_3
)
.reqntid 128
{ ret; }
"""
)
OPENER = Opener(ToolSearch())


def source(root: Path, text: str | bytes, **options: str | tuple[tuple[str, str], ...]) -> Source:
    data = text.encode() if isinstance(text, str) else text
    (root / "k.ptx").write_bytes(data)
    return Source(
        root=str(root),
        path="k.ptx",
        options=tuple(sorted({"sha256": sha256(data), **options}.items())),
    )


def test_a_wrong_digest_shows_the_one_that_was_found(tmp_path: Path) -> None:
    where = source(tmp_path, TRITON, sha256="0" * 64)
    with pytest.raises(CompileError) as caught:
        declarations(where, OPENER)
    found = sha256(TRITON.encode())
    assert (
        caught.value.what
        == f"k.ptx: the digest of this file is {found}, the manifest states {'0' * 64}"
    )
    assert caught.value.fix == f'where this is the file that you mean, write sha256 = "{found}"'
    assert str(caught.value.diagnostics[0].location) == "k.ptx:1"


def test_a_digest_is_required_of_every_file(tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(b"x")
    with pytest.raises(
        CompileError,
        match=r"the manifest does not state the digest of this file, which is [0-9a-f]{64}",
    ):
        prebuilt_files(source(tmp_path, TRITON, sha256=""))
    with pytest.raises(CompileError, match=r'write files = \{ "k\.cubin" = "[0-9a-f]{64}" \}'):
        prebuilt_files(source(tmp_path, TRITON, files=(("k.cubin", "1" * 64),)))


def test_files_that_are_not_there_or_lie_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"missing\.cubin: cannot be read: No such file"):
        input_files(source(tmp_path, TRITON, files=(("missing.cubin", "1" * 64),)))
    (tmp_path / "project").mkdir()
    (tmp_path / "away.cubin").write_bytes(b"x")
    (tmp_path / "project" / "link.cubin").symlink_to(tmp_path / "away.cubin")
    with pytest.raises(CompileError, match=r"link\.cubin: the file lies outside of the project"):
        input_files(source(tmp_path / "project", TRITON, files=(("link.cubin", "1" * 64),)))


@pytest.mark.parametrize(
    "data", [b"", b"\0\0", b"MZ\x90", b"#include <x>\n", b"\xff" * 40, "é".encode()]
)
def test_what_is_no_compiled_kernel(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CompileError, match="this is no compiled kernel: it begins with"):
        prebuilt_files(source(tmp_path, data))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x7fELF\x02\x01", FileKind.CUBIN),
        (b"\x50\xed\x55\xba\x01", FileKind.FATBIN),
        (b"\xedCN\x7f\x01", FileKind.LTOIR),
        (b"BC\xc0\xde", FileKind.NVVM),
        (b'target triple = "nvptx64-nvidia-cuda"\n', FileKind.NVVM),
        (b"\x7fTileIR\0\x0d", FileKind.TILEIR),
        (b"// made by hand\n.version 7.0\n", FileKind.PTX),
    ],
)
def test_kinds_are_told_by_what_is_in_a_file(tmp_path: Path, data: bytes, kind: FileKind) -> None:
    assert prebuilt_files(source(tmp_path, data))[0].kind is kind


def test_every_kind_of_ptx_parameter(tmp_path: Path) -> None:
    text = HEAD + (
        ".visible .entry k(.param .u64 x, .param .s32 n, .param .f32 eps, .param .align 8 .b8 box[24], .param .b32 bits,\n"
        "  .param .align 16 .v4 .f32 four, .param .align 2 .b8 half[2], .param .texref tex, .param .f64 class, .param .u8 %small)\n"
        ".maxntid 32, 4\n.minnctapersm 2\n.reqnctapercluster 2\n{\n}\n"
    )
    (decl,) = declarations(source(tmp_path, text), OPENER)
    assert [(p.name, p.kind, p.type, p.dtype, p.size) for p in decl.params] == [
        ("x", "", "", "", 8),
        ("n", "scalar", "", "i32", 0),
        ("eps", "scalar", ".f32", "f32", 0),
        ("box", "struct", ".align 8 .b8[24]", "", 24),
        ("bits", "", "", "", 4),
        ("four", "struct", ".v4.f32", "", 16),
        ("half", "", "", "", 2),
        ("tex", "", "", "", 8),
        ("param_8", "scalar", ".f64", "f64", 0),
        ("small", "scalar", "", "u8", 0),
    ]
    assert (decl.max_threads, decl.cluster, decl.named) == (128, (2, 1, 1), True)
    entry = read_ptx(text, "k.ptx").entries[0]
    assert [(p.size, p.align) for p in entry.params[3:7]] == [(24, 8), (4, 4), (16, 16), (2, 2)]


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        (HEAD, "this PTX declares no entry point", 1),
        (
            HEAD + ".func f() { ret; }\n",
            r"declares no entry point \(it has device functions alone\)",
            1,
        ),
        (HEAD + ".visible .entry k(.param .u64 x,\n", "this entry point is cut short", 4),
        (
            HEAD + ".visible .entry k(\n.param .u64 x,\n.param .wide y)\n{ }\n",
            r"parameter '\.param \.wide y' of k cannot be read",
            6,
        ),
        (HEAD.replace("64", "32") + ".entry k() { }\n", r"\.address_size 32", 3),
        (
            HEAD.replace("sm_80", "sm_99") + ".entry k() { }\n",
            r"\.target sm_99: unknown architecture",
            2,
        ),
        (".version 8.0\n.entry k() { }\n", r"this PTX has no \.target", 1),
    ],
)
def test_damaged_ptx_is_told_with_its_line(tmp_path: Path, text: str, what: str, line: int) -> None:
    with pytest.raises(CompileError, match=what) as caught:
        declarations(source(tmp_path, text), OPENER)
    assert str(caught.value.diagnostics[0].location) == f"k.ptx:{line}"


@hypothesis.given(st.text(alphabet=TRITON, max_size=200), st.integers(0, len(TRITON)))
def test_no_text_makes_the_reader_fail_otherwise(noise: str, at: int) -> None:
    text = TRITON[:at] + noise + TRITON[at:]
    told = 0
    try:
        told = len(read_ptx(text, "k.ptx").entries)
    except CompileError as error:
        told = len(error.diagnostics)
    assert told


@pytest.mark.parametrize("size", [10, 63, 64, 200, 400])
def test_a_cubin_that_is_cut_short(tmp_path: Path, size: int) -> None:
    with pytest.raises(CompileError, match="cubin"):
        declarations(source(tmp_path, build_cubin()[:size]), OPENER)


def ptx_file(name: str, arch: str) -> Prebuilt:
    text = HEAD.replace("sm_80", f"sm_{arch}") + ".visible .entry k() { ret; }\n"
    return Prebuilt(path=name, kind=FileKind.PTX, data=text.encode(), digest=name)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("sm_80", "80.ptx"),
        ("sm_90", "80.ptx"),
        ("compute_120", "80.ptx"),
        ("sm_75", ""),
        ("tileir", ""),
    ],
)
def test_ptx_serves_its_architecture_and_later_ones(target: str, name: str) -> None:
    found = members((ptx_file("80.ptx", "80"), ptx_file("100a.ptx", "103a")), OPENER)
    if name:
        assert choose(Target.parse(target), "k", found).file.path == name
        return
    with pytest.raises(CompileError) as caught:
        choose(Target.parse(target), "k", found)
    assert "80.ptx: PTX 8.0 for sm_80 and later" in caught.value.what
    assert "100a.ptx: PTX 8.0 for sm_103a alone" in caught.value.what
    assert "[[override]]" in caught.value.fix


def test_ptx_of_a_family_serves_the_family() -> None:
    found = members((ptx_file("f.ptx", "100f"),), OPENER)
    assert choose(Target.parse("sm_103f"), "k", found).file.path == "f.ptx"
    assert choose(Target.parse("sm_103a"), "k", found).file.path == "f.ptx"
    for target in ("sm_103", "sm_120f", "sm_90"):
        with pytest.raises(CompileError, match=re.escape("PTX 8.0 for the family of sm_100f")):
            choose(Target.parse(target), "k", found)


def test_parameters_are_laid_out_by_their_alignment() -> None:
    assert [p.offset for p in abi.laid_out([(8, 8), (4, 4), (16, 16), (1, 1), (2, 2)])] == [
        0,
        8,
        16,
        32,
        34,
    ]
