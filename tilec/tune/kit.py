"""Kits: one file with all candidates of a tuning, for measuring without compiler and project."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilec.frontends.base import SUFFIXES
from tilec.manifest.load import load
from tilec.manifest.types import Kernel
from tilec.model.atomic import atomic_write
from tilec.tune.candidates import CompiledPoint, KernelFacts, sizes_of
from tilec.tune.cases import Prepared, cases_of
from tilec.tune.space import Point, point_of, space_of
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError, ManifestError, OutputError, TilecError, UsageError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import KernelInfo, ToolInfo, VariantInfo

VERSION = 1
SUFFIX = ".tune"
_INDEX, _MANIFEST, _BUNDLE = "kit.json", "tilec.toml", "candidates.tilec"
# Most bytes of one member: results of references may be large; a kit is unpacked to disk.
_MOST = 64 << 30
_DIGEST = "[0-9a-f]{64}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Kit:
    """The contents of a kit.

    Attributes:
        facts: of the kernel.
        kernel: its table of the manifest.
        prepared: the cases, in the order of the manifest.
        candidates: all of them, in the kit's bundle or with its compile failure.
    """

    facts: KernelFacts
    kernel: Kernel
    prepared: tuple[Prepared, ...]
    candidates: Mapping[Point, CompiledPoint]

    def make(self, points: Sequence[Point]) -> Mapping[Point, CompiledPoint]:
        """Return the outcome for these points, as `Candidates`."""
        return {point: self.candidates[point] for point in points}


def write_kit(
    path: Path,
    facts: KernelFacts,
    manifest: Path,
    prepared: Sequence[Prepared],
    candidates: Mapping[Point, CompiledPoint],
) -> None:
    """Write a kit, whole or not at all.

    Args:
        path: the file.
        facts: of the kernel.
        manifest: the project's tilec.toml, with the cases.
        prepared: cases with their references' results.
        candidates: all of them; those that compiled are in one bundle.

    Raises:
        OutputError: it cannot be written.
        UsageError: no candidate compiled.
    """
    bundles = {candidate.bundle for candidate in candidates.values() if candidate.bundle}
    if len(bundles) != 1:
        first = next(
            (candidate.failure for candidate in candidates.values() if candidate.failure), ""
        )
        raise UsageError(
            f"no candidate of {facts.info.name} compiles for {facts.target}: {first}",
            fix="`tilec build` says more",
        )
    index = {
        "kit": VERSION,
        "kernel": facts.info.name,
        "kernel_digest": facts.kernel_digest,
        "space_digest": facts.space_digest,
        "target": facts.target,
        "toolchain": [
            {"name": tool.name, "version": tool.version, "digest": tool.digest}
            for tool in facts.toolchain
        ],
        "candidates": [
            {"point": dict(point), "failure": candidate.failure}
            for point, candidate in candidates.items()
        ],
        "cases": [
            {
                "name": p.space.case.name,
                "at": list(p.at),
                "expected": Path(p.expected).name if p.expected else "",
            }
            for p in prepared
        ],
    }
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_INDEX, json.dumps(index, indent=1))
        archive.write(manifest, _MANIFEST)
        archive.write(next(iter(bundles)), _BUNDLE)
        for one in prepared:
            if one.expected:
                archive.write(one.expected, f"expected/{Path(one.expected).name}")


def require_kit(path: Path) -> None:
    """Reject a file that is no zip archive, before anything is prepared for it.

    Raises:
        UsageError: there is no such file, or it is no archive.
    """
    try:
        zipfile.ZipFile(path).close()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise _refusal(path, error) from error


def read_kit(path: Path, folder: Path) -> Kit:
    """Unpack a kit.

    Args:
        path: the file.
        folder: to unpack to; the kit uses it.

    Raises:
        UsageError: it is no kit, is damaged, or has another version.
        OutputError: it cannot be unpacked there.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            index = json.loads(archive.read(_INDEX))
            if not isinstance(index, dict) or index.get("kit") != VERSION:
                version = index.get("kit") if isinstance(index, dict) else index
                raise _refusal(
                    path, f"version {version!r} of kits: this tilec reads version {VERSION}"
                )
            _unpack(path, archive, folder)
        return _kit(index, folder)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES) and os.access(
            path, os.R_OK
        ):
            message = f"{path} cannot be unpacked to {folder}: {error.strerror}"
            raise OutputError(
                message, fix="make room there, or copy the kit to where there is room"
            ) from error
        raise _refusal(path, error) from error
    # RuntimeError and NotImplementedError: flipped bits claim that a member is encrypted, or packed
    # with an unknown method.
    except (
        zipfile.BadZipFile,
        zlib.error,
        ValueError,
        LookupError,
        TypeError,
        EOFError,
        AttributeError,
        RuntimeError,
    ) as error:
        raise _refusal(path, error) from error
    except (BundleError, ManifestError) as error:
        raise _refusal(path, error.what) from error


