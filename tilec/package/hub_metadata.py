"""`metadata.json` of a package for `kernels`: name, architectures, digests."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping

from packaging.version import Version

from tilec.package.documents import Document
from tilec_runtime.errors import OutputError
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.digest import canonical_json, sha256
from tilec_runtime.model.kernel import BundleInfo

VARIANT = "torch-cuda"
METADATA = "metadata.json"
_NAME = re.compile(r"[a-z][-a-z0-9]*[a-z0-9]")


def metadata(info: BundleInfo, files: Mapping[str, bytes]) -> bytes:
    """Return `metadata.json`: name, architectures, digests of the other files.

    The id is a digest of the rest of the document, like the seal of an SBOM.
    """
    digests = {
        file: base64.b64encode(hashlib.sha256(data).digest()).decode()
        for file, data in files.items()
    }
    document: Document = {
        "name": hub_name(info),
        "version": Version(info.package.version).major,
        "license": info.package.license or "unknown",
        "python-depends": [],
        "backend": {"type": "cuda", "archs": list(_archs(info))},
        "digest": {"algorithm": "sha256", "files": digests},
    }
    return _sealed(document)


def hub_name(info: BundleInfo) -> str:
    """Return the package's name in the form that `kernels` accepts.

    Raises:
        OutputError: the name has no such form.
    """
    name = re.sub(r"[-_.]+", "-", info.package.name).lower()
    if not _NAME.fullmatch(name):
        raise OutputError(
            f"package {info.package.name!r} has no name for the Hugging Face hub",
            cause="names there are two or more of a-z, 0-9 and '-', and begin with a letter",
            fix="rename the package, or leave hub out of --emit",
        )
    return name


def _archs(info: BundleInfo) -> Iterator[str]:
    """Yield the architectures for which every kernel has machine code.

    The names are those of `kernels`.
    """
    rows: list[dict[str, tuple[int, int]]] = []
    for kernel in info.kernels:
        images = [image for variant in kernel.variants for image in variant.images]
        rows.append(
            {
                _arch(image.target.cc, image.target.suffix or ("a" if image.exact else "")): (
                    image.target.cc
                )
                for image in images
                if image.target.kind is TargetKind.CUBIN
            }
        )
    common = set.intersection(*map(set, rows)) if rows else set()
    yield from sorted(common, key=lambda arch: (rows[0][arch], arch))


def _arch(cc: tuple[int, int], suffix: str) -> str:
    return f"{cc[0]}.{cc[1]}{suffix}"


def _sealed(document: Document) -> bytes:
    name = str(document["name"]).replace("-", "_")
    identity = f"_{name}_cuda_{sha256(canonical_json(document))[:16]}"
    return json.dumps({"id": identity, **document}, indent=2, sort_keys=True).encode() + b"\n"
