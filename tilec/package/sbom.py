"""CycloneDX SBOM of a bundle: tools, sources and images, with their digests.

Equal bundles give equal bytes: the SBOM contains no time, and its serial number is a digest.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from tilec.package.documents import SBOM, seal
from tilec.package.wheel import license_expression
from tilec_runtime.model.kernel import BundleInfo, PackageInfo


def sbom_of(info: BundleInfo) -> bytes:
    """Return the SBOM of a bundle, from its index.

    The components are images, sources and tools. Sources and tools have the scope `excluded`: the
    build uses them, and the bundle does not contain them.
    """
    package = _package(info.package)
    images = list(_images(info))
    name, _, version = info.builder.partition(" ")
    builder = Component(
        name=name, version=version, type=ComponentType.APPLICATION, bom_ref=info.builder
    )
    profile = Property(name="tilec:profile", value=info.profile)
    about = BomMetaData(
        component=package, tools=ToolRepository(components=(builder,)), properties=[profile]
    )
    bom = Bom(
        components=(*images, *_sources(info), *_tools(info)),
        metadata=about,
        serial_number=uuid.UUID(int=0),  # `seal` replaces it
    )
    bom.register_dependency(package, images)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["metadata"]["timestamp"]
    return seal(document, SBOM)


def _package(package: PackageInfo) -> Component:
    purl = PackageURL("pypi", name=package.name, version=package.version)
    licences: list[LicenseExpression | DisjunctiveLicense] = []
    if expression := license_expression(package):
        licences = [LicenseExpression(expression)]
    elif package.license:
        licences = [DisjunctiveLicense(name=package.license)]
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=purl.to_string(),
        purl=purl,
        description=package.description or None,
        licenses=licences,
    )


def _images(info: BundleInfo) -> Iterator[Component]:
    """Yield the images, each once, with the jobs that produced it."""
    jobs: dict[str, list[str]] = {}
    for kernel in info.kernels:
        for variant in kernel.variants:
            for image in variant.images:
                jobs.setdefault(image.digest, []).append(f"{variant.id}-{image.target}")
    for digest, names in jobs.items():
        yield Component(
            name=names[0],
            type=ComponentType.FILE,
            bom_ref=f"image:{names[0]}",
            hashes=(_hash(digest),),
            properties=[Property(name="tilec:job", value=name) for name in names],
        )


def _sources(info: BundleInfo) -> Iterator[Component]:
    for name, digest in info.sources:
        yield Component(
            name=name,
            type=ComponentType.FILE,
            bom_ref=f"source:{name}",
            hashes=(_hash(digest),),
            scope=ComponentScope.EXCLUDED,
        )


def _tools(info: BundleInfo) -> Iterator[Component]:
    for tool in info.toolchain:
        yield Component(
            name=tool.name,
            version=tool.version,
            type=ComponentType.APPLICATION,
            bom_ref=f"tool:{tool.name}",
            hashes=(_hash(tool.digest),),
            scope=ComponentScope.EXCLUDED,
        )


def _hash(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)
