"""JSON documents about a build, an SBOM or a provenance, each with a seal.

The seal is stored in the field for the document's unique id. It is a digest of the rest of the
document: equal builds give equal bytes, and a changed document is detected.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilec_runtime.errors import BundleError
from tilec_runtime.model.digest import canonical_json, sha256

SBOM = ".cdx.json"
PROVENANCE = ".intoto.json"
# Path of the seal in a document, by the suffix of the file.
_SEALS = {
    SBOM: ("serialNumber",),
    PROVENANCE: ("predicate", "runDetails", "metadata", "invocationId"),
}
KINDS = {SBOM: "sbom", PROVENANCE: "provenance"}
MOST = 64 << 20  # bytes
_MOST_VALUES = 1_000_000  # arrays, objects and items; about 10,000 for 400 images

Document = dict[str, Any]
"""JSON object: a whole document, or a part of it."""

Materials = Mapping[tuple[str, str], str]
"""Inputs of a build (`tool`, `source`, `image`, `option`) and its outputs (`subject`), from a
document, by kind and name."""


def suffix_of(name: str) -> str:
    """Return the suffix of a document's file name, or an empty string."""
    return next((suffix for suffix in _SEALS if name.endswith(suffix)), "")


def seal(document: Document, suffix: str) -> bytes:
    """Return the text of a document with its seal.

    A seal that the document already has is replaced.
    """
    *way, last = _SEALS[suffix]
    inner = document
    for key in way:
        inner = inner[key]
    inner[last] = ""
    inner[last] = f"urn:uuid:{uuid.UUID(hex=sha256(canonical_json(document))[:32], version=5)}"
    return json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"


def read_document(path: Path) -> Document:
    """Read a document that `tilec build` wrote.

    Raises:
        BundleError: the file cannot be read, or was changed since.
    """
    try:
        if path.stat().st_size > MOST:
            raise BundleError(f"{path} has more than {MOST} bytes", cause="it is none of tilec's")
        data = path.read_bytes()
    except OSError as exc:
        raise BundleError(f"{path}: cannot be read: {exc.strerror}", fix="check the path") from exc
    return parsed(data, path.name)


def parsed(data: bytes, name: str) -> Document:
    """Parse the bytes of a document.

    Args:
        data: bytes of the document.
        name: file name of the document.

    Raises:
        BundleError: the data is not a document, or does not match its seal.
    """
    suffix = suffix_of(name)
    if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:  # before parsing takes memory
        raise BundleError(
            f"{name} has more than {_MOST_VALUES} values", cause="it is none of tilec's"
        )
    try:
        document: Document = json.loads(data)
        sound = seal(document, suffix) == data
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise BundleError(
            f"{name} is no {KINDS.get(suffix, 'document')} that `tilec build` wrote",
            cause=f"{exc}" if isinstance(exc, ValueError) else "a field is missing",
        ) from exc
    if not sound:
        raise BundleError(
            f"{name} was changed since `tilec build` wrote it: its id is of another text",
            cause="it was edited or reformatted, or is of another tool",
            fix="fetch it again, or build it again",
        )
    return document


def materials(document: Document) -> Materials:
    """Return the inputs and outputs of a build, from a document.

    Raises:
        BundleError: a field is missing, or has another type.
    """
    try:
        digests = dict((_of_sbom if "bomFormat" in document else _of_provenance)(document))
    except (LookupError, TypeError, ValueError, AttributeError) as exc:
        raise BundleError("the document lacks a field that tilec writes") from exc
    if not all(isinstance(text, str) for key, value in digests.items() for text in (*key, value)):
        raise BundleError("the document lacks a field that tilec writes", cause="it is no text")
    return digests


def _of_sbom(document: Document) -> Iterator[tuple[tuple[str, str], str]]:
    for row in document["components"]:
        yield from _component(row)
    for row in document["metadata"]["properties"]:
        yield ("option", row["name"].partition(":")[2]), row["value"]


def _of_provenance(document: Document) -> Iterator[tuple[tuple[str, str], str]]:
    definition = document["predicate"]["buildDefinition"]
    yield from map(_dependency, definition["resolvedDependencies"])
    for row in document["subject"]:
        yield ("subject", row["name"]), row["digest"]["sha256"]
    for kernel, rows in definition["internalParameters"]["settings"].items():
        for label, value in rows.items():
            yield ("option", f"{kernel}: {label}"), str(value)
    for name, value in definition["externalParameters"].items():
        yield ("option", name), ", ".join(value) if isinstance(value, list) else str(value)


def _component(row: Document) -> Iterator[tuple[tuple[str, str], str]]:
    kind, _, name = row["bom-ref"].partition(":")
    digest = row["hashes"][0]["content"]
    if kind == "image":
        yield from (((kind, job["value"]), digest) for job in row["properties"])
    else:
        yield (kind, name), f"{row['version']} {digest}" if kind == "tool" else digest


def _dependency(row: Document) -> tuple[tuple[str, str], str]:
    kind, digest = row["annotations"]["kind"], row["digest"]["sha256"]
    version = row["annotations"].get("version", "")
    return (kind, row["name"]), f"{version} {digest}".strip()
