"""A file that was built, beside what its checkout gives now: is it the same, and what differs?

A bundle, a wheel and a hub package say what they are made of by their SBOM, documents by
themselves. What both sides say is compared; `inspect --diff` adds what callers notice.
"""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilec.inspection import diff
from tilec.inspection.container import UNREADABLE, describe, open_container
from tilec.model.inside import contained
from tilec.package.documents import (
    KINDS,
    MOST,
    PROVENANCE,
    SBOM,
    Document,
    Materials,
    materials,
    parsed,
    read_document,
    suffix_of,
)
from tilec.package.hub_metadata import METADATA, VARIANT, read_digests
from tilec.package.written import file_digest, stream_digest
from tilec_runtime.bundle.parts import PART_NAME
from tilec_runtime.errors import BundleError, UsageError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that differs; a side is empty where it has nothing of the name.

    Attributes:
        kind: `tool`, `source`, `option`, `image`, `subject`, `kernel` or `file`.
        name: which one.
        given, built: what the file says, and what the checkout gives.
    """

    kind: str
    name: str
    given: str
    built: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """A file that is verified.

    Attributes:
        path: the file, or the variant's folder of a hub package.
        kind: what `--emit` calls it.
        materials: what it says it is made of.
        settings: what the manifest sets for each kernel, where a provenance lies beside it.
    """

    path: Path
    kind: str
    materials: Materials
    settings: Materials = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rebuild:
    """The request that builds a file again; `emit` is what has to be written."""

    targets: tuple[str, ...]
    select: tuple[str, ...]
    profile: str
    emit: tuple[str, ...]


def read_given(path: Path) -> Given:
    """Read the file that is verified.

    Raises:
        BundleError: it is missing or damaged, or its parts are of different builds.
        UsageError: it is none that can be verified.
    """
    suffix = suffix_of(path.name)
    if suffix:
        return Given(path=path, kind=KINDS[suffix], materials=materials(read_document(path)))
    if path.suffix == ".whl":
        return Given(path=path, kind="wheel", materials=materials(_sbom_inside(path)))
    if path.suffix == ".tilec":
        return Given(path=path, kind="bundle", materials=_of_bundle(path))
    if path.is_dir():
        variant = next(
            (one for one in (path, path / VARIANT, path / "build" / VARIANT) if _is_hub(one)), None
        )
        if variant is not None:
            _require_sound(variant)
            return Given(path=variant, kind="hub", materials=_of_bundle(variant))
    if not path.exists():
        raise BundleError(f"{path}: no such file or directory", fix="check the path")
    raise UsageError(
        f"{path} is nothing that can be verified",
        fix=f"name a .tilec bundle, a wheel, a hub package, an SBOM ({SBOM}) or a provenance ({PROVENANCE})",
    )


def with_request(given: Given, targets: Sequence[str] = ()) -> tuple[Given, Rebuild]:
    """Return the file with its kernels' settings, and the request that builds it again.

    Both are of the provenance that the file is or that lies beside it. Without one, the request is
    the targets and the profile of the file's images.

    Args:
        given: the file.
        targets: those of the build, where the caller knows them.

    Raises:
        BundleError: the provenance lacks a field.
        UsageError: nothing says what the targets of the build were.
    """
    document = _provenance_of(given)
    if document is not None:
        own = given.kind == "provenance"
        rebuild = _rebuild(document, () if own else (given.kind, "provenance"))
        given = given if own else dataclasses.replace(given, settings=_settings(document))
        return given, dataclasses.replace(rebuild, targets=tuple(targets) or rebuild.targets)
    return given, Rebuild(
        targets=tuple(targets) or _shown_targets(given),
        select=(),
        profile=given.materials.get(("option", "profile"), "release"),
        emit=(given.kind,),
    )


def _rebuild(provenance: Document, emit: tuple[str, ...]) -> Rebuild:
    """Return the request of a provenance's build, with another `emit` if there is one."""
    try:
        parameters = provenance["predicate"]["buildDefinition"]["externalParameters"]
        # The lists are of texts: `materials` joined them.
        return Rebuild(
            targets=tuple(parameters["targets"]),
            select=tuple(parameters["select"]),
            profile=str(parameters["profile"]),
            emit=emit or tuple(parameters["emit"]),
        )
    except (KeyError, TypeError) as exc:
        raise BundleError("the provenance lacks a field that tilec writes") from exc


