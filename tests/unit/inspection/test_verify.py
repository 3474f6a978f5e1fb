"""What differs between two builds, by what their files say of themselves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.bundle_samples import Sample
from tilec.inspection.verify import Finding, differences, lacking, read_given, with_request
from tilec.package.provenance import Origin, provenance_of
from tilec.package.sbom import sbom_of
from tilec.package.wheel import write_wheel
from tilec.package.write import write_bundle
from tilec_runtime.model.kernel import BundleInfo, ToolInfo

SAMPLE = Sample()
INFO = SAMPLE.info()
ORIGIN = Origin(
    manifest=("tilec.toml", "a" * 64),
    targets=("ci",),
    select=("add*",),
    emit=("bundle", "provenance"),
    settings={"add": {"opt": "3"}},
)


def wheel_of(folder: Path, info: BundleInfo) -> Path:
    bundle = folder / "x.tilec"
    write_bundle(bundle, info, SAMPLE.images.__getitem__)
    return write_wheel(
        folder,
        package=info.package,
        files={"acme_kernels/x.tilec": bundle},
        sbom=sbom_of(info),
    )


def bundle_of(folder: Path, info: BundleInfo) -> Path:
    write_bundle(folder / "x.tilec", info, SAMPLE.images.__getitem__)
    return folder / "x.tilec"


def sbom_file(folder: Path, info: BundleInfo) -> Path:
    (folder / "x.cdx.json").write_bytes(sbom_of(info))
    return folder / "x.cdx.json"


def provenance_file(folder: Path, info: BundleInfo) -> Path:
    (folder / "x.intoto.json").write_bytes(provenance_of(info, ORIGIN, {"x.tilec": "b" * 64}))
    return folder / "x.intoto.json"


WRITERS = (bundle_of, wheel_of, sbom_file, provenance_file)


def changed(**fields: object) -> BundleInfo:
    return dataclasses.replace(INFO, **fields)  # type: ignore[arg-type]


def compared(tmp_path: Path, write, other: BundleInfo) -> tuple[Finding, ...]:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    given, built = write(tmp_path / "a", INFO), write(tmp_path / "b", other)
    return differences(read_given(given), built, None)


@pytest.mark.parametrize("write", WRITERS)
def test_equal_files_differ_in_nothing(tmp_path: Path, write) -> None:
    assert compared(tmp_path, write, INFO) == ()


@pytest.mark.parametrize("write", WRITERS)
def test_another_tool_of_the_same_version_is_named(tmp_path: Path, write) -> None:
    first, *rest = INFO.toolchain
    other = ToolInfo(name=first.name, version=first.version, digest="7" * 64)
    (found,) = compared(tmp_path, write, changed(toolchain=(other, *rest)))
    assert found == Finding(
        kind="tool",
        name=first.name,
        given=f"{first.version} {first.digest}",
        built=f"{first.version} {'7' * 64}",
    )


@pytest.mark.parametrize("write", WRITERS)
def test_sources_and_options_are_named(tmp_path: Path, write) -> None:
    sources = (*INFO.sources[1:], ("kernels/new.cu", "1" * 64))
    found = compared(tmp_path, write, changed(sources=sources, profile="debug"))
    names = {(one.kind, one.name) for one in found}
    assert {("source", INFO.sources[0][0]), ("source", "kernels/new.cu")} <= names
    assert ("option", "profile") in names


def test_callers_are_told_what_they_notice(tmp_path: Path) -> None:
    found = compared(tmp_path, bundle_of, changed(kernels=INFO.kernels[:1]))
    gone = INFO.kernels[1].name
    assert Finding(kind="kernel", name=gone, given="", built="removed") in found
    assert {one.kind for one in found} == {"image", "kernel"}


def test_a_difference_that_nothing_explains_is_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    first = wheel_of(tmp_path, INFO)
    second = write_wheel(
        tmp_path / "b",
        package=INFO.package,
        files={"acme_kernels/x.tilec": tmp_path / "x.tilec", "acme_kernels/more.py": b""},
        sbom=sbom_of(INFO),
    )
    found = differences(read_given(first), second, None)
    assert ("file", "acme_kernels/more.py") in {(one.kind, one.name) for one in found}


def test_sources_of_a_checkout(tmp_path: Path) -> None:
    given = read_given(provenance_file(tmp_path, changed(sources=(("a.cu", "2" * 64),))))
    (missing,) = lacking(given, tmp_path)
    assert missing == Finding(kind="source", name="a.cu", given="2" * 64, built="")
    (tmp_path / "a.cu").write_text("other")
    (other,) = lacking(given, tmp_path)
    assert len(other.built) == 64


def test_a_provenance_says_what_was_asked_for(tmp_path: Path) -> None:
    _, rebuild = with_request(read_given(provenance_file(tmp_path, INFO)))
    assert (rebuild.targets, rebuild.select, rebuild.emit) == (("ci",), ("add*",), ORIGIN.emit)
    given, beside = with_request(read_given(sbom_file(tmp_path, INFO)))
    assert (beside.targets, beside.emit) == (("ci",), ("sbom", "provenance"))
    assert given.settings == {("option", "add: opt"): "3"}


def test_a_bundle_alone_shows_targets_and_profile(tmp_path: Path) -> None:
    given, rebuild = with_request(read_given(bundle_of(tmp_path, INFO)))
    assert sorted(rebuild.targets) == ["compute_80", "sm_80", "sm_90"]
    assert (rebuild.profile, rebuild.select, rebuild.emit) == (INFO.profile, (), ("bundle",))
    assert given.settings == {}
