from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from tests.bundle_samples import write_sample
from tilec.inspection import container
from tilec.inspection.container import describe, open_container
from tilec_runtime.errors import BundleError


def package(root: Path) -> Path:
    directory = root / "acme_kernels"
    directory.mkdir()
    (directory / "__init__.py").write_text("")
    write_sample(directory / "acme_kernels-0123.tilec")
    return directory


def wheel(root: Path, *names: str) -> Path:
    bundle = root / "b.tilec"
    write_sample(bundle)
    path = root / "acme_kernels-0.3.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("acme_kernels/__init__.py", "")
        for name in names:
            archive.write(bundle, name)
    return path


def test_a_wheel(tmp_path: Path) -> None:
    found = open_container(wheel(tmp_path, "acme_kernels/acme_kernels-0123.tilec"))
    report = describe(found)
    assert (report.kind, report.size) == ("wheel", (tmp_path / "b.tilec").stat().st_size)
    image = report.info.kernels[0].variants[0].images[0]
    assert len(found.bundle.image(image.digest)) == image.size


@pytest.mark.parametrize(
    ("names", "held"), [((), "no bundle"), (("x/a.tilec", "x/b.tilec"), "2 bundles")]
)
def test_other_wheels(tmp_path: Path, names: tuple[str, ...], held: str) -> None:
    path = wheel(tmp_path, *names)
    with pytest.raises(
        BundleError,
        match=re.escape(
            f"{path} holds {held}\n  cause: `tilec build --emit wheel` did not write this wheel"
        ),
    ):
        open_container(path)


def test_a_wheel_with_flipped_bits(tmp_path: Path) -> None:
    path = wheel(tmp_path, "acme_kernels/a.tilec")
    data = bytearray(path.read_bytes())
    data[5000] ^= 0x40
    path.write_bytes(data)
    with pytest.raises(BundleError, match=r"\.whl is damaged or no wheel: Bad CRC-32"):
        open_container(path)


def test_a_wheel_that_claims_too_much(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(container, "MAX_MEMBER", 1000)
    with pytest.raises(
        BundleError,
        match=r"its bundle claims \d+ bytes in \d+\n  cause: the wheel is damaged or hostile",
    ):
        open_container(wheel(tmp_path, "x/a.tilec"))


def test_directories_without_or_with_many(tmp_path: Path) -> None:
    with pytest.raises(
        BundleError,
        match=r"holds no \.tilec bundle\n  cause: the directory is no generated package",
    ):
        open_container(tmp_path)
    (tmp_path / ".tilec").mkdir()
    with pytest.raises(BundleError, match="holds no"):
        open_container(tmp_path)
    write_sample(tmp_path / "a.tilec")
    write_sample(tmp_path / "b.tilec")
    with pytest.raises(
        BundleError,
        match=re.escape(
            f"{tmp_path} holds 2 bundles: a.tilec, b.tilec\n  fix: name one of them, such as {tmp_path}/a.tilec"
        ),
    ):
        open_container(tmp_path)


def test_a_package_names_its_bundle_among_several(tmp_path: Path) -> None:
    write_sample(tmp_path / "a.tilec")
    (tmp_path / "b.tilec").write_text("left by a build that was killed")
    (tmp_path / "__init__.py").write_text('NAME = "a.tilec"\n')
    found = open_container(tmp_path)
    assert (found.kind, found.size) == ("package", (tmp_path / "a.tilec").stat().st_size)
    (tmp_path / "__init__.py").write_text("")
    with pytest.raises(BundleError, match="holds 2 bundles"):
        open_container(tmp_path)
