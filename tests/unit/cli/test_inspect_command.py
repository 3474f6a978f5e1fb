from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bundle_samples import Sample, write_sample
from tests.conftest import Golden, Terminal
from tilec.package.write import write_bundle
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "acme.tilec"
    write_sample(path)
    return path


TEXT = """\
acme-kernels 0.3.0  bundle acme.tilec, {size}
Kernels
import acme_kernels, profile release, licence Apache-2.0, drivers from 580, jit-fallback deny (by default), by tilec 0.1.0
sha256 {digest}

kernel  variants  images  regs  spills  shared  stack     size
add            1       3    40     0 B   1 KiB    0 B  8.8 KiB

add(out y: T[2], x: T[2], eps: f32 = 1e-06)
  tile, kernels/add.py:7:5: Scales each row by its norm.
  T = f16, f32
  B = 64, 128 (default 128)
  grid cdiv(x.shape[0], B)
  block 256
  shared 256 * 4
  requires x.shape[0] == y.shape[0]
    target      regs  spills  shared  stack  occ     size  driver  sha256
  add-f16-B64  (x: shape divisible by 16, stride by 16, base by 16)
    sm_80         40     0 B   1 KiB    0 B  75%  2.9 KiB  450+    {a}
    sm_90         40     0 B   1 KiB    0 B  75%  2.9 KiB  520+    {b}
    compute_80    40     0 B   1 KiB    0 B    -  2.9 KiB  525+    {c}

toolchain
  nvrtc 13.4.92  000000000000
"""


def test_shows_images_that_jit_fallback_denies(cli, tmp_path: Path) -> None:
    made = Sample()
    info = made.info()

    def only(keep: Callable[[ImageInfo], bool]) -> BundleInfo:
        kernels = (
            dataclasses.replace(
                k,
                variants=tuple(
                    dataclasses.replace(v, images=tuple(filter(keep, v.images))) for v in k.variants
                ),
            )
            for k in info.kernels
        )
        return dataclasses.replace(info, kernels=tuple(kernels))

    write_bundle(tmp_path / "all.tilec", info, made.images.__getitem__)
    write_bundle(
        tmp_path / "cubins.tilec",
        only(lambda image: image.target.kind is TargetKind.CUBIN),
        made.images.__getitem__,
    )
    assert ", jit-fallback deny (by default), by tilec" in cli("inspect", "all.tilec").out
    assert "jit-fallback" not in cli("inspect", "cubins.tilec").out


def test_verify_reads_every_image(cli, sample: Path) -> None:
    assert ", every image verified\n" in cli("inspect", "acme.tilec", "--verify").out
    assert json.loads(cli("inspect", "acme.tilec", "--verify", "--json").out)["verified"] is True
    assert "verified" not in json.loads(cli("inspect", "acme.tilec", "--json").out)
    data = bytearray(sample.read_bytes())
    data[200] ^= 1
    sample.write_bytes(data)
    done = cli("inspect", "acme.tilec", "--verify")
    assert done.code == 1
    assert done.err.startswith("error: ")


def test_ptx_goes_out_alone(cli, tmp_path: Path, monkeypatch) -> None:
    write_sample(tmp_path / "acme.tilec")
    monkeypatch.setattr("tilec.inspection.dump._text", lambda data, name: f".entry {name}")
    done = cli("inspect", "acme.tilec", "--ptx", "--select", "add-f16-B64-*", "-v")
    assert done.out == ".entry add-f16-B64-compute_80\n"
    assert done.err.startswith("add-f16-B64-compute_80: ")


