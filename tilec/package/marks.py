"""Recognizes files that tilec wrote, by a mark and a digest of their contents.

A mark keeps a build from touching files of others. It is no proof of origin: a program that can
write the file can write the mark. Text has both in its last line; a bundle has its index, a wheel
its RECORD, a JSON document its seal, which for a hub package covers its other files; standard
files, which hold no foreign bytes, are listed in the `SHA256SUMS` beside them.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import glob
import hashlib
import io
import os
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import IO

from tilec.manifest.types import Manifest
from tilec.model.inside import is_inside
from tilec.package.documents import KINDS, owner_of, suffix_of
from tilec.package.hub_metadata import METADATA, VARIANT, read_digests
from tilec.package.outputs import Output, place_of
from tilec_runtime.bundle.parts import PART_NAME
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import TilecError
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.kernel import PackageInfo

SUMS = "SHA256SUMS"
STANDARD = ("fatbin", "cubin", "ptx")
_PACKAGE = ("__init__.py", "__init__.pyi", "torch.py", "py.typed")
_MARK = b"# Written by tilec, sha256 "
_LINE = len(_MARK) + 64 + 1
_MOST_TEXT = 64 << 20
_GENERATOR = b"\nGenerator: tilec\n"


def signed(text: bytes) -> bytes:
    """Return a text with tilec's mark as its last line."""
    return text + _MARK + sha256(text).encode() + b"\n"


def sums_text(digests: Mapping[str, str]) -> bytes:
    """Return the `SHA256SUMS` of a folder's files, as `sha256sum -c` reads it."""
    return signed("".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode())


def read_sums(folder: Path) -> dict[str, str]:
    """Return the digests of tilec's standard files in a folder by name, or nothing.

    A list that is missing or was changed gives nothing.
    """
    data = _text(folder / SUMS)
    if not _is_signed(data):
        return {}
    rows = (line.partition("  ") for line in data[:-_LINE].decode("utf-8", "replace").splitlines())
    return {name: digest for digest, _, name in rows if name and "/" not in name}


def is_written(path: Path) -> bool:
    """Return whether a file is an unchanged output of tilec. A link is none."""
    if path.is_symlink() or not path.is_file():
        return False
    variant = next((folder for folder in path.parents if folder.name == VARIANT), None)
    if variant is not None:
        return _hub_files(variant).get(path, False)
    if path.suffix == ".tilec":
        return bool(package_of(path))
    if path.suffix == ".whl":
        return _is_wheel(path)
    if suffix_of(path.name):
        return bool(owner_of(path))
    if path.suffix[1:] in STANDARD:
        return read_sums(path.parent).get(path.name) == file_digest(path)
    if path.name == "py.typed":
        return (
            path.stat().st_size == 0
        )  # as the typing rules want it: there is nothing in it to lose
    return _is_signed(_text(path))


def package_of(bundle: Path) -> str:
    """Return the package that tilec wrote a bundle for, or an empty text."""
    if bundle.is_symlink() or not bundle.is_file():
        return ""
    try:
        opened = Bundle.open(bundle)
        opened.verify()
        return opened.info.package.name if opened.info.builder.startswith("tilec ") else ""
    except (TilecError, OSError):
        return ""


def stale_outputs(
    manifest: Manifest, emit: Collection[str], outputs: Iterable[Output]
) -> dict[Path, bool]:
    """Return earlier outputs that a build replaces, each with whether it is unchanged.

    These are standard files and documents that the build does not make; where it writes a wheel,
    wheels of machine code of that version; and where it writes a package, that package under
    another digest or module.
    """
    current = {Path(output.path) for output in outputs}
    stale: dict[Path, bool] = {}
    for suffix in KINDS:
        document = place_of(manifest, document_name(manifest.package.info, suffix))
        if owner_of(document) == manifest.package.name:
            stale[document] = True
    stale.update(_hub_files(place_of(manifest, *hub_place(manifest.package.name))))
    versions = {path.name.split("-")[1] for path in current if path.suffix == ".whl"}
    for wheel in _provider_wheels(place_of(manifest), manifest.package.name):
        if wheel.name.split("-")[1] in versions:
            stale[wheel] = is_written(wheel)
    for kind in STANDARD:
        stale.update(_standard_files(place_of(manifest, kind)))
    if "package" in emit:
        stale.update(_packages(place_of(manifest), manifest.package.name, manifest.package.module))
    return {path: own for path, own in stale.items() if path not in current}


def all_outputs(directory: Path, package: str, module: str) -> dict[Path, bool]:
    """Return tilec's outputs for a package, each with whether it is unchanged."""
    outputs: dict[Path, bool] = {}
    readers = {".tilec": package_of, **dict.fromkeys(KINDS, owner_of)}
    for suffix, read_owner in readers.items():
        for path in sorted(directory.glob(f"{glob.escape(package)}-*{suffix}")):
            owner = read_owner(path)
            if owner in ("", package):
                outputs[path] = owner == package
    wheels = sorted(directory.glob(f"{normalise_name(package)}-*.whl"))
    wheels += _provider_wheels(directory, package)
    outputs.update({wheel: is_written(wheel) for wheel in wheels})
    hub = directory.joinpath(*hub_place(package))
    if is_inside(hub, directory):
        outputs.update(_hub_files(hub))
    outputs.update(_packages(directory, package, module))
    for kind in STANDARD:
        outputs.update(_standard_files(directory / kind))
    return outputs


