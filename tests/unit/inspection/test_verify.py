"""What differs between two builds, by what their files say of themselves."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bundle_samples import Sample
from tilec.inspection.verify import (
    Finding,
    differences,
    lacking,
    read_given,
    with_request,
)
from tilec.package.documents import seal, suffix_of
from tilec.package.provenance import Origin, provenance_of
from tilec.package.sbom import sbom_of
from tilec.package.split import base_of, providers_of, shipped_of
from tilec.package.wheel import write_wheel
from tilec.package.write import Portion, write_bundle
from tilec_runtime.bundle.parts import PART_NAME
from tilec_runtime.errors import BundleError, UsageError
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


# --- Files that others wrote


def forged(path: Path, change: Callable[[Any], object]) -> Path:
    """Change a document and seal it again, as anyone can."""
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes(seal(document, suffix_of(path.name)))
    return path


def definition(document: Any) -> Any:
    return document["predicate"]["buildDefinition"]


@pytest.mark.parametrize(
    ("write", "change"),
    [
        (provenance_file, lambda d: definition(d)["externalParameters"].pop("targets")),
        (provenance_file, lambda d: definition(d)["externalParameters"].update(select=3)),
        (provenance_file, lambda d: definition(d)["internalParameters"].update(settings=[1])),
        (provenance_file, lambda d: d["subject"][0].pop("digest")),
        (provenance_file, lambda d: definition(d)["resolvedDependencies"][0].update(name=[])),
        (provenance_file, lambda d: d.update(subject=3)),
        (provenance_file, lambda d: d["subject"][0]["digest"].update(sha256=1)),
        (provenance_file, lambda d: definition(d)["externalParameters"].update(targets=[1])),
        (sbom_file, lambda d: d["components"][0].update(hashes=[])),
        (sbom_file, lambda d: d.update(metadata=[])),
    ],
)
def test_a_document_that_lacks_a_field_is_refused(
    tmp_path: Path, write: Callable[..., Path], change: Callable[[Any], object]
) -> None:
    path = forged(write(tmp_path, INFO), change)
    with pytest.raises(BundleError, match="lacks a field that tilec writes"):
        with_request(read_given(path))


def test_a_provenance_beside_a_file_that_lacks_a_field_is_passed_over(tmp_path: Path) -> None:
    forged(provenance_file(tmp_path, INFO), lambda d: d["subject"][0].pop("digest"))
    _, rebuild = with_request(read_given(bundle_of(tmp_path, INFO)))
    assert rebuild.emit == ("bundle",)


def test_a_subject_is_looked_for_beside_its_provenance_alone(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("secret")
    (tmp_path / "dist").mkdir()

    def change(document: Any) -> None:
        document["subject"] = [{"name": "../other", "digest": {"sha256": "1" * 64}}]

    given = read_given(forged(provenance_file(tmp_path / "dist", changed(sources=())), change))
    assert list(lacking(given, tmp_path)) == []


def test_a_document_of_countless_values_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.intoto.json"
    path.write_bytes(b"[" + b"[]," * 2_000_000 + b"[]]")
    with pytest.raises(BundleError, match="more than 1000000 values"):
        read_given(path)


def test_a_wheel_with_a_damaged_member_is_refused(tmp_path: Path) -> None:
    path = wheel_of(tmp_path, INFO)
    with zipfile.ZipFile(path) as wheel:
        member = wheel.getinfo(next(n for n in wheel.namelist() if n.endswith("METADATA")))
    data = bytearray(path.read_bytes())
    start = member.header_offset + 30 + len(member.filename)
    data[start : start + member.compress_size] = b"\xff" * member.compress_size
    path.write_bytes(data)
    with pytest.raises(BundleError, match=r"cannot be read|is damaged"):
        read_given(path)


# --- Wheels of a split package


def split_wheels(folder: Path) -> tuple[Path, Path]:
    """Write the small wheel and that of one capability; no provenance lies beside them."""
    providers = providers_of(INFO)
    cc, provider = next(iter(providers.items()))
    wheels = []
    for portion, package, file in (
        (base_of(providers), INFO.package, "x.tilec"),
        (Portion(machine_code=cc), provider, PART_NAME),
    ):
        write_bundle(folder / file, INFO, SAMPLE.images.__getitem__, portion=portion)
        shipped = dataclasses.replace(shipped_of(INFO, portion), package=package)
        files = {f"{package.module}/{file}": folder / file}
        wheels.append(write_wheel(folder, package=package, files=files, sbom=sbom_of(shipped)))
    return wheels[0], wheels[1]


def test_the_small_wheel_of_a_split_package_shows_all_targets(tmp_path: Path) -> None:
    small, _ = split_wheels(tmp_path)
    _, rebuild = with_request(read_given(small))
    assert sorted(rebuild.targets) == ["compute_80", "sm_80", "sm_90"]


def test_a_wheel_of_machine_code_alone_asks_for_the_targets(tmp_path: Path) -> None:
    _, provider = split_wheels(tmp_path)
    with pytest.raises(UsageError, match="holds one part of a split package") as caught:
        with_request(read_given(provider))
    assert "--targets" in caught.value.fix
    assert with_request(read_given(provider), ("sm_80", "sm_90"))[1].targets == ("sm_80", "sm_90")
