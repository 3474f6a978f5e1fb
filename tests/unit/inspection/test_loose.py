"""Compiled code without a bundle: PTX and Tile IR, which need no tool to be read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.bundle_samples import write_sample
from tilec.errors import BundleError, CompileError, UsageError
from tilec.frontends.base import ToolSearch
from tilec.inspection.container import Code, describe, open_code
from tilec.inspection.diff import compare
from tilec.inspection.report import signature

NOWHERE = ToolSearch(path="")
PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 .ptr .global .align 4 add_param_0, .param .u64 add_param_1, .param .f32 add_param_2) .maxntid 256, 1, 1
{ ret; }
.visible .entry more(.param .align 4 .b8 more_param_0[12]) .reqntid 64, 2, 1
{ ret; }
"""


def opened(path: Path, data: str | bytes) -> Code:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return open_code(path, NOWHERE)


def test_ptx(tmp_path: Path) -> None:
    found = describe(opened(tmp_path / "k.ptx", PTX))
    assert (found.kind, found.size, found.info.package.name) == ("PTX", len(PTX), "k.ptx")
    assert [signature(kernel) for kernel in found.info.kernels] == [
        "add(param_0: pointer, param_1: 8 bytes, param_2: f32)",
        "more(param_0: struct of 12 bytes)",
    ]
    add, more = (kernel.variants[0].images[0] for kernel in found.info.kernels)
    assert (str(add.target), add.ptx_isa, add.max_threads, add.digest) == ("compute_80", (8, 0), 256, found.digest)
    assert more.required_block == (64, 2, 1)
    assert str(found.info.kernels[1].location) == "k.ptx:6"


def test_two_texts_are_compared(tmp_path: Path) -> None:
    old = describe(opened(tmp_path / "old.ptx", PTX))
    new = describe(opened(tmp_path / "new.ptx", PTX.replace(".f32", ".f64").replace("more", "less")))
    found = compare(old, new)
    assert [(change.kernel, change.what) for change in found.breaking] == [("add", "param_2 takes f64; was f32"), ("more", "removed")]
    assert [image.id for image in found.images] == ["add-compute_80"]


def test_a_bundle_against_one_text(tmp_path: Path) -> None:
    """What only packages have is no difference."""
    write_sample(tmp_path / "acme.tilec")
    found = compare(describe(open_code(tmp_path / "acme.tilec", NOWHERE)), describe(opened(tmp_path / "new.ptx", PTX)))
    assert {change.kernel for change in found.changes} == {"add", "rmsnorm", "more"}


def test_bundles_are_bundles(tmp_path: Path) -> None:
    write_sample(tmp_path / "acme.tilec")
    assert open_code(tmp_path / "acme.tilec", NOWHERE).kind == "bundle"
    (tmp_path / "acme.tilec").rename(tmp_path / "renamed")
    assert open_code(tmp_path / "renamed", NOWHERE).kind == "bundle"
    with pytest.raises(BundleError, match="no such file or directory"):
        open_code(tmp_path / "nothing", NOWHERE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match=r"holds no \.tilec bundle"):
        open_code(tmp_path / "empty", NOWHERE)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"int main() {}", CompileError, "this is no compiled kernel: it begins with 69 6e 74"),
        (b"", BundleError, "k"),
        (b"\x7fELF" + bytes(60), CompileError, "ELF"),
        (PTX.replace(".entry", ".func").encode(), CompileError, "no entry"),
        (b"\xedCN\x7f" + bytes(40), BundleError, "LTO-IR is no code of an architecture yet"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, data: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        opened(tmp_path / "k", data)


def test_there_is_nothing_to_verify(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--verify: a file of PTX states no digest"):
        opened(tmp_path / "k.ptx", PTX).bundle.verify()


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec.inspection.container.MAX_MEMBER", 10)
    with pytest.raises(BundleError, match="is larger than 10 bytes"):
        opened(tmp_path / "k.ptx", PTX)


def test_an_image_by_its_digest(tmp_path: Path) -> None:
    code = opened(tmp_path / "k.ptx", PTX)
    assert code.bundle.image(code.bundle.digest) == PTX.encode()
    assert dataclasses.is_dataclass(code)
