from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bundle_samples import Sample, write_sample
from tests.conftest import Golden, Terminal
from tilec.package.write import write_bundle


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "acme.tilec"
    write_sample(path)
    return path


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