def outputs_of_others(directory: Path, package: str, module: str) -> dict[Path, str]:
    """Return outputs in a directory that tilec wrote for other packages, with their names.

    A project whose package was renamed has them, and so have packages that share a directory:
    nothing tells these two apart.
    """
    others: dict[Path, str] = {}
    providers = _provider_wheels(directory, package)
    for path in sorted(set(directory.glob("*")) - set(providers)):
        names = {package}
        owner = ""
        if path.suffix == ".whl":
            names = {normalise_name(package)}
            owner = path.name.partition("-")[0] if is_written(path) else ""
        elif path.suffix == ".tilec":
            owner = package_of(path)
        elif path.name != module and path.is_dir() and not path.is_symlink():
            owner = next(filter(None, map(package_of, _inner_bundles(path))), "")
        if owner and owner not in names:
            others[path] = owner
    return others


def _standard_files(folder: Path) -> dict[Path, bool]:
    """Return the files of tilec's list in a folder, and the list."""
    if folder.is_symlink():
        return {}
    sums = read_sums(folder)
    files = {
        folder / name: is_written(folder / name) for name in sums if os.path.lexists(folder / name)
    }
    return {**files, folder / SUMS: True} if sums else {}


def _hub_files(variant: Path) -> dict[Path, bool]:
    """Return the files of a hub package's variant, each with whether it is unchanged. What a link
    leads to is none of them.
    """
    digests = read_digests(variant / METADATA)
    if not digests or variant.is_symlink():
        return {}
    found = {variant / METADATA: True}
    for name, digest in digests.items():
        path = variant / name
        if os.path.lexists(path) and is_inside(path.parent, variant):
            found[path] = not path.is_symlink() and base64_digest(path) == digest
    return found


def base64_digest(path: Path) -> str:
    """Return the SHA-256 of a file as a hub package's metadata has it."""
    return base64.b64encode(bytes.fromhex(file_digest(path))).decode()


def _packages(directory: Path, package: str, module: str) -> dict[Path, bool]:
    """Return the files of a package's generated package, under earlier modules too."""
    found: dict[Path, bool] = {}
    for folder in sorted(directory.glob("*")):
        if not folder.is_dir() or folder.is_symlink():
            continue
        bundles = _inner_bundles(folder)
        files = [
            path
            for path in (*bundles, *(folder / name for name in _PACKAGE))
            if os.path.lexists(path)
        ]
        if folder.name == module:
            found.update({path: is_written(path) for path in files})
        elif any(package_of(bundle) == package for bundle in bundles):
            found.update(
                dict.fromkeys(files, all(map(is_written, files)))
            )  # as a whole or not at all
    return found


def _provider_wheels(directory: Path, package: str) -> list[Path]:
    """The wheels of a package's machine code, of all versions."""
    name = normalise_name(package)
    wheels = []
    for path in sorted(directory.glob(f"{name}_sm*-*.whl")):
        if re.match(rf"{name}_sm\d+-", path.name) is None:
            continue
        with contextlib.suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as wheel:
            if any(member.endswith(f"/{PART_NAME}") for member in wheel.namelist()):
                wheels.append(path)
    return wheels


def _inner_bundles(folder: Path) -> list[Path]:
    """The bundles of a generated package, the present one and older ones."""
    return sorted(
        path
        for path in folder.glob("*.tilec")
        if re.fullmatch(rf"{re.escape(folder.name)}-[0-9a-f]{{16}}", path.stem)
    )


def normalise_name(name: str) -> str:
    """Return a distribution's name as in file names: `Acme.Kernels-2` is `acme_kernels_2`."""
    return re.sub(r"[-_.]+", "_", name).lower()


def hub_place(package: str) -> tuple[str, ...]:
    """Return where a package's variant for the Hugging Face hub lies below the outputs."""
    return "hub", package, "build", VARIANT


def document_name(package: PackageInfo, suffix: str) -> str:
    """Return the file name of a document about a package's build."""
    return f"{package.name}-{package.version}{suffix}"


def record_digest(digest: bytes) -> str:
    """Return a SHA-256 as a wheel's RECORD has it."""
    return f"sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file (hex); empty where it is no file or cannot be read."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return _digest(file).hex()
    except OSError:
        return ""


def member_digest(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the SHA-256 of a member of a zip file."""
    with archive.open(name) as file:
        return _digest(file)


def _digest(file: IO[bytes]) -> bytes:
    """Return the SHA-256 of a file that may be larger than memory."""
    digest = hashlib.sha256()
    while part := file.read(1 << 20):
        digest.update(part)
    return digest.digest()


def _text(path: Path) -> bytes:
    try:
        return (
            path.read_bytes()
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MOST_TEXT
            else b""
        )
    except OSError:
        return b""


def _is_signed(data: bytes) -> bool:
    return len(data) >= _LINE and data == signed(data[:-_LINE])


def _is_wheel(path: Path) -> bool:
    """Return whether tilec generated a wheel and its members match its RECORD."""
    try:
        with zipfile.ZipFile(path) as wheel:
            names = wheel.namelist()
            record = next(name for name in names if name.endswith(".dist-info/RECORD"))
            if _GENERATOR not in _member(wheel, record.removesuffix("RECORD") + "WHEEL"):
                return False
            stated = {
                row[0]: row[1] for row in csv.reader(io.StringIO(_member(wheel, record).decode()))
            }
            stated.pop(record, None)
            return sorted(names) == sorted([*stated, record]) and all(
                record_digest(member_digest(wheel, name)) == stated[name] for name in stated
            )
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        csv.Error,
        EOFError,
        LookupError,
        ValueError,
        RuntimeError,
        StopIteration,
    ):
        return False


def _member(wheel: zipfile.ZipFile, name: str) -> bytes:
    with wheel.open(name) as file:
        return file.read(_MOST_TEXT)
