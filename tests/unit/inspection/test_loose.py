"""Compiled code without a bundle: PTX and Tile IR, which need no tool to be read, and what a tool
took out of others.
"""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import pytest

from tests.bundle_samples import write_sample
from tests.cubin_samples import build_cubin
from tilec.frontends.base import ToolSearch
from tilec.frontends.prebuilt.tools import Members, Opener
from tilec.frontends.tools.compiled_files import FileKind, Prebuilt
from tilec.inspection.container import Code, describe, open_code
from tilec.inspection.diff import compare
from tilec.inspection.report import signature
from tilec_runtime.errors import BundleError, CompileError, UsageError

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
    assert (str(add.target), add.ptx_isa, add.max_threads, add.digest) == (
        "compute_80",
        (8, 0),
        256,
        found.digest,
    )
    assert more.required_block == (64, 2, 1)
    assert str(found.info.kernels[1].location) == "k.ptx:6"
    assert opened(tmp_path / "k.ptx", PTX).notes == (
        "occupancy is that of launches without dynamic shared memory: how much a launch takes, code does not tell",
    )
    assert opened(tmp_path / "k.ptx", PTX.partition(".visible .entry more")[0]).notes == ()


def test_two_texts_are_compared(tmp_path: Path) -> None:
    old = describe(opened(tmp_path / "old.ptx", PTX))
    new = describe(
        opened(tmp_path / "new.ptx", PTX.replace(".f32", ".f64").replace("more", "less"))
    )
    found = compare(old, new)
    assert [(change.kernel, change.what) for change in found.breaking] == [
        ("add", "param_2 takes f64; was f32"),
        ("more", "removed"),
    ]
    assert [image.id for image in found.images] == ["add-compute_80"]


def test_a_bundle_against_one_text(tmp_path: Path) -> None:
    """What only packages have is no difference."""
    write_sample(tmp_path / "acme.tilec")
    found = compare(
        describe(open_code(tmp_path / "acme.tilec", NOWHERE)),
        describe(opened(tmp_path / "new.ptx", PTX)),
    )
    assert {change.kernel for change in found.changes} == {"add", "rmsnorm", "more"}


SM_70 = 0x06004604
RELOCATABLE = struct.pack("<H", 1)


def members(monkeypatch: pytest.MonkeyPatch, *parts: tuple[FileKind, bytes]) -> None:
    """What cuobjdump would take out of any file."""
    files = tuple(
        Prebuilt(path=f"lib.so (k.{i})", kind=kind, data=data, digest=str(i))
        for i, (kind, data) in enumerate(parts)
    )
    monkeypatch.setattr(Opener, "members", lambda *_: Members(files=files, others=()))


def host(machine: int = 62) -> bytes:
    return b"\x7fELF\x02\x01".ljust(16, b"\0") + struct.pack("<HH", 3, machine) + bytes(60)


@pytest.mark.parametrize("data", [host(), host(183), b"!<arch>\n"])
def test_a_library_of_a_host_is_what_is_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    members(
        monkeypatch,
        (FileKind.CUBIN, build_cubin()),
        (FileKind.PTX, PTX.encode()),
        (FileKind.PTX, b".version 8.0\n.target sm_80\n"),
    )
    code = opened(tmp_path / "lib.so", data)
    assert code.kind == "host code"
    assert [note.partition(" ")[0] for note in code.notes] == ["occupancy"]
    kernels = {kernel.name: kernel for kernel in describe(code).info.kernels}
    assert set(kernels) == {"k", "add", "more"}
    assert [str(image.target) for image in kernels["k"].variants[0].images] == ["sm_90"]
    assert signature(kernels["more"]) == "more(param_0: struct of 12 bytes)"


def test_cubins_for_what_is_not_known_are_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members(
        monkeypatch, (FileKind.CUBIN, build_cubin(flags=SM_70)), (FileKind.CUBIN, build_cubin())
    )
    code = opened(tmp_path / "lib.so", host())
    assert code.notes == ("1 of its images, for sm_70, left out: this tilec knows sm_75 to sm_121",)
    assert len(describe(code).info.kernels[0].variants[0].images) == 1
    members(
        monkeypatch,
        (FileKind.PTX, PTX.replace("sm_80", "sm_52").encode()),
        (FileKind.CUBIN, build_cubin()),
    )
    assert opened(tmp_path / "lib.so", host()).notes == (
        "1 of its images, for compute_52, left out: this tilec knows sm_75 to sm_121",
    )
    members(monkeypatch, (FileKind.CUBIN, build_cubin(flags=SM_70)))
    with pytest.raises(
        BundleError,
        match=r"lib.so: 1 of its images, for sm_70, left out: this tilec knows sm_75 to sm_121",
    ) as caught:
        opened(tmp_path / "lib.so", host())
    assert "newer tilec" in caught.value.fix


def test_a_lone_cubin_for_what_is_not_known_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        opened(tmp_path / "k.cubin", build_cubin(flags=SM_70))
    assert (
        caught.value.what
        == f"{tmp_path / 'k.cubin'}: this cubin is for sm_70, and this tilec knows sm_75 to sm_121"
    )
    assert "newer tilec" in caught.value.fix


def test_of_code_that_is_still_to_be_linked_shared_memory_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build_cubin()
    members(monkeypatch, (FileKind.CUBIN, whole[:16] + RELOCATABLE + whole[18:]))
    code = opened(tmp_path / "k.o", host())
    (image,) = describe(code).info.kernels[0].variants[0].images
    assert (image.resources.registers, image.resources.shared) == (40, None)
    assert code.notes == ("1 cubin still to be linked: shared memory is not known before that",)


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
def test_what_cannot_be_read(
    tmp_path: Path, data: bytes, error: type[Exception], message: str
) -> None:
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
