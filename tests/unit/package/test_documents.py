"""SBOM and provenance: what they hold, equal bytes for equal builds, and seals that are broken."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.bundle_samples import Sample
from tilec.package.documents import (
    PROVENANCE,
    SBOM,
    materials,
    parsed,
    read_document,
    suffix_of,
)
from tilec.package.provenance import Origin, provenance_of
from tilec.package.sbom import sbom_of
from tilec_runtime.errors import BundleError

INFO = Sample().info()
ORIGIN = Origin(
    manifest=("tilec.toml", "a" * 64),
    targets=("sm_90",),
    select=(),
    emit=("bundle", "provenance"),
    settings={"add": {"opt": "3", "source": "kernels/add.cu"}},
)
SUBJECTS = {"acme-kernels-0.3.0.tilec": "b" * 64}


def written(suffix: str) -> bytes:
    return sbom_of(INFO) if suffix == SBOM else provenance_of(INFO, ORIGIN, SUBJECTS)


def test_the_sbom_follows_the_schema() -> None:
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom_of(INFO).decode())
    assert error is None


def test_the_sbom_names_tools_sources_and_images_with_their_digests() -> None:
    found = materials(parsed(sbom_of(INFO), f"x{SBOM}"))
    images = {
        ("image", f"{variant.id}-{image.target}"): image.digest
        for kernel in INFO.kernels
        for variant in kernel.variants
        for image in variant.images
    }
    tools = {("tool", tool.name): f"{tool.version} {tool.digest}" for tool in INFO.toolchain}
    sources = {("source", name): digest for name, digest in INFO.sources}
    assert found == {**images, **tools, **sources, ("option", "profile"): INFO.profile}
    assert images
    assert tools
    assert sources


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("apache-2.0", [{"expression": "Apache-2.0"}]),
        ("Ask our lawyers", [{"license": {"name": "Ask our lawyers"}}]),
        ("", None),
    ],
)
def test_the_licence_of_the_package(text: str, licence: object) -> None:
    info = dataclasses.replace(INFO, package=dataclasses.replace(INFO.package, license=text))
    document = json.loads(sbom_of(info))
    found = document["metadata"]["component"].get("licenses")
    if found:
        found[0].pop("acknowledgement", None)
    assert found == licence


def test_the_provenance_is_a_statement_of_slsa() -> None:
    statement = json.loads(provenance_of(INFO, ORIGIN, SUBJECTS))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    name = "acme-kernels-0.3.0.tilec"
    assert statement["subject"] == [{"name": name, "digest": {"sha256": "b" * 64}}]
    definition = statement["predicate"]["buildDefinition"]
    assert {"buildType", "externalParameters", "resolvedDependencies"} <= set(definition)
    assert statement["predicate"]["runDetails"]["builder"]["id"].startswith("https://")
    found = materials(statement)
    assert found["source", "tilec.toml"] == "a" * 64
    assert found["option", "add: opt"] == "3"
    assert found["option", "targets"] == "sm_90"
    assert found["subject", name] == "b" * 64
    for tool in INFO.toolchain:
        assert found["tool", tool.name] == f"{tool.version} {tool.digest}"


@pytest.mark.parametrize("suffix", [SBOM, PROVENANCE])
def test_equal_builds_give_equal_bytes(suffix: str, tmp_path: Path) -> None:
    assert written(suffix) == written(suffix)
    path = tmp_path / f"x{suffix}"
    path.write_bytes(written(suffix))
    assert suffix_of(path.name) == suffix
    assert read_document(path)["specVersion" if suffix == SBOM else "_type"]


@pytest.mark.parametrize("suffix", [SBOM, PROVENANCE])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b"acme", b"evil"),
        lambda data: data[:-1],
        lambda data: json.dumps(json.loads(data)).encode(),
        lambda data: b"[]",
        lambda data: b"{}",
        lambda data: b"\xff\xfe",
        lambda data: b"[" * 100_000,
    ],
)
def test_a_document_that_was_changed_is_refused(suffix: str, damage, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(damage(written(suffix)))
    with pytest.raises(BundleError, match=f"x{suffix}"):
        read_document(path)
