"""Writes a build's outputs: bundle, package, wheel and standard files; all are written before the first of them takes its place."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tilec.bundle.atomic import Stage, output_error
from tilec.bundle.write import write_bundle
from tilec.compiler.events import Done
from tilec.compiler.fatbin import write_fatbin
from tilec.compiler.state import Output
from tilec.errors import Diagnostic, ManifestError
from tilec.manifest.types import Manifest
from tilec.model.arch import TargetKind
from tilec.model.digest import sha256
from tilec.model.kernel import BundleInfo
from tilec.plan import Plan
from tilec.stubs.render import render_package
from tilec.stubs.wheel import write_wheel

_SUFFIX = {TargetKind.CUBIN: "cubin", TargetKind.PTX: "ptx"}
HOLDS_PACKAGE = frozenset(("package", "wheel"))
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


def publish(publication: Publication, previous: Sequence[Output], *, remember: Callable[[tuple[Output, ...]], None]) -> tuple[Output, ...]:
    """Write everything that `emit` names, and remove standard files of the previous build that this one no longer makes.

    Everything is written beside its place first, then renamed: the bundle, the package, the wheel, standard files. A package names its
    bundle by digest and is switched over by the rename of its `__init__.py`, so that at any moment it is the old one or the new one.

    Args:
        publication: what is to be written.
        previous: outputs of the previous build.
        remember: told of the outputs when they are in place, and not kept from it by Ctrl-C.

    Raises:
        OutputError: something cannot be written; what was there before is untouched. (A rename that fails in the middle, which only
            somebody else's doing can bring about, leaves files that are untouched beside others that are whole and newer.)
    """
    info, directory = publication.info, Path(publication.manifest.root) / publication.manifest.output.dir
    with Stage() as stage:
        outputs = tuple(_staged(publication, directory, stage))
        with _undisturbed():
            stage.put_in_place()
            _remove_stale(previous, outputs)
            if "package" in publication.emit:
                _remove_old_bundles(directory / info.package.module, info, outputs)
            remember(outputs)
    return outputs


def _staged(publication: Publication, directory: Path, stage: Stage) -> Iterator[Output]:
    info, wanted = publication.info, "bundle" in publication.emit
    bundle = (directory if wanted else publication.scratch) / f"{info.package.name}-{info.package.version}.tilec"
    old = _digest_of(bundle)
    digest = write_bundle(bundle, info, publication.read, max_size=publication.manifest.output.max_size, stage=stage if wanted else None)
    bundle, place = stage.where(bundle), bundle
    if wanted:
        yield Output(kind="bundle", path=str(place), size=bundle.stat().st_size, digest=digest, changed=digest != old)
    if "package" in publication.emit:
        yield from _package(directory / info.package.module, info, bundle, digest, stage)
    if "wheel" in publication.emit:
        yield _wheel(directory, publication, bundle, digest, stage)
    yield from _standard_files(directory, publication, stage)


def _package(directory: Path, info: BundleInfo, bundle: Path, digest: str, stage: Stage) -> Iterator[Output]:
    name = _inner_name(info, digest)
    files = render_package(info, name)
    yield _write("package", directory / name, bundle.read_bytes(), stage)
    last = "__init__.py"
    for file in sorted(files, key=lambda file: (file == last, file)):
        yield _write("package", directory / file, files[file], stage)


def _wheel(directory: Path, publication: Publication, bundle: Path, digest: str, stage: Stage) -> Output:
    info, manifest = publication.info, publication.manifest
    name = _inner_name(info, digest)
    module = info.package.module
    files: dict[str, bytes | Path] = {f"{module}/{file}": data for file, data in render_package(info, name).items()}
    files[f"{module}/{name}"] = bundle
    licences = {licence: _read_licence(manifest, licence) for licence in manifest.package.license_files}
    path = write_wheel(directory, package=info.package, files=files, license_files=licences, requires=RUNTIME, stage=stage)
    return Output(kind="wheel", path=str(path), size=stage.where(path).stat().st_size, digest=_digest_of(stage.where(path)))


def _read_licence(manifest: Manifest, name: str) -> bytes:
    try:
        return (Path(manifest.root) / name).read_bytes()
    except OSError as exc:
        location = manifest.locate(("package", "license-files"))
        message = f"package.license-files: {name!r} cannot be read: {exc.strerror}"
        raise ManifestError((Diagnostic(message=message, location=location),)) from exc


def _standard_files(directory: Path, publication: Publication, stage: Stage) -> Iterator[Output]:
    rows = iter(publication.done)
    for kernel in publication.plan.kernels:
        images: dict[str, list[Done]] = {}
        for job in kernel.jobs:
            done = next(rows)
            images.setdefault(job.variant.id, []).append(done)
            suffix = _SUFFIX.get(job.target.kind)
            if suffix in publication.emit and suffix is not None:
                yield _write(suffix, directory / suffix / f"{job.id}.{suffix}", publication.read(done.info.digest), stage)
        if "fatbin" in publication.emit:
            for variant, parts in images.items():
                data = write_fatbin([(part.info, publication.read(part.info.digest)) for part in parts])
                yield _write("fatbin", directory / "fatbin" / f"{variant}.fatbin", data, stage)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Too late for Ctrl-C: the outputs are switched over whole."""
    before = signal.getsignal(signal.SIGINT)
    # No other thread hears of it, and a handler that is not Python's could not be put back.
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _remove_stale(previous: Sequence[Output], outputs: Sequence[Output]) -> None:
    current = {output.path for output in outputs}
    for output in previous:
        if output.kind in _STANDARD and output.path not in current:
            Path(output.path).unlink(missing_ok=True)


def _remove_old_bundles(package: Path, info: BundleInfo, outputs: Sequence[Output]) -> None:
    current = {output.path for output in outputs}
    for stale in package.glob(f"{info.package.module}-*.tilec"):
        if str(stale) not in current:
            stale.unlink(missing_ok=True)


def _inner_name(info: BundleInfo, digest: str) -> str:
    return f"{info.package.module}-{digest[:16]}.tilec"


def _write(kind: str, path: Path, data: bytes, stage: Stage) -> Output:
    changed = stage.write(path, data)
    return Output(kind=kind, path=str(path), size=len(data), digest=sha256(data), changed=changed)


def _digest_of(path: Path) -> str:
    try:
        return sha256(path.read_bytes())
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise output_error(path, exc) from exc