def _shown_targets(given: Given) -> tuple[str, ...]:
    """Return the targets of a build by the images that its file names.

    Raises:
        UsageError: it is a wheel of machine code alone.
    """
    shown = given.materials
    if given.kind == "wheel":
        # The SBOM of a split package's wheel has its own images, the index in it those of all.
        if _is_provider(given.path):
            raise UsageError(
                f"{given.path.name} holds one part of a split package, and does not say for which "
                "other targets the package was built",
                fix="put the provenance of the build (--emit provenance) beside it, or name all "
                "targets by --targets",
            )
        shown = _of_bundle(given.path)
    jobs = [name for kind, name in shown if kind == "image"]
    return tuple(dict.fromkeys(job.rpartition("-")[2] for job in jobs))


def _settings(provenance: Document) -> Materials:
    return {
        (kind, name): value
        for (kind, name), value in materials(provenance).items()
        if kind == "option" and ": " in name
    }


def lacking(given: Given, root: Path) -> Iterator[Finding]:
    """Yield the sources that a checkout lacks or has with other bytes; for a provenance, also the
    files beside it that have other bytes than it names. No build can mend these.

    The manifest is left out: if it differs, a build tells which options do. So are tilec's own
    files, whose names begin with `<`.
    """
    manifest = given.materials.get(("option", "manifest"))
    for (kind, name), digest in given.materials.items():
        if kind == "source" and name != manifest and not name.startswith("<"):
            own = _digest_in(root, name)
            differs = own != digest
        elif kind == "subject" and Path(name).name == name:  # beside it, and nowhere else
            own = file_digest(given.path.parent / name)
            differs = own not in ("", digest)
        else:
            continue
        if differs:
            yield Finding(kind=kind, name=name, given=digest, built=own)


def _digest_in(root: Path, name: str) -> str:
    """Return the digest of a checkout's file; empty where there is none, or none can be."""
    try:
        return file_digest(contained(root, name))
    except ValueError:  # no file has such a name: it has a NUL
        return ""


def differences(given: Given, built: Path, provenance: Path | None) -> tuple[Finding, ...]:
    """Return what differs between a file and the one that was built again, if their bytes do.

    Args:
        given: the file.
        built: the file, or the variant's folder, of the build.
        provenance: that of the build, where it was asked to write one.
    """
    mine, theirs = _members(given.path), _members(built)
    if mine == theirs:
        return ()
    other = read_given(built)
    findings = [*_changed(given.materials, other.materials), *_interface(given.path, built)]
    if given.settings and provenance is not None:
        findings += _changed(given.settings, _settings(read_document(provenance)))
    if not findings or len(mine) > 1:
        findings += _files(mine, theirs, explained=bool(findings))
    return tuple(findings)


def _changed(given: Materials, built: Materials) -> Iterator[Finding]:
    for kind, name in sorted({*given, *built}):
        sides = given.get((kind, name), ""), built.get((kind, name), "")
        if sides[0] != sides[1]:
            yield Finding(kind=kind, name=name, given=sides[0], built=sides[1])


def _interface(given: Path, built: Path) -> Iterator[Finding]:
    """Yield what callers of the launchers notice, where both sides hold a bundle."""
    try:
        reports = [describe(open_container(path)) for path in (given, built)]
    except BundleError:
        return
    for change in diff.compare(*reports).changes:
        yield Finding(kind="kernel", name=change.kernel or "package", given="", built=change.what)


