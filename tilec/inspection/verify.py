"""Comparison of a built file with a new build from its checkout.

The inputs of a bundle, a wheel or a hub package are those of its SBOM; a document names its inputs
itself. The inputs of both files are compared, and also the changes that affect callers, as in
`inspect --diff`.
"""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilec.inspection import diff
from tilec.inspection.container import UNREADABLE, describe, open_container
from tilec.model.digest import file_digest, stream_digest
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
from tilec.package.hub_metadata import METADATA, VARIANT
from tilec.package.sbom import sbom_of
from tilec_runtime.bundle.parts import PART_NAME
from tilec_runtime.errors import BundleError, UsageError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One difference; a side is empty if the name does not exist on it.

    Attributes:
        kind: `tool`, `source`, `option`, `image`, `subject`, `kernel` or `file`.
        name: name of the part that differs.
        given: value in the verified file.
        built: value in the checkout.
    """

    kind: str
    name: str
    given: str
    built: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """A file to verify.

    Attributes:
        path: path of the file, or of the variant's folder of a hub package.
        kind: name of the kind of output in `--emit`.
        materials: inputs that the file names.
        settings: settings of each kernel, from a provenance beside the file; empty if there is
            none.
    """

    path: Path
    kind: str
    materials: Materials
    settings: Materials = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rebuild:
    """The request to build a file again; `emit` names the outputs to write."""

    targets: tuple[str, ...]
    select: tuple[str, ...]
    profile: str
    emit: tuple[str, ...]


def read_given(path: Path) -> Given:
    """Read the file to verify.

    Raises:
        BundleError: the file is missing or damaged, or its parts are from different builds.
        UsageError: files of this kind cannot be verified.
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
            return Given(path=variant, kind="hub", materials=_of_bundle(variant))
    if not path.exists():
        raise BundleError(f"{path}: no such file or directory", fix="check the path")
    raise UsageError(
        f"{path} cannot be verified",
        fix=f"name a .tilec bundle, a wheel, a hub package, an SBOM ({SBOM}) or a provenance ({PROVENANCE})",
    )


def with_request(given: Given, targets: Sequence[str] = ()) -> tuple[Given, Rebuild]:
    """Return the file with its kernels' settings, and the request to build it again.

    Both come from a provenance, which is the file itself or lies beside it. Without a provenance,
    the request is for the targets and the profile of the file's images.

    Args:
        given: the file to verify.
        targets: targets of the build, if the caller knows them.

    Raises:
        BundleError: a field is missing in the provenance.
        UsageError: the targets of the build are unknown.
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
    """Return the request in a provenance; a given `emit` replaces that in it."""
    try:
        parameters = provenance["predicate"]["buildDefinition"]["externalParameters"]
        # `materials` has joined these lists, so their items are texts.
        return Rebuild(
            targets=tuple(parameters["targets"]),
            select=tuple(parameters["select"]),
            profile=str(parameters["profile"]),
            emit=emit or tuple(parameters["emit"]),
        )
    except (KeyError, TypeError) as exc:
        raise BundleError("the provenance lacks a field that tilec writes") from exc


def _shown_targets(given: Given) -> tuple[str, ...]:
    """Return the targets of a build, from the images that its file names.

    Raises:
        UsageError: the file is a wheel that contains only machine code.
    """
    shown = given.materials
    if given.kind == "wheel":
        # In the wheel of a split package, the SBOM names the wheel's own images, and the index all.
        if _is_provider(given.path):
            raise UsageError(
                f"{given.path.name} holds one part of a split package, and does not name the "
                "other targets of the package",
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
    """Yield the differences that no build can remove.

    These are sources that are missing in a checkout or changed. For a provenance, they are also
    files beside it that do not match its digests. The manifest is omitted, because a build finds
    the options that differ. The own files of tilec, whose names begin with `<`, are omitted too.
    """
    manifest = given.materials.get(("option", "manifest"))
    for (kind, name), digest in given.materials.items():
        if kind == "source" and name != manifest and not name.startswith("<"):
            own = _digest_in(root, name)
            differs = own != digest
        elif kind == "subject" and Path(name).name == name:  # only files beside the provenance
            own = file_digest(given.path.parent / name)
            differs = own not in ("", digest)
        else:
            continue
        if differs:
            yield Finding(kind=kind, name=name, given=digest, built=own)


def _digest_in(root: Path, name: str) -> str:
    """Return the digest of a file in a checkout, or an empty string if there is none."""
    try:
        return file_digest(contained(root, name))
    except ValueError:  # the name contains NUL
        return ""


def differences(given: Given, built: Path, provenance: Path | None) -> tuple[Finding, ...]:
    """Return the differences between a file and its new build; none if equal.

    Args:
        given: the file to verify.
        built: path of the new file, or of the new variant's folder.
        provenance: path of the new build's provenance, or None if it wrote none.
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
    """Yield the changes that affect callers, if both files contain a bundle."""
    try:
        reports = [describe(open_container(path)) for path in (given, built)]
    except BundleError:
        return
    for change in diff.compare(*reports).changes:
        yield Finding(kind="kernel", name=change.kernel or "package", given="", built=change.what)


def _files(mine: dict[str, str], theirs: dict[str, str], *, explained: bool) -> Iterator[Finding]:
    """Yield the parts that differ.

    If the difference of the bundles is `explained`, parts that are derived from a bundle are
    omitted.
    """
    for name in sorted({*mine, *theirs}):
        sides = mine.get(name, ""), theirs.get(name, "")
        derived = not name or name.endswith((".tilec", SBOM, "RECORD", METADATA, "__init__.py"))
        if sides[0] != sides[1] and not (explained and derived):
            yield Finding(kind="file", name=name or "the whole", given=sides[0], built=sides[1])


def _members(path: Path) -> dict[str, str]:
    """Return the digests of a file's parts by name; the whole file has an empty name."""
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
    return materials(json.loads(sbom_of(open_container(path).bundle.info)))


def _sbom_inside(wheel: Path) -> Document:
    """Return the SBOM of a wheel.

    Raises:
        BundleError: the file is not a wheel, or has no SBOM.
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
        cause="`tilec build` did not write this wheel",
        fix="build it again",
    )


def _is_hub(folder: Path) -> bool:
    return (folder / METADATA).is_file()


def _provenance_of(given: Given) -> Document | None:
    """Return the provenance of a file.

    It is the file itself, or one in the same outputs that names the file.
    """
    if given.kind == "provenance":
        return read_document(given.path)
    # Unless it was moved, a hub package is three folders below the provenance.
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
        # A provenance names no digest of an SBOM or a hub package, but it names their inputs.
        if given.kind in ("sbom", "hub") and inputs.items() <= digests.items():
            return document
    return None
