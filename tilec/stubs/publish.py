"""Writes a build's outputs: bundle, package, wheel and standard files; each appears whole or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tilec.bundle.atomic import output_error, write_if_changed
from tilec.bundle.write import write_bundle
from tilec.compiler.events import Done
from tilec.compiler.fatbin import write_fatbin
from tilec.compiler.state import Output
from tilec.errors import Diagnostic, ManifestError
from tilec.manifest.types import Manifest
from tilec.model.arch import TargetKind
from tilec.model.kernel import BundleInfo
from tilec.plan import Plan
from tilec.stubs.render import render_package
from tilec.stubs.wheel import write_wheel

_SUFFIX = {TargetKind.CUBIN: "cubin", TargetKind.PTX: "ptx"}
_STANDARD = ("fatbin", "cubin", "ptx")
RUNTIME = ("tilec>=0.1,<0.2",)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """What is to be written.

    Attributes:
        info: the bundle's index.
        plan: the plan, in whose order `done` is.
        done: the jobs' outcomes.
        read: gives an image's bytes by digest.
        emit: what to write.
        manifest: where to, and the package's texts.
        scratch: directory for a bundle that only packages and wheels hold.
    """

    info: BundleInfo
    plan: Plan
    done: Sequence[Done]
    read: Callable[[str], bytes]
    emit: Sequence[str]
    manifest: Manifest
    scratch: Path


def publish(publication: Publication, previous: Sequence[Output]) -> tuple[Output, ...]:
    """Write everything that `emit` names, and remove standard files of the previous build that this one no longer makes.

    The bundle comes first: the package and the wheel hold its bytes. A package names its bundle by digest and is switched over by one
    rename, so that at any moment it is the old one or the new one.

    Raises:
        OutputError: something cannot be written; what was there before is untouched, or whole and newer.
    """
    manifest, info = publication.manifest, publication.info
    directory = Path(manifest.root) / manifest.output.dir
    wanted = "bundle" in publication.emit
    bundle = (directory if wanted else publication.scratch) / f"{info.package.name}-{info.package.version}.tilec"
    outputs: list[Output] = []
    old = _digest_of(bundle)
    digest = write_bundle(bundle, info, publication.read, max_size=manifest.output.max_size)
    if wanted:
        outputs.append(Output(kind="bundle", path=str(bundle), size=bundle.stat().st_size, digest=digest, changed=digest != old))
    if "package" in publication.emit:
        outputs.extend(_package(directory / info.package.module, publication, bundle, digest))
    if "wheel" in publication.emit:
        outputs.append(_wheel(directory, publication, bundle, digest))
    outputs.extend(_standard_files(directory, publication))
    _remove_stale(previous, outputs)
    return tuple(outputs)


def _package(directory: Path, publication: Publication, bundle: Path, digest: str) -> Iterator[Output]:
    name = _inner_name(publication.info, digest)
    files = render_package(publication.info, name)
    yield _write("package", directory / name, bundle.read_bytes())
    last = "__init__.py"
    for file in sorted(files, key=lambda file: (file == last, file)):
        yield _write("package", directory / file, files[file])
    for stale in directory.glob(f"{publication.info.package.module}-*.tilec"):
        if stale.name != name:
            stale.unlink(missing_ok=True)


def _wheel(directory: Path, publication: Publication, bundle: Path, digest: str) -> Output:
    info, manifest = publication.info, publication.manifest
    name = _inner_name(info, digest)
    module = info.package.module
    files: dict[str, bytes | Path] = {f"{module}/{file}": data for file, data in render_package(info, name).items()}
    files[f"{module}/{name}"] = bundle
    licences = {licence: _read_licence(manifest, licence) for licence in manifest.package.license_files}
    path = write_wheel(directory, package=info.package, files=files, license_files=licences, requires=RUNTIME)
    return Output(kind="wheel", path=str(path), size=path.stat().st_size, digest=_digest_of(path))


def _read_licence(manifest: Manifest, name: str) -> bytes:
    try:
        return (Path(manifest.root) / name).read_bytes()
    except OSError as exc:
        location = manifest.locate(("package", "license-files"))
        message = f"package.license-files: {name!r} cannot be read: {exc.strerror}"
        raise ManifestError((Diagnostic(message=message, location=location),)) from exc


def _standard_files(directory: Path, publication: Publication) -> Iterator[Output]:
    rows = iter(publication.done)
    for kernel in publication.plan.kernels:
        images: dict[str, list[Done]] = {}
        for job in kernel.jobs:
            done = next(rows)
            images.setdefault(job.variant.id, []).append(done)
            suffix = _SUFFIX.get(job.target.kind)
            if suffix in publication.emit and suffix is not None:
                yield _write(suffix, directory / suffix / f"{job.id}.{suffix}", publication.read(done.info.digest))
        if "fatbin" in publication.emit:
            for variant, parts in images.items():
                data = write_fatbin([(part.info, publication.read(part.info.digest)) for part in parts])
                yield _write("fatbin", directory / "fatbin" / f"{variant}.fatbin", data)


def _remove_stale(previous: Sequence[Output], outputs: Sequence[Output]) -> None:
    current = {output.path for output in outputs}
    for output in previous:
        if output.kind in _STANDARD and output.path not in current:
            Path(output.path).unlink(missing_ok=True)


def _inner_name(info: BundleInfo, digest: str) -> str:
    return f"{info.package.module}-{digest[:16]}.tilec"


def _write(kind: str, path: Path, data: bytes) -> Output:
    changed = write_if_changed(path, data)
    return Output(kind=kind, path=str(path), size=len(data), digest=hashlib.sha256(data).hexdigest(), changed=changed)


def _digest_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise output_error(path, exc) from exc