def _files(mine: dict[str, str], theirs: dict[str, str], *, explained: bool) -> Iterator[Finding]:
    """Yield the parts that differ. Parts that follow from a bundle are left out if its difference
    is `explained`.
    """
    for name in sorted({*mine, *theirs}):
        sides = mine.get(name, ""), theirs.get(name, "")
        derived = not name or name.endswith((".tilec", SBOM, "RECORD", METADATA, "__init__.py"))
        if sides[0] != sides[1] and not (explained and derived):
            yield Finding(kind="file", name=name or "the whole", given=sides[0], built=sides[1])


def _members(path: Path) -> dict[str, str]:
    """Return the digests of a file's parts, that of the whole under no name."""
    if path.is_dir():
        files = (one for one in path.rglob("*") if one.is_file() and one.suffix != ".pyc")
        return {one.relative_to(path).as_posix(): file_digest(one) for one in files}
    members = {"": file_digest(path)}
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                with wheel.open(name) as member:
                    members[name] = stream_digest(member)
    return members


def _is_provider(wheel: Path) -> bool:
    with zipfile.ZipFile(wheel) as archive:
        return any(name.endswith(f"/{PART_NAME}") for name in archive.namelist())


def _of_bundle(path: Path) -> Materials:
    from tilec.package.sbom import sbom_of  # slow to import

    return materials(json.loads(sbom_of(open_container(path).bundle.info)))


def _sbom_inside(wheel: Path) -> Document:
    """Return the SBOM of a wheel.

    Raises:
        BundleError: it is no wheel, or has none.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(SBOM)]
            if broken := archive.testzip():
                raise BundleError(f"{wheel} is damaged: {broken}", fix="fetch or build it again")
            if len(names) == 1 and archive.getinfo(names[0]).file_size <= MOST:
                return parsed(archive.read(names[0]), Path(names[0]).name)
    except (*UNREADABLE, OSError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise BundleError(
            f"{wheel} cannot be read: {reason}", cause="it is damaged, or no wheel"
        ) from exc
    raise BundleError(
        f"{wheel} has no SBOM",
        cause="it is no wheel of `tilec build`, or of a tilec before SBOMs",
        fix="build it again",
    )


def _is_hub(folder: Path) -> bool:
    return (folder / METADATA).is_file()


def _require_sound(variant: Path) -> None:
    """Refuse a hub package with files of other bytes than its metadata says.

    Raises:
        BundleError: names the first one.
    """
    digests = read_digests(variant / METADATA)
    if not digests:
        raise BundleError(
            f"{variant / METADATA} was changed since `tilec build` wrote it",
            cause="its id is of another text",
            fix="fetch the package again, or build it again",
        )
    for name, digest in digests.items():
        path = variant / name
        if not path.is_file() or file_digest(path) != digest:
            message = "has other bytes than" if path.is_file() else "is missing, and"
            raise BundleError(
                f"{path} {message} {METADATA} says",
                cause="the package is damaged, or holds files of two builds",
                fix="fetch it again, or build it again",
            )


def _provenance_of(given: Given) -> Document | None:
    """Return the provenance that is given, or the one in the same outputs that names the file."""
    if given.kind == "provenance":
        return read_document(given.path)
    # A hub package lies three folders deeper than the provenance, if it was not moved.
    depth = 3 if given.kind == "hub" else 0
    folder = (given.path.parents[depth : depth + 1] or given.path.parents)[0]
    inputs = {key: value for key, value in given.materials.items() if key[0] in ("tool", "source")}
    for path in sorted(folder.glob(f"*{PROVENANCE}")):
        try:
            document = read_document(path)
            digests = materials(document)
        except BundleError:
            continue
        if file_digest(given.path) in {
            value for key, value in digests.items() if key[0] == "subject"
        }:
            return document
        # Of an SBOM and a hub package it names no digest, but what they are made of.
        if given.kind in ("sbom", "hub") and inputs.items() <= digests.items():
            return document
    return None
