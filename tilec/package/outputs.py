"""Outputs of a build: files, digest of their inputs, and cache record."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from tilec import __version__
from tilec.compile import own
from tilec.compile.cache import Cache
from tilec.manifest.types import Manifest
from tilec.model.digest import file_digest
from tilec.model.inside import contained
from tilec_runtime.bundle.format import index_members
from tilec_runtime.model.digest import canonical_json
from tilec_runtime.model.kernel import BundleInfo

_VERSION = 2


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """A file that a build wrote, or found up to date.

    Attributes:
        kind: name of the kind of output in `--emit`.
        path: absolute path.
        size: size in bytes.
        digest: SHA-256 of the bytes (hex).
        changed: whether this build wrote the file.
    """

    kind: str
    path: str
    size: int
    digest: str
    changed: bool = True


def fingerprint(
    keys: Sequence[str],
    draft: BundleInfo,
    emit: Sequence[str],
    manifest: Manifest,
    origin: Sequence[object] = (),
) -> str:
    """Return the digest of everything that a build's outputs depend on.

    Args:
        keys: cache keys of the jobs, in order.
        draft: index of the bundle without variants.
        emit: kinds of outputs to write.
        manifest: manifest with output directory, licence files and budgets.
        origin: the request, if a provenance is among the outputs.
    """
    digest = hashlib.sha256()
    for key in keys:
        digest.update(key.encode())
    licences = [
        [name, file_digest(contained(manifest.root, name))]
        for name in manifest.package.license_files
    ]
    budgets = [dataclasses.astuple(kernel.budget) for kernel in manifest.kernels]
    output = dataclasses.astuple(dataclasses.replace(manifest.output, emit=()))
    state = [_VERSION, __version__, own.digest(), list(emit), output, licences, budgets, [*origin]]
    digest.update(canonical_json(state))
    for member in index_members(draft).values():
        digest.update(member)
    return digest.hexdigest()


def place_of(manifest: Manifest, *parts: str) -> Path:
    """Return the path of an output, by its parts below the output directory.

    Raises:
        LinkError: a link in the path leaves the project.
    """
    return contained(manifest.root, Path(manifest.output.dir, *parts))


def save_outputs(cache: Cache, fingerprint: str, root: Path, outputs: Iterable[Output]) -> None:
    """Record the files of a build in the cache, by their paths in the project."""
    rows = [
        [output.kind, Path(output.path).relative_to(root).as_posix(), output.size, output.digest]
        for output in outputs
    ]
    cache.put_record(_key(fingerprint), rows)


def unchanged_outputs(cache: Cache, fingerprint: str, root: Path) -> tuple[Output, ...] | None:
    """Return the outputs of a fingerprint, or None if a file is missing or changed."""
    rows = cache.get_record(_key(fingerprint))
    outputs = []
    try:
        for kind, name, size, digest in rows or ():
            path = contained(root, name)
            if path.is_symlink() or file_digest(path) != digest:
                return None
            outputs.append(
                Output(kind=kind, path=str(path), size=size, digest=digest, changed=False)
            )
    except (OSError, TypeError, ValueError):
        return None
    return tuple(outputs) or None


def _key(fingerprint: str) -> str:
    return f"outputs {fingerprint}"
