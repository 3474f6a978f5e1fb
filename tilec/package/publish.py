"""Writing of a build's outputs: bundle, package, wheel and standard files.

All outputs are written before the first is renamed into place. Files that tilec did not write, or
that were changed since, are never replaced or removed: `written.py` keeps the list of outputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tilec.compile.events import Blob
from tilec.manifest.types import Manifest
from tilec.model.atomic import Stage
from tilec.model.digest import file_digest
from tilec.model.inside import contained
from tilec.package.documents import PROVENANCE, SBOM
from tilec.package.fatbin import write_fatbin
from tilec.package.outputs import Output, place_of
from tilec.package.provenance import Origin, provenance_of
from tilec.package.render import render_package
from tilec.package.write import Portion, write_bundle
from tilec.package.written import (
    document_name,
    hub_path,
    list_name,
    save_list,
    stale_outputs,
    written_files,
)
from tilec_runtime.bundle.format import index_digest
from tilec_runtime.bundle.parts import PART_NAME
from tilec_runtime.errors import Diagnostic, ManifestError, OutputError
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.kernel import BundleInfo

STANDARD = ("fatbin", "cubin", "ptx")
HOLDS_PACKAGE = frozenset(("package", "wheel"))
RUNTIME = ("tilec-runtime>=0.1,<0.2",)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """The outputs to write, with their contents and places.

    Attributes:
        info: index of the bundle.
        blobs: places of the images, by digest.
        emit: kinds of outputs to write.
        manifest: manifest with the output directory and the package's texts.
        scratch: directory for a bundle that only packages and wheels contain.
        origin: request of the build.
        owned: whether the output directory is tilec's own; any file in it may be replaced.
    """

    info: BundleInfo
    blobs: Mapping[str, Blob]
    emit: Sequence[str]
    manifest: Manifest
    scratch: Path
    origin: Origin
    owned: bool = False

    def read(self, digest: str) -> bytes:
        """Return the bytes of an image.

        Raises:
            CacheError: the image is no longer in the cache.
        """
        return self.blobs[digest].read()

    def path(self, *parts: str) -> Path:
        """Return the path of an output, by its parts below the output directory.

        Raises:
            LinkError: a link in the path leaves the project.
        """
        return place_of(self.manifest, *parts)

    @property
    def bundle(self) -> Path:
        """Path of the whole bundle, which a build always writes.

        Raises:
            LinkError: the path is a link that leaves the project.
        """
        name = f"{self.info.package.name}-{self.info.package.version}.tilec"
        return self.path(name) if "bundle" in self.emit else contained(self.scratch, name)

    @property
    def list(self) -> Path:
        """Path of the list of outputs.

        Raises:
            LinkError: the path is a link that leaves the project.
        """
        return self.path(list_name(self.info.package.name))


def stage_outputs(publication: Publication, stage: Stage) -> tuple[Output, ...]:
    """Write every output of `emit` to a temporary file beside its place.

    Raises:
        LinkError: a link among the outputs leaves the project.
        OutputError: an output cannot be written, or would replace a file that tilec did not write.
    """
    outputs = tuple(_staged(publication, stage))
    if not publication.owned:
        _require_own(publication, stage)
    return outputs


def put_in_place(
    publication: Publication,
    stage: Stage,
    outputs: Sequence[Output],
    note: Callable[[str], None],
) -> None:
    """Rename staged outputs into place, and remove the earlier outputs they replace.

    Removed are standard files that this build does not make, and earlier bundles and packages of
    this package under another digest or module. Other outputs of earlier builds stay, such as
    wheels of other versions.

    The order of renames is bundle, package, wheel, standard files. A package names its bundle by
    digest, and the rename of its `__init__.py` is the last: at any moment the package is the old
    one or the new one.

    Args:
        publication: the outputs to write.
        stage: stage with the staged files.
        outputs: the staged outputs.
        note: receives notes about replaced files that stay because they were changed, and about
            packages of earlier builds.

    Raises:
        OutputError: a rename failed. If this is foreseeable, nothing is renamed.
    """
    stale = stale_outputs(publication.manifest, publication.emit, outputs)
    if not publication.owned:
        save_list(publication.list, publication.info.package.name, outputs)
    stage.put_in_place()
    _remove(publication, stale, note)
    if not publication.owned and "package" not in publication.emit:
        _name_older_packages(publication, note)


def _require_own(publication: Publication, stage: Stage) -> None:
    """Check that no file is replaced that tilec did not write.

    Raises:
        OutputError: there are such files; the message names them.
    """
    name = publication.info.package.name
    written = {file.path: file for file in written_files(publication.list.parent, name)}
    foreign = [
        path
        for path in stage.replaced
        if not (path in written and written[path].unchanged)
        and file_digest(path) != file_digest(stage.where(path))
    ]
    if foreign:
        names = ", ".join(
            path.relative_to(publication.manifest.root).as_posix() for path in foreign
        )
        raise OutputError(
            f"the build would overwrite {names}",
            cause="tilec did not write this, or it was changed since: files of others are never touched",
            fix="move it away or delete it, or choose another directory by [output] dir",
        )


def _staged(publication: Publication, stage: Stage) -> Iterator[Output]:
    info, emit = publication.info, publication.emit
    bundle, output = _bundle(publication, stage)
    subjects = {Path(output.path).name: output.digest}
    if "bundle" in emit:
        yield output
    if "package" in emit:
        yield from _package(publication, bundle, output.digest, stage)
    if "wheel" in emit:
        for wheel in _wheels(publication, bundle, output.digest, stage):
            subjects[Path(wheel.path).name] = wheel.digest
            yield wheel
    if "sbom" in emit:
        from tilec.package.sbom import sbom_of

        target = publication.path(document_name(info.package, SBOM))
        yield _write("sbom", target, sbom_of(info), stage)
    if "provenance" in emit:
        target = publication.path(document_name(info.package, PROVENANCE))
        statement = provenance_of(info, publication.origin, subjects)
        yield _write("provenance", target, statement, stage)
    if "hub" in emit:
        yield from _hub(publication, bundle, stage)
    for kind in STANDARD:
        if kind in emit:
            for name, data in _images(kind, publication):
                yield _write(kind, publication.path(kind, name), data, stage)


def _bundle(publication: Publication, stage: Stage) -> tuple[Path, Output]:
    """Write the whole bundle; return its present path and its output."""
    info, wanted = publication.info, "bundle" in publication.emit
    path = publication.bundle
    old = file_digest(path)
    digest = write_bundle(
        path,
        info,
        publication.read,
        max_size=publication.manifest.output.max_size,
        stage=stage if wanted else None,
    )
    bundle = stage.where(path)
    size = bundle.stat().st_size
    changed = digest != old
    return bundle, Output(kind="bundle", path=str(path), size=size, digest=digest, changed=changed)


def _package(publication: Publication, bundle: Path, digest: str, stage: Stage) -> Iterator[Output]:
    files = _package_files(publication.info, bundle, digest)
    for file in sorted(files, key=lambda file: (file.endswith("__init__.py"), file)):
        source = files[file]
        data = source if isinstance(source, bytes) else source.read_bytes()
        yield _write("package", publication.path(*file.split("/")), data, stage)


def _wheels(publication: Publication, bundle: Path, digest: str, stage: Stage) -> Iterator[Output]:
    """Stage the wheel, or the small wheel and the others of a split package."""
    if not publication.manifest.output.wheel.split:
        files = _package_files(publication.info, bundle, digest)
        yield _wheel(publication, stage, publication.info, files, RUNTIME, {})
        return
    from tilec.package.split import base_of, extras_of, providers_of, shipped_of
    from tilec.package.wheel import pinned

    info = publication.info
    providers = providers_of(info)
    base = base_of(providers)
    path = contained(publication.scratch, f"{info.package.module}.tilec")
    digest = write_bundle(path, info, publication.read, portion=base)
    files = _package_files(info, path, digest)
    shipped = shipped_of(info, base)
    yield _wheel(publication, stage, shipped, files, RUNTIME, extras_of(providers))
    for cc, package in providers.items():
        module, portion = package.module, Portion(machine_code=cc)
        path = contained(publication.scratch, f"{module}.tilec")
        write_bundle(path, info, publication.read, portion=portion)
        text = f'"""{package.description}: package {info.package.module} finds it."""\n'
        files = {f"{module}/__init__.py": text.encode(), f"{module}/{PART_NAME}": path}
        shipped = dataclasses.replace(shipped_of(info, portion), package=package)
        yield _wheel(publication, stage, shipped, files, (pinned(info.package),), {})


def _package_files(info: BundleInfo, bundle: Path, digest: str) -> dict[str, bytes | Path]:
    """Return the files of the generated package, by path in a wheel."""
    name, module = _inner_name(info, digest), info.package.module
    rendered = render_package(info, name, index_digest(info))
    files: dict[str, bytes | Path] = {f"{module}/{file}": rendered[file] for file in rendered}
    return {**files, f"{module}/{name}": bundle}


def _wheel(
    publication: Publication,
    stage: Stage,
    shipped: BundleInfo,
    files: Mapping[str, bytes | Path],
    requires: tuple[str, ...],
    extras: Mapping[str, tuple[str, ...]],
) -> Output:
    """Stage a wheel; `shipped` holds the wheel's package and images."""
    # Imported here because builds without a wheel need no `packaging`.
    from tilec.package.sbom import sbom_of
    from tilec.package.wheel import wheel_name, write_wheel

    manifest = publication.manifest
    publication.path(wheel_name(shipped.package))
    path = write_wheel(
        publication.path(),
        package=shipped.package,
        files=files,
        license_files=licences_of(manifest),
        requires=requires,
        extras=extras,
        sbom=sbom_of(shipped),
        max_size=manifest.output.wheel.max_size,
        stage=stage,
    )
    return Output(
        kind="wheel",
        path=str(path),
        size=stage.where(path).stat().st_size,
        digest=file_digest(stage.where(path)),
    )


