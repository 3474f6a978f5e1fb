"""A provenance of a build: an in-toto statement with SLSA's predicate, version 1.

It names what was asked for, every tool and source with its digest, and what came out. It has no
time, machine or user, so that equal builds give equal bytes. Nothing signs it here: CI does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tilec.package.documents import PROVENANCE, Document, seal
from tilec_runtime.model.kernel import BundleInfo

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://pypi.org/project/tilec/#build-v1"
BUILDER = "https://pypi.org/project/tilec/"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What a build was asked for, beside what its bundle says.

    Attributes:
        manifest: (name, SHA-256 in hex) of the manifest's file.
        targets, select, emit: as in a build's request.
        settings: what the cache keys of all jobs of a kernel have in common, by kernel and label,
            but for tools and files.
    """

    manifest: tuple[str, str]
    targets: tuple[str, ...]
    select: tuple[str, ...]
    emit: tuple[str, ...]
    settings: Mapping[str, Mapping[str, str]]


def provenance_of(info: BundleInfo, origin: Origin, subjects: Mapping[str, str]) -> bytes:
    """Return the provenance of files, given by name with their SHA-256 (hex)."""
    builder, _, version = info.builder.partition(" ")
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {
            "package": info.package.name,
            "version": info.package.version,
            "manifest": origin.manifest[0],
            "profile": info.profile,
            "targets": list(origin.targets),
            "select": list(origin.select),
            "emit": list(origin.emit),
        },
        "internalParameters": {"settings": origin.settings},
        "resolvedDependencies": list(_dependencies(info, origin)),
    }
    run = {
        "builder": {"id": BUILDER, "version": {builder: version}},
        "metadata": {"invocationId": ""},
    }
    statement = {
        "_type": STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": digest}}
            for name, digest in sorted(subjects.items())
        ],
        "predicateType": PREDICATE,
        "predicate": {"buildDefinition": definition, "runDetails": run},
    }
    return seal(statement, PROVENANCE)


def _dependencies(info: BundleInfo, origin: Origin) -> Iterator[Document]:
    for name, digest in sorted({*info.sources, origin.manifest}):
        yield {"name": name, "digest": {"sha256": digest}, "annotations": {"kind": "source"}}
    for tool in info.toolchain:
        yield {
            "name": tool.name,
            "digest": {"sha256": tool.digest},
            "annotations": {"kind": "tool", "version": tool.version},
        }
