"""Bundles that are damaged, too large or for other GPUs are refused in words, by the command and by
the runtime.
"""

from __future__ import annotations

import dataclasses
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, Cli, write
from tests.runtime_samples import Array
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError, NoImageError

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


@pytest.fixture(scope="module")
def dist(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a project of both languages emitted for sm_90."""
    root = write(tmp_path_factory.mktemp("project"), HEAD + TWICE + ADD)
    cli.good(root, "build", "--emit", "bundle,package,wheel")
    return root / "dist"


@pytest.fixture
def bundle(dist: Path) -> bytes:
    return (dist / "acme-1.0.0.tilec").read_bytes()


def refused(cli: Cli, path: Path) -> str:
    """What `inspect --verify` says of a file that it has to refuse."""
    done = cli(path.parent, "inspect", path.name, "--verify")
    assert (done.code, done.out) == (1, "")
    first = done.err.split("\n")[0]
    assert first.startswith("error: ")
    assert path.name in first
    return done.err


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.999])
def test_cut_short(cli: Cli, bundle: bytes, tmp_path: Path, part: float) -> None:
    path = tmp_path / "cut.tilec"
    path.write_bytes(bundle[: int(len(bundle) * part)])
    said = refused(cli, path)
    assert (
        "\n  cause: the file was cut short or changed on its way, or is not a tilec bundle\n"
        in said
    )
    assert "\n  fix: fetch it again, or rebuild it with `tilec build`\n" in said


def test_a_bit_that_flipped_anywhere(bundle: bytes, cli: Cli, tmp_path: Path) -> None:
    """In the index, the images or the directory of the file: refused, unless what it unpacks to is
    the same.
    """
    whole = Bundle.open(bundle).info
    refusals = 0
    for place in range(0, len(bundle), max(1, len(bundle) // 400)):
        damaged = bytearray(bundle)
        damaged[place] ^= 0x20
        try:
            opened = Bundle.open(bytes(damaged))
            opened.verify()  # every image against its digest
        except BundleError:
            refusals += 1
        else:
            assert opened.info == whole
    assert refusals > 350
    path = tmp_path / "flipped.tilec"
    for place in (60, len(bundle) // 2, len(bundle) - 40):
        damaged = bytearray(bundle)
        damaged[place] ^= 0x20
        path.write_bytes(damaged)
        assert "\n  fix: fetch it again, or rebuild it with `tilec build`\n" in refused(cli, path)


def test_files_that_are_something_else(cli: Cli, dist: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.tilec"
    text.write_text("hello world\n" * 100)
    assert "the bundle is not a bundle: it does not read as a zip file\n" in refused(cli, text)
    other = tmp_path / "other.tilec"
    with zipfile.ZipFile(other, "w") as file:
        file.writestr("readme.txt", "hello")
    refused(cli, other)
    wheel = tmp_path / "broken-1.0-py3-none-any.whl"
    wheel.write_bytes((dist / "acme-1.0.0-py3-none-any.whl").read_bytes()[:3000])
    assert "is damaged or no wheel" in refused(cli, wheel)
    missing = cli(tmp_path, "inspect", "missing.tilec")
    assert missing.code == 1
    assert (
        "missing.tilec: no such file or directory\n  fix: name a .tilec bundle, a generated package (its directory"
        in missing.err
    )


def test_a_package_whose_bundle_was_changed(cli: Cli, dist: Path, tmp_path: Path) -> None:
    package = Path(shutil.copytree(dist / "acme", tmp_path / "acme"))
    (inner,) = package.glob("*.tilec")
    inner.write_bytes(inner.read_bytes()[:-100])
    done = cli(tmp_path, "inspect", "acme", "--verify")
    assert done.code == 1
    assert inner.name in done.err


@pytest.mark.parametrize("cc", [(8, 0), (12, 0)], ids=["older", "newer"])
@pytest.mark.parametrize("kernel", ["twice", "add"])
def test_no_image_for_this_gpu(bundle: bytes, cc: tuple[int, int], kernel: str) -> None:
    """Said at the first launch, before the driver is asked: the device, every candidate and its
    reason, and what to build for.
    """
    driver = FakeDriver((dataclasses.replace(H200, name="Fake GPU", cc=cc),))
    module = load(bundle, driver=driver)
    with pytest.raises(NoImageError) as caught:
        module.kernels[kernel](Array(256), Array(256, ptr=0x20000))
    dotted = f"{cc[0]}.{cc[1]}"
    first, candidate = caught.value.what.split("\n")
    assert first.startswith(f"{kernel}")
    assert f"no image runs on Fake GPU (compute capability {dotted}, driver of CUDA 13.0)" in first
    reason = (
        "a cubin runs on compute capability 9.0 and later 9.x only"
        if kernel == "twice"
        else "this cubin runs on compute capability 9.0 only"
    )
    assert candidate == f"  sm_90: {reason}, not on {dotted}"
    assert caught.value.fix == f"add sm_{cc[0]}{cc[1]} to [targets] and build again"
    assert driver.loads == []
