"""Writing and reading bundles: equal bytes, nothing half-written, and nothing damaged that goes
unnoticed.
"""

from __future__ import annotations

import dataclasses
import os
import zipfile
from pathlib import Path

import pytest

from tests.bundle_samples import Sample, names_in, write_sample
from tilec.package.write import write_bundle
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError, OutputError


def test_same_input_same_bytes(tmp_path: Path) -> None:
    _, _, first = write_sample(tmp_path / "a.tilec")
    _, _, second = write_sample(tmp_path / "sub" / "b.tilec")
    assert first == second
    assert (tmp_path / "a.tilec").read_bytes() == (tmp_path / "sub" / "b.tilec").read_bytes()
    assert str(tmp_path).encode() not in (tmp_path / "a.tilec").read_bytes()


def test_equal_images_are_read_and_stored_once(tmp_path: Path) -> None:
    sample = Sample()
    info = sample.info()
    first = info.kernels[0].variants[0]
    twins = (first, dataclasses.replace(first, id="add-twin"))
    kernel = dataclasses.replace(info.kernels[0], variants=twins)
    read: list[str] = []
    write_bundle(
        tmp_path / "a.tilec",
        dataclasses.replace(info, kernels=(kernel,)),
        lambda digest: read.append(digest) or sample.images[digest],  # type: ignore[func-returns-value]
    )
    assert read == sorted({image.digest for image in first.images})
    assert len(zipfile.ZipFile(tmp_path / "a.tilec").namelist()) == 5


def test_max_size_names_the_largest_kernels(tmp_path: Path) -> None:
    sample = Sample()
    path = tmp_path / "a.tilec"
    path.write_bytes(b"old")
    with pytest.raises(OutputError) as caught:
        write_bundle(path, sample.info(), sample.images.__getitem__, max_size=20_000)
    first, *rest = caught.value.what.splitlines()
    assert first.startswith("a.tilec would have ")
    assert first.endswith("KiB, more than max-size = 19.5 KiB; the largest kernels:")
    assert sorted(line.split(":")[0].strip() for line in rest) == ["add", "rmsnorm"]
    assert all("(4 variants, 12 images)" in line for line in rest)
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["a.tilec"]


def test_refuses_more_members_than_the_format_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilec.package.archive.MAX_MEMBERS", 3)
    with pytest.raises(OutputError, match=r"cannot write .*a\.tilec: more than .* or 3 members"):
        write_sample(tmp_path / "a.tilec")
    assert names_in(tmp_path) == []


def test_what_is_no_file_is_no_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (
        ("none.tilec", "No such file or directory"),
        ("", "not a regular file"),
        ("pipe", "not a regular file"),
    ):
        with pytest.raises(BundleError, match=f"cannot read the bundle .*{reason}") as caught:
            Bundle.open(tmp_path / name)
        assert "tilec build" in caught.value.fix


def test_an_open_bundle_outlives_its_replacement(tmp_path: Path) -> None:
    path = tmp_path / "a.tilec"
    sample, _, digest = write_sample(path)
    bundle = Bundle.open(path)
    other = dataclasses.replace(sample.info(), builder="other")
    assert write_bundle(path, other, sample.images.__getitem__) != digest
    bundle.verify()
    assert bundle.digest == digest
