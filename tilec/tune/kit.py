"""Kits: one file with all candidates of a tuning, for measuring without compiler and project."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilec.frontends.base import SUFFIXES
from tilec.inspection.container import UNREADABLE
from tilec.manifest.load import load
from tilec.model.atomic import atomic_write
from tilec.model.codec import decode, encode
from tilec.tune.candidates import CompiledPoint, KernelFacts, sizes_of
from tilec.tune.cases import Prepared, cases_of
from tilec.tune.session import Work
from tilec.tune.space import Point, Space, space_of
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError, ManifestError, UsageError
from tilec_runtime.model.kernel import ToolInfo, VariantInfo

VERSION = 3
SUFFIX = ".tune"
_INDEX, _MANIFEST, _BUNDLE = "kit.json", "tilec.toml", "candidates.tilec"
_FIX = "write it with `tilec tune --prepare KERNEL`, and copy all of it"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Case:
    """A case: its name, its sizes, and the file with the reference's results, empty for none."""

    name: str
    at: tuple[int, ...]
    expected: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Index:
    """The index of a kit; the manifest and the bundle beside it have the rest."""

    version: int = VERSION
    kernel: str
    kernel_digest: str
    space_digest: str
    target: str
    toolchain: tuple[ToolInfo, ...]
    failures: tuple[tuple[Point, str], ...]
    cases: tuple[_Case, ...]


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
    failures = {point: one.failure for point, one in candidates.items() if one.failure}
    bundle = next((one.bundle for one in candidates.values() if one.bundle), "")
    if not bundle:
        first = next(iter(failures.values()), "")
        raise UsageError(
            f"no candidate of {facts.info.name} compiles for {facts.target}: {first}",
            fix="`tilec build` says more",
        )
    index = _Index(
        kernel=facts.info.name,
        kernel_digest=facts.kernel_digest,
        space_digest=facts.space_digest,
        target=facts.target,
        toolchain=facts.toolchain,
        failures=tuple(failures.items()),
        cases=tuple(
            _Case(name=one.space.case.name, at=one.at, expected=Path(one.expected).name)
            for one in prepared
        ),
    )
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_INDEX, json.dumps(encode(index), indent=1))
        archive.write(manifest, _MANIFEST)
        archive.write(bundle, _BUNDLE)
        for one in prepared:
            if one.expected:
                archive.write(one.expected, f"expected/{Path(one.expected).name}")


def require_portable(spaces: Sequence[Space]) -> None:
    """Refuse cases whose inputs come from files of the project, which a kit does not hold.

    Raises:
        UsageError: there is such a case.
    """
    for space in spaces:
        for item in space.case.inputs:
            if source := item.file or item.make:
                raise UsageError(
                    f"{space.case.name}: {item.name} comes from {source}, which a kit does not hold",
                    fix="choose other cases with --case, or tune in the project, without --prepare",
                )


def require_kit(path: Path) -> None:
    """Refuse a file that is no zip archive, before anything is prepared for it.

    Raises:
        UsageError: there is no such file, or it is no archive.
    """
    if not zipfile.is_zipfile(path):
        why = "the file is damaged, or of another kind" if path.is_file() else "no such file"
        raise UsageError(f"{path} is no kit: {why}", fix=_FIX)


def read_kit(path: Path, folder: Path) -> Work:
    """Unpack a kit.

    Args:
        path: the file.
        folder: to unpack to; the candidates use it.

    Raises:
        UsageError: it is no kit, is damaged, has another version, or cannot be unpacked there.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        index = decode(_Index, json.loads((folder / _INDEX).read_bytes()))
        return _work(index, folder)
    except OSError as error:
        message = f"{path} cannot be unpacked to {folder}: {error.strerror or error}"
        raise UsageError(message, fix="make room there, or copy the kit again") from error
    except (*UNREADABLE, BundleError, ManifestError, ValueError, LookupError) as error:
        reason = error.what if isinstance(error, BundleError | ManifestError) else error
        message = f"{path} is damaged, or no kit of this tilec"
        raise UsageError(f"{message} ({reason})", fix=_FIX) from error


def _work(index: _Index, folder: Path) -> Work:
    """Return what the kit holds.

    Raises:
        ValueError, LookupError: its parts do not fit.
    """
    if index.version != VERSION:
        raise ValueError(f"version {index.version}: this tilec reads version {VERSION}")
    manifest = load(folder / _MANIFEST, languages=SUFFIXES)
    kernel = {kernel.name: kernel for kernel in manifest.kernels}[index.kernel]
    built = Bundle.open(folder / _BUNDLE).kernel(index.kernel)
    candidates = {
        variant.axes: CompiledPoint(
            variants=tuple(one for one in built.variants if one.axes == variant.axes),
            bundle=str(folder / _BUNDLE),
        )
        for variant in built.variants
    }
    candidates |= {point: CompiledPoint(failure=reason) for point, reason in index.failures}
    failed = tuple(VariantInfo(id="", axes=point) for point, _ in index.failures)
    info = dataclasses.replace(built, variants=(*built.variants, *failed))
    cases = {case.name: case for case in cases_of(kernel, info)}
    return Work(
        facts=KernelFacts(
            info=info,
            kernel_digest=index.kernel_digest,
            space_digest=index.space_digest,
            toolchain=index.toolchain,
            target=index.target,
            sizes=sizes_of(kernel, info),
        ),
        kernel=kernel,
        prepared=tuple(
            Prepared(
                space=space_of(info, cases[one.name]),
                at=one.at,
                expected=str(folder / "expected" / one.expected) if one.expected else "",
            )
            for one in index.cases
        ),
        make=lambda points: {point: candidates[point] for point in points},
    )
