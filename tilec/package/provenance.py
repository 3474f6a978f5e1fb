"""Provenance of a build: an in-toto statement with SLSA's predicate, version 1.

The provenance names the request, every tool and source with its digest, and the outputs. It
contains no time, machine or user: equal builds give equal bytes. tilec does not sign it; CI does.
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
    """The request of a build, as far as the bundle does not contain it.

    Attributes:
        manifest: name and SHA-256 (hex) of the manifest's file.
        targets: targets of the request.
        select: kernels that the request selects.
        emit: kinds of outputs that the request names.
        settings: the part of the cache keys that all jobs of a kernel share, without tools and
            files, by kernel and label.
    """

    manifest: tuple[str, str]
    targets: tuple[str, ...]
    select: tuple[str, ...]
    emit: tuple[str, ...]
    settings: Mapping[str, Mapping[str, str]]


def provenance_of(info: BundleInfo, origin: Origin, subjects: Mapping[str, str]) -> bytes:
    """Return the provenance of files; `subjects` holds their SHA-256 (hex) by name."""
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