def _unpack(path: Path, archive: zipfile.ZipFile, folder: Path) -> None:
    for member in archive.infolist():
        parts = member.filename.split("/")
        plain = member.filename in (_INDEX, _MANIFEST, _BUNDLE) or (
            len(parts) == 2 and parts[0] == "expected" and parts[1].endswith(".npz")
        )
        if not plain or ".." in parts or "\\" in member.filename or member.file_size > _MOST:
            raise _refusal(path, f"it holds {member.filename!r}, which belongs to no kit")
    archive.extractall(folder)


def _kit(index: Mapping[str, Any], folder: Path) -> Kit:
    manifest = load(folder / _MANIFEST, languages=SUFFIXES)
    name = index["kernel"]
    kernel = {kernel.name: kernel for kernel in manifest.kernels}[name]
    built = Bundle.open(folder / _BUNDLE).kernel(name)
    candidates = _candidates(index["candidates"], built, str(folder / _BUNDLE))
    failed = tuple(
        VariantInfo(id="", axes=point)
        for point, candidate in candidates.items()
        if candidate.failure
    )
    info = dataclasses.replace(built, variants=(*built.variants, *failed))
    facts = KernelFacts(
        info=info,
        kernel_digest=_text(index, "kernel_digest", _DIGEST),
        space_digest=_text(index, "space_digest", _DIGEST),
        toolchain=tuple(
            ToolInfo(**{name: _text(tool, name) for name in ("name", "version", "digest")})
            for tool in index["toolchain"]
        ),
        target=str(Target.parse(index["target"])),
        sizes=sizes_of(kernel, info),
    )
    if {str(image.target) for variant in built.variants for image in variant.images} != {
        facts.target
    }:
        raise ValueError(f"its candidates are not those for {facts.target}")
    prepared = tuple(_prepared(kernel, facts, index["cases"], folder))
    if not prepared or not set(candidates).issuperset(
        point for one in prepared for point in one.space.points
    ):
        raise ValueError("it has no cases, or no candidate for a point of theirs")
    return Kit(facts=facts, kernel=kernel, prepared=prepared, candidates=candidates)


def _text(row: Mapping[str, Any], name: str, pattern: str = ".*") -> str:
    """Return a checked text from JSON: it goes into records and logs."""
    text = row[name]
    if not isinstance(text, str) or not re.fullmatch(pattern, text):
        raise ValueError(f"{name} is {text!r}")
    return text


def _candidates(
    rows: Sequence[Mapping[str, Any]], built: KernelInfo, bundle: str
) -> dict[Point, CompiledPoint]:
    variants: dict[Point, list[VariantInfo]] = {}
    for variant in built.variants:
        variants.setdefault(variant.axes, []).append(variant)
    candidates = {}
    for row in rows:
        point = point_of(row["point"])
        candidates[point] = (
            CompiledPoint(failure=_text(row, "failure"))
            if row["failure"]
            else CompiledPoint(variants=tuple(variants[point]), bundle=bundle)
        )
    return candidates


def _prepared(
    kernel: Kernel, facts: KernelFacts, rows: Sequence[Mapping[str, Any]], folder: Path
) -> list[Prepared]:
    info, sizes = facts.info, len(facts.sizes)
    cases = {case.name: case for case in cases_of(kernel, info)}
    prepared = []
    for row in rows:
        expected = ""
        if row["expected"]:
            file = folder / "expected" / Path(row["expected"]).name
            if not file.is_file():
                raise ValueError(
                    f"there is no {file.name}, the results of the reference of {row['name']}"
                )
            expected = str(file)
        at = tuple(row["at"])
        if len(at) != sizes or not all(type(size) is int and size >= 0 for size in at):
            raise ValueError(f"the sizes of {row['name']} are {row['at']}, and there are {sizes}")
        prepared.append(
            Prepared(space=space_of(info, cases[row["name"]]), at=at, expected=expected)
        )
    return prepared


def _refusal(path: Path, why: str | Exception) -> TilecError:
    if isinstance(why, OSError) and why.strerror and why.errno != errno.EINVAL:
        why = why.strerror
    elif isinstance(why, Exception):
        reason = repr(why) if isinstance(why, LookupError) else str(why)
        why = f"it is damaged, or only a part of one ({reason})"
    fix = "write it with `tilec tune --prepare KERNEL`, and copy all of it"
    return UsageError(f"{path} is no kit that can be measured: {why}", fix=fix)