@pytest.mark.parametrize("place", ["", "project"])
def test_tile_ir_looks_for_sources_in_the_project(
    cli, tmp_path: Path, monkeypatch, place: str
) -> None:
    (tmp_path / "project").mkdir()
    write_sample(tmp_path / "project" / "acme.tilec")
    if place:
        (tmp_path / place / "tilec.toml").write_text("")
    monkeypatch.setattr(
        "tilec.inspection.dump.pick",
        lambda bundle, form, select: ("k-tileir", bundle.info.kernels[0].variants[0].images[0]),
    )
    monkeypatch.setattr(
        "tilec.inspection.dump.tileir_text",
        lambda data, sources, folder: f"{folder.name} {len(sources)}",
    )
    done = cli("-C", "project", "inspect", "acme.tilec", "--tileir")
    assert done.out.split()[0] == "project"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("nothing.tilec",), 1, "nothing.tilec: no such file or directory\n"),
        (
            ("acme.tilec", "--select", "nope"),
            2,
            "error: --select: nothing matches 'nope'\n  fix: kernels are add, rmsnorm\n",
        ),
        (
            ("acme.tilec", "--tileir"),
            2,
            "error: --tileir: the bundle has no tileir image; it has cubin and ptx\n",
        ),
    ],
)
def test_messages(cli, sample: Path, args: tuple[str, ...], code: int, message: str) -> None:
    done = cli("inspect", *args)
    assert (done.code, done.out) == (code, "")
    assert message in done.err


def test_safety(cli, sample: Path) -> None:
    done = cli("inspect", "acme.tilec", "--safety", "--select", "rmsnorm")
    assert (done.code, done.err) == (0, "")
    lines = done.out.split("\n")
    assert lines[0] == "rmsnorm  cuda, kernels/rmsnorm.cu:7:5, unchecked"
    assert lines[1:3] == [
        "  checked at launch",
        "    number, dtypes, ranks, devices and layouts of the arguments",
    ]
    unknown = "    what the kernel reads and writes, and in which order: cuda sources do not say (unchecked)"
    assert lines[-3:] == ["  not guaranteed", unknown, ""]
    document = json.loads(cli("inspect", "acme.tilec", "--safety", "--json").out)
    assert document["kind"] == "safety"
    assert [kernel["checked"] for kernel in document["kernels"]] == [False, False]


# --- what changed
# ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A later build: one parameter gone, one default changed, one image made anew."""
    sample = Sample()
    info = sample.info()
    add, norm = info.kernels
    add = replace(add, params=(*add.params[:2], replace(add.params[2], default=0.5)))
    first, *others = norm.variants
    data = b"\x7fELF" + bytes(100)
    used = replace(first.images[0].resources, registers=168, spill_stores=8)
    image = replace(
        first.images[0], digest=hashlib.sha256(data).hexdigest(), size=len(data), resources=used
    )
    sample.images[image.digest] = data
    slots = tuple(slot for slot in first.abi if slot.expr != "eps")
    variants = (replace(first, images=(image, *first.images[1:])), *others)
    norm = replace(
        norm, params=norm.params[:2], variants=tuple(replace(v, abi=slots) for v in variants)
    )
    package = replace(info.package, version="0.4.0")
    path = tmp_path / "new.tilec"
    write_bundle(
        path, replace(info, package=package, kernels=(add, norm)), sample.images.__getitem__
    )
    return path


def test_breaking_changes_can_be_denied(cli, sample: Path, new: Path) -> None:
    assert cli("inspect", "new.tilec", "--diff", "acme.tilec", "--deny-breaking").code == 1
    assert cli("inspect", "acme.tilec", "--diff", "acme.tilec", "--deny-breaking").code == 0
    assert (
        cli(
            "inspect", "new.tilec", "--diff", "acme.tilec", "--deny-breaking", "--select", "add"
        ).code
        == 0
    )
    body = json.loads(cli("inspect", "new.tilec", "--diff", "acme.tilec", "--json").out)
    assert (body["kind"], body["breaking"], body["images"]["same"]) == ("diff", 1, 23)
    assert body["changes"][0] == {
        "what": "parameter eps: f32 = 1e-06 removed",
        "breaking": True,
        "kernel": "rmsnorm",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--diff", "nothing.tilec"), "nothing.tilec: no such file or directory"),
        (("--diff", "acme.tilec", "--ptx"), "--diff and --ptx cannot be combined"),
        (("--diff", "acme.tilec", "--safety"), "--diff and --safety cannot be combined"),
        *(
            ((option, ""), f"Invalid value for '{option}': it names nothing")
            for option in ("--diff", "--html", "--why")
        ),
        (("--deny-breaking",), "--deny-breaking goes with --diff"),
        (
            ("--diff", "acme.tilec", "--select", "rmsnrm"),
            "nothing matches 'rmsnrm'; did you mean 'rmsnorm'",
        ),
    ],
)
def test_options_that_do_not_fit(cli, sample: Path, options: tuple[str, ...], message: str) -> None:
    done = cli("inspect", "acme.tilec", *options)
    assert done.code in (1, 2)
    assert message in done.err


