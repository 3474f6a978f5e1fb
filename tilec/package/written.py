"""List of a package's outputs, which builds may replace and `tilec clean` removes.

The list is a file beside the outputs. It names each output with its kind and SHA-256. A file
belongs to tilec while its digest is in the list. The list does not prove origin, because a program
that can write an output can also write the list. It therefore applies only to files below its own
directory.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from tilec.manifest.types import Manifest
from tilec.model.atomic import write_if_changed
from tilec.model.digest import file_digest
from tilec.model.inside import is_inside
from tilec.package.documents import KINDS
from tilec.package.hub_metadata import VARIANT
from tilec.package.outputs import Output, place_of
from tilec_runtime.model.kernel import PackageInfo

_SUFFIX = ".tilec-outputs"
_HEAD = "# tilec replaces and removes these files of {package} while they are unchanged.\n"
_MOST = 64 << 20  # bytes of a list


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """An existing file of the list: its path, its kind, and its digests in the list."""

    path: Path
    kind: str
    digests: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the file.

        It is empty if tilec did not write these bytes, and for a link.
        """
        digest = "" if self.path.is_symlink() else file_digest(self.path)
        return digest if digest in self.digests else ""

    @property
    def unchanged(self) -> bool:
        """Whether the file has the bytes that tilec wrote."""
        return bool(self.digest)


def list_name(package: str) -> str:
    """Return the file name of the list of a package's outputs."""
    return f".{package}{_SUFFIX}"


def written_files(directory: Path, package: str) -> list[Written]:
    """Return the existing outputs of a package in a directory, changed or not."""
    rows: dict[Path, tuple[str, tuple[str, ...]]] = {}
    for digest, kind, name in _rows(directory / list_name(package)):
        path = directory / name
        rows[path] = kind, (*rows.get(path, (kind, ()))[1], digest)
    return [
        Written(path, kind, digests)
        for path, (kind, digests) in sorted(rows.items())
        if os.path.lexists(path) and is_inside(path.parent, directory)
    ]


def save_list(path: Path, package: str, outputs: Iterable[Output]) -> None:
    """Write a package's list of outputs.

    The list is written before the outputs are renamed into place, so that it also covers the
    outputs of an interrupted build. Outputs of earlier builds stay in the list while they are
    unchanged.

    Raises:
        OutputError: the list cannot be written.
    """
    directory = path.parent
    rows = {(output.digest, output.kind, Path(output.path)) for output in outputs}
    for file in written_files(directory, package):
        if digest := file.digest:
            rows.add((digest, file.kind, file.path))
    lines = sorted(
        f"{digest}  {kind}  {place.relative_to(directory).as_posix()}\n"
        for digest, kind, place in rows
    )
    write_if_changed(path, (_HEAD.format(package=package) + "".join(lines)).encode())


def is_written(path: Path) -> bool:
    """Return whether a file is an unchanged output of any package.

    The lists of the folders above the file are read.
    """
    return any(
        file.path == path and file.unchanged
        for folder in path.parents
        for package in _packages(folder)
        for file in written_files(folder, package)
    )


def stale_outputs(
    manifest: Manifest, emit: Collection[str], outputs: Iterable[Output]
) -> dict[Path, bool]:
    """Return the earlier outputs that a build replaces, and whether each is unchanged.

    Bundles stay, as do wheels and documents of other versions. Only another generated package
    replaces a generated package. A package under another module is removed as a whole or not at
    all.
    """
    package = manifest.package
    current = {Path(output.path) for output in outputs}
    versions = {path.name.split("-")[1] for path in current if path.suffix == ".whl"}
    stale: dict[Path, bool] = {}
    half: set[Path] = set()
    for file in written_files(place_of(manifest), package.name):
        path = file.path
        stays = {
            "bundle": True,
            "package": "package" not in emit,
            "wheel": not any(f"-{version}-" in path.name for version in versions),
            **dict.fromkeys(
                KINDS.values(), not path.name.startswith(f"{package.name}-{package.version}.")
            ),
        }
        if path in current or stays.get(file.kind, False):
            continue
        stale[path] = file.unchanged
        if file.kind == "package" and not file.unchanged and path.parent.name != package.module:
            half.add(path.parent)
    return {path: own and path.parent not in half for path, own in stale.items()}


def outputs_of_others(directory: Path, package: str) -> dict[Path, str]:
    """Return the outputs of other packages in a directory, with the package's name.

    A project has such outputs after its package was renamed, or if packages share a directory.
    tilec cannot distinguish these cases.
    """
    return {
        directory / file.path.relative_to(directory).parts[0]: owner
        for owner in _packages(directory)
        if owner != package
        for file in written_files(directory, owner)
    }


def hub_path(package: str) -> tuple[str, ...]:
    """Return the path below the outputs of the variant for the Hugging Face hub."""
    return "hub", package, "build", VARIANT


def document_name(package: PackageInfo, suffix: str) -> str:
    """Return the file name of a document about a package's build."""
    return f"{package.name}-{package.version}{suffix}"


def _packages(directory: Path) -> list[str]:
    """Return the packages that have a list in a directory."""
    return sorted(path.name[1 : -len(_SUFFIX)] for path in directory.glob(f".*{_SUFFIX}"))


def _rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield digest, kind and name of each row with a file below the directory."""
    try:
        sound = path.is_file() and not path.is_symlink() and path.stat().st_size <= _MOST
        text = path.read_text(encoding="utf-8", errors="replace") if sound else ""
    except OSError:
        return
    for line in text.splitlines():
        parts = line.split("  ", 2)
        name = PurePosixPath(parts[-1])
        below = not name.is_absolute() and ".." not in name.parts
        if len(parts) == 3 and below and parts[2].isprintable():
            yield parts[0], parts[1], parts[2]
