"""Code of images as text: PTX, machine code and Tile IR, and the source lines beside it."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path

import pytest

from tests.bundle_samples import Sample
from tilec.frontends.base import ToolSearch
from tilec.inspection.dump import dump, pick
from tilec.inspection.lines import ptx_lines
from tilec.inspection.tileir import tileir_text
from tilec.package.write import write_bundle
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import ToolchainError, UsageError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import ImageInfo

PTX = b".version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n"


SEARCH = ToolSearch()


def image(target: str, data: bytes) -> ImageInfo:
    return ImageInfo(
        target=Target.parse(target),
        digest=hashlib.sha256(data).hexdigest(),
        size=len(data),
        symbol="k",
    )


def bundle(tmp_path: Path, *variants: dict[str, bytes]) -> Bundle:
    """A bundle of one kernel `k` with variants `k-0`, `k-1`, … of the given images by target."""
    info = Sample().info()
    kernel = info.kernels[0]
    made = tuple(
        dataclasses.replace(
            kernel.variants[0],
            id=f"k-{i}",
            images=tuple(image(t, data) for t, data in images.items()),
        )
        for i, images in enumerate(variants)
    )
    info = dataclasses.replace(
        info, kernels=(dataclasses.replace(kernel, name="k", variants=made),)
    )
    data = {hashlib.sha256(d).hexdigest(): d for images in variants for d in images.values()}
    write_bundle(tmp_path / "k.tilec", info, data.__getitem__)
    return Bundle.open(tmp_path / "k.tilec")


def tool(tmp_path: Path, monkeypatch, name: str, script: str) -> ToolSearch:
    """A toolkit with one disassembler, a shell script, found through CUDA_HOME and nowhere else."""
    path = tmp_path / "cuda" / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    (tmp_path / "cuda" / "version.json").write_text('{"cuda": {"version": "13.4.1"}}')
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)
    return ToolSearch(cuda_home=str(tmp_path / "cuda"), path="/usr/bin:/bin", prefer="system")


def test_ptx_of_one_entry_point_where_there_are_several(tmp_path: Path) -> None:
    head = ".version 8.0\n.target sm_80\n.func f()\n{\n\tret;\n}\n"
    one = '\t// .globl\tk\n.visible .entry k(\n\t.param .u64 p\n)\n{\n\t{ // callseq 0 }\n\t}\n{\n}\n\t.pragma "{";\n\tret;\n}\n'
    other = one.replace("\tk\n", "\tk2\n").replace(" k(", " k2(")
    data = (head + other + one + other.replace("k2", "k3")).encode()
    text = dump(bundle(tmp_path, {"compute_80": data}), "ptx", "", SEARCH).text
    assert text.replace("\n\n", "\n") == head + one


def test_comments_of_others_in_latin_1_are_shown_by_their_bytes(tmp_path: Path) -> None:
    data = PTX.replace(b".version", b"// caf\xe9\n.version", 1)
    assert "// caf\\xe9\n" in dump(bundle(tmp_path, {"compute_80": data}), "ptx", "", SEARCH).text


TWO = ({"sm_80": b"\x7fELFa", "sm_90": b"\x7fELFb", "compute_80": PTX}, {"sm_80": b"\x7fELFc"})


@pytest.mark.parametrize(
    ("form", "select", "name"),
    [
        ("sass", "k-0-sm_90", "k-0-sm_90"),
        ("sass", "*-sm_90", "k-0-sm_90"),
        ("sass", "k-1-*", "k-1-sm_80"),
        ("ptx", "", "k-0-compute_80"),
        ("ptx", "k-0-*", "k-0-compute_80"),
    ],
)
def test_one_image_is_picked(tmp_path: Path, form: str, select: str, name: str) -> None:
    assert pick(bundle(tmp_path, *TWO), form, select)[0] == name


@pytest.mark.parametrize(
    ("form", "select", "message"),
    [
        (
            "sass",
            "",
            "--sass: the bundle has 3 cubin images: k-0-sm_80, k-0-sm_90, k-1-sm_80\n  fix: name one with --select ID",
        ),
        (
            "sass",
            "*-sm_80",
            "--sass: '*-sm_80' matches 2 cubin images: k-0-sm_80, k-1-sm_80\n  fix: name one with --select ID",
        ),
        (
            "sass",
            "k-0-sm_91",
            "--sass: no cubin image 'k-0-sm_91'; did you mean 'k-0-sm_90'\n  fix: there are k-0-sm_80, k-0-sm_90, k-1-sm_80",
        ),
        (
            "tileir",
            "",
            "--tileir: the bundle has no tileir image; it has cubin and ptx\n  fix: add a tileir target to [targets] and build again",
        ),
    ],
)
def test_no_image_or_several(tmp_path: Path, form: str, select: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        pick(bundle(tmp_path, *TWO), form, select)
    assert str(caught.value) == message


def test_the_disassembler_gets_the_images_bytes(tmp_path: Path, monkeypatch) -> None:
    search = tool(tmp_path, monkeypatch, "nvdisasm", 'echo "$1"; cat "$2"')
    found = dump(bundle(tmp_path, {"sm_80": b"\x7fELF code"}), "sass", "", search)
    assert found.text == "-c\n\x7fELF code"
    assert found.tool.startswith("nvdisasm")


def test_a_disassembler_that_fails_is_quoted(tmp_path: Path, monkeypatch) -> None:
    search = tool(tmp_path, monkeypatch, "nvdisasm", 'echo "cannot read $1" >&2; exit 3')
    with pytest.raises(ToolchainError) as caught:
        dump(bundle(tmp_path, {"sm_80": b"\x7fELF"}), "sass", "", search)
    assert (
        "cannot read this image: cannot read -c\n  cause: the image was made by a newer toolkit"
        in str(caught.value)
    )


TILEIR = (Path(__file__).parents[2] / "samples" / "tileir" / "talks.tilebc").read_bytes()


@pytest.mark.parametrize(("digest", "shown"), [("", True), ("0" * 64, False)])
def test_source_lines_are_those_of_unchanged_files(
    tmp_path: Path, digest: str, shown: bool
) -> None:
    path = tmp_path / "tests" / "toolchain" / "tile_corpus.py"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(f"line {number}" for number in range(1, 301)))
    sources = (
        ("tests/toolchain/tile_corpus.py", digest or hashlib.sha256(path.read_bytes()).hexdigest()),
    )
    found = tileir_text(TILEIR, sources, tmp_path)
    assert (
        bool(
            re.search(
                r"^  // tests/toolchain/tile_corpus.py:(\d+) \| line \1$", found, re.MULTILINE
            )
        )
        is shown
    )
    assert tileir_text(TILEIR, sources, tmp_path / "elsewhere") == tileir_text(TILEIR, (), tmp_path)


INLINED = """\
.entry k()
{
\t.loc 1 10 5
\t.loc 2 18 9, function_name $L__info_string0, inlined_at 1 14 5
\tmov.u32 %r1, %tid.x;
\t.loc 2 20 13, function_name $L__info_string0, inlined_at 1 14 5
\t.loc 2 7 32, function_name $L__info_string1, inlined_at 2 20 13
\tmov.u32 %r2, %r1;
\t.loc 2 0 9
\tmov.u32 %r3, %r1;
\t.loc 3 1 1
\tmov.u32 %r4, %r1;
}
.func f()
{
\tret;
}
\t.file 1 "a.cu"
\t.file\t2 "b.cuh", 1234, 99
"""


def test_ptx_of_inlined_calls() -> None:
    at = dict(ptx_lines(INLINED))
    assert at["\tmov.u32 %r1, %tid.x;"] == (("b.cuh", 18),)
    assert at["\tmov.u32 %r2, %r1;"] == (("b.cuh", 7),)
    assert at["\tmov.u32 %r3, %r1;"] == ()  # of no line
    assert at["\tmov.u32 %r4, %r1;"] == ()  # of a file that has no name
    assert at["\tret;"] == ()  # of another function than the last `.loc`