# --- a page
# ------------------------------------------------------------------------------------------------------------------------


def test_a_page(cli, sample: Path) -> None:
    # Nothing reads these images: what can be said without is on the page, and what is missing is
    # said.
    done = cli(
        "inspect",
        "acme.tilec",
        "--html",
        "out.html",
        "--select",
        "*-sm_*",
        env={"TILEC_CACHE_DIR": "off"},
    )
    assert done.code == 0
    assert re.fullmatch(r"wrote out\.html: 2 kernels, 16 images, [\d.]+ KiB\n", done.out)
    assert "warning: machine code is missing: " in done.err
    text = (sample.parent / "out.html").read_text()
    assert text.startswith("<!doctype html>")
    assert '<p class="dim">bundle acme.tilec, ' in text
    assert text.count('<tr data-kernel="') == 16


def test_a_page_of_some_images(cli, sample: Path) -> None:
    done = cli(
        "inspect",
        "acme.tilec",
        "--html",
        "out.html",
        "--select",
        "add-f16-B64-compute_80",
        "--verify",
        "-q",
    )
    assert done.code == 0, done.err
    # These bytes are no PTX: that is said where its code would be, and the rest is there.
    assert (
        "add-f16-B64-compute_80: the PTX image is no text"
        in (sample.parent / "out.html").read_text()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--html", "."), " is a directory\n  fix: name a file"),
        (("--html", "acme.tilec"), "acme.tilec: no name of an HTML file\n  fix: end it in .html"),
        (("--html", "out.html", "--json"), "--json and --html cannot be combined"),
        (("--html", "out.html", "--sass"), "--html and --sass cannot be combined"),
        (("--html", "out.html", "--diff", "acme.tilec"), "--diff and --html cannot be combined"),
        (("--html", "out.html", "--select", "ad"), "nothing matches 'ad'; did you mean 'add'"),
    ],
)
def test_pages_that_cannot_be(cli, sample: Path, options: tuple[str, ...], message: str) -> None:
    before = sample.read_bytes()
    done = cli("inspect", "acme.tilec", *options)
    assert done.code == 2
    assert message in done.err
    assert [path.name for path in sample.parent.iterdir()] == ["acme.tilec"]
    assert sample.read_bytes() == before


def test_a_page_that_cannot_be_written_leaves_the_one_before(
    cli, sample: Path, monkeypatch
) -> None:
    (sample.parent / "out.html").write_text("before")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    done = cli("inspect", "acme.tilec", "--html", "out.html", "--select", "*-sm_80")
    assert done.code == 1
    assert "the disk is full" in done.err
    assert (sample.parent / "out.html").read_text() == "before"
    assert sorted(path.name for path in sample.parent.iterdir()) == ["acme.tilec", "out.html"]


# --- how it looks
# ------------------------------------------------------------------------------------------------------------------

GOLDEN = Path(__file__).parents[2] / "golden" / "inspect"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("name", "options"),
    [("bundle", ()), ("safety", ("--safety",)), ("diff", ("--diff", "acme.tilec"))],
)
def test_how_it_looks(
    cli,
    sample: Path,
    new: Path,
    terminal: Terminal,
    golden: Golden,
    width: int,
    name: str,
    options: tuple[str, ...],
) -> None:
    terminal(width)
    done = cli("inspect", "new.tilec", *options, "--color", "never")
    assert max(map(len, done.out.splitlines())) <= width
    # What a build of Python compresses to, and hence the digest of the whole, are its own.
    shown = re.sub(
        r"\bsha256 [0-9a-f]{64}",
        "sha256 …",
        re.sub(r"(new\.tilec, )[0-9.]+ KiB", r"\g<1>… KiB", done.out),
    )
    golden(GOLDEN / f"{name}-{width}.txt", shown)