def _hub(publication: Publication, bundle: Path, stage: Stage) -> Iterator[Output]:
    from tilec.package.hub import hub_files

    info = publication.info
    for name, data in hub_files(info, bundle.read_bytes(), index_digest(info)).items():
        target = publication.path(*hub_path(info.package.name), *name.split("/"))
        yield _write("hub", target, data, stage)


def licences_of(manifest: Manifest) -> dict[str, bytes]:
    """Read the package's licence texts, by name.

    Raises:
        ManifestError: a file cannot be read.
    """
    texts = {}
    for name in manifest.package.license_files:
        try:
            texts[name] = contained(manifest.root, name).read_bytes()
        except OSError as exc:
            location = manifest.locate(("package", "license-files"))
            message = f"package.license-files: {name!r} cannot be read: {exc.strerror}"
            raise ManifestError((Diagnostic(message=message, location=location),)) from exc
    return texts


def _images(kind: str, publication: Publication) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of the standard files of one kind."""
    read = publication.read
    for variant in (one for kernel in publication.info.kernels for one in kernel.variants):
        if kind == "fatbin":
            images = [(image, read(image.digest)) for image in variant.images]
            yield f"{variant.id}.fatbin", write_fatbin(images)
        for image in variant.images:
            if image.target.kind.value == kind:
                yield f"{variant.id}-{image.target}.{kind}", read(image.digest)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore Ctrl-C, so that all outputs are renamed and recorded."""
    before = signal.getsignal(signal.SIGINT)
    # Other threads do not receive Ctrl-C. A handler that Python did not install cannot be restored.
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _remove(
    publication: Publication, stale: Mapping[Path, bool], note: Callable[[str], None]
) -> None:
    left = [path for path, own in stale.items() if not own]
    for path, own in stale.items():
        if own:
            path.unlink(missing_ok=True)
    output = publication.path()
    folders = {folder for path in stale for folder in path.parents if output in folder.parents}
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()  # fails if it is not empty
    if left:
        names = ", ".join(path.relative_to(publication.manifest.root).as_posix() for path in left)
        note(f"left of an earlier build, but changed since: {names}; delete what is not needed")


def _name_older_packages(publication: Publication, note: Callable[[str], None]) -> None:
    manifest = publication.manifest
    current = _inner_name(publication.info, file_digest(publication.bundle))
    for file in written_files(publication.path(), manifest.package.name):
        path = file.path
        if file.kind == "package" and path.suffix == ".tilec" and path.name != current:
            folder = path.parent.relative_to(manifest.root).as_posix()
            note(f"{folder} is of an earlier build: renew it by --emit package, or delete it")


def _inner_name(info: BundleInfo, digest: str) -> str:
    return f"{info.package.module}-{digest[:16]}.tilec"


def _write(kind: str, path: Path, data: bytes, stage: Stage) -> Output:
    changed = stage.write(path, data)
    return Output(kind=kind, path=str(path), size=len(data), digest=sha256(data), changed=changed)
