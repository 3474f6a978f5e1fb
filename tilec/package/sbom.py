"""CycloneDX SBOM of a bundle: tools, sources and images, with their digests.

Equal bundles give equal bytes: the SBOM contains no time, and its serial number is a digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from tilec.package.documents import SBOM, Document, seal
from tilec.package.wheel import license_expression
from tilec_runtime.model.kernel import BundleInfo, PackageInfo


def sbom_of(info: BundleInfo) -> bytes:
    """Return the SBOM of a bundle, from its index.

    The components are images, sources and tools. Sources and tools have the scope `excluded`: the
    build uses them, and the bundle does not contain them.
    """
    package = _package(info.package)
    images = list(_images(info))
    builder, _, version = info.builder.partition(" ")
    document: Document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": package,
            "properties": [{"name": "tilec:profile", "value": info.profile}],
            "tools": {"components": [{"type": "application", "name": builder, "version": version}]},
        },
        "components": [*images, *_inputs(info)],
        "dependencies": [
            {"ref": package["bom-ref"], "dependsOn": [image["bom-ref"] for image in images]}
        ],
    }
    return seal(document, SBOM)


def _package(package: PackageInfo) -> Document:
    name = package.name.lower().replace("_", "-")
    purl = f"pkg:pypi/{name}@{quote(package.version)}"
    row: Document = {
        "type": "library",
        "bom-ref": purl,
        "purl": purl,
        "name": package.name,
        "version": package.version,
    }
    if package.description:
        row["description"] = package.description
    if expression := license_expression(package):
        row["licenses"] = [{"expression": expression}]
    elif package.license:
        row["licenses"] = [{"license": {"name": package.license}}]
    return row


def _images(info: BundleInfo) -> Iterator[Document]:
    """Yield the images, each once, with the jobs that produced it."""
    jobs: dict[str, list[str]] = {}
    for kernel in info.kernels:
        for variant in kernel.variants:
            for image in variant.images:
                jobs.setdefault(image.digest, []).append(f"{variant.id}-{image.target}")
    for digest, names in jobs.items():
        properties = [{"name": "tilec:job", "value": name} for name in names]
        yield {**_component("image", names[0], digest), "properties": properties}


def _inputs(info: BundleInfo) -> Iterator[Document]:
    """Yield the sources and tools of the build."""
    for name, digest in info.sources:
        yield {**_component("source", name, digest), "scope": "excluded"}
    for tool in info.toolchain:
        row = _component("tool", tool.name, tool.digest)
        yield {**row, "type": "application", "version": tool.version, "scope": "excluded"}


def _component(kind: str, name: str, digest: str) -> Document:
    hashes = [{"alg": "SHA-256", "content": digest}]
    return {"type": "file", "bom-ref": f"{kind}:{name}", "name": name, "hashes": hashes}
