"""Compiled code without a bundle, whoever made it (cubin, fatbin, PTX, Tile IR, a host's object or
library), told of as a bundle is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.prebuilt.declare import declared, opened_cubin
from tilec.frontends.prebuilt.ptx import read_ptx
from tilec.frontends.prebuilt.tools import Members, Opener
from tilec.frontends.tools import sass
from tilec.frontends.tools.compiled_files import FileKind, Prebuilt, kind_of
from tilec.frontends.tools.tile_bytecode import read_tile
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.bundle.cubin import is_for_linking, is_host_code, read_cubin
from tilec_runtime.errors import BundleError, Location, UsageError
from tilec_runtime.model.arch import ARCHS, Target, TargetKind
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.driver import cuda_of_ptx_isa
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind

# How a report calls each kind of file.
NAMES = {
    FileKind.PTX: "PTX",
    FileKind.CUBIN: "cubin",
    FileKind.FATBIN: "fatbin",
    FileKind.TILEIR: "Tile IR",
}
HOST = "host code"  # an object file, a library or a program, or an archive of objects, with fatbins inside
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)
_ARCHIVE = b"!<arch>\n"
_LANGUAGE = "prebuilt"
_ODD = f"this tilec knows {' to '.join(f'sm_{cc[0]}{cc[1]}' for cc in (min(ARCHS), max(ARCHS)))}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LooseCode:
    """A file of compiled code: every entry point is a kernel of one variant, with an image for each
    architecture.

    Attributes:
        kind: what the file is, as reports call it.
        digest: SHA-256 of the file (hex).
        info: its index.
        blobs: bytes of each image by digest.
        notes: what of the file is left out, and why.
    """

    kind: str
    digest: str
    info: BundleInfo
    blobs: dict[str, bytes]
    notes: tuple[str, ...] = ()

    def image(self, digest: str) -> bytes:
        """The bytes of an image."""
        return self.blobs[digest]

    def verify(self) -> None:
        """There is nothing to hold the bytes against.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"--verify: a file of {self.kind} states no digest of its bytes",
            fix="bundles do: verify the one that it came from",
        )


def open_loose(path: Path, data: bytes, search: ToolSearch) -> LooseCode:
    """Read a file of compiled code.

    Args:
        path: the file, for messages and its name.
        data: its bytes.
        search: where cuobjdump is looked for, which takes fatbins apart.

    Raises:
        CompileError: it is damaged, or no compiled code.
        BundleError: it is code that has no kernels of its own yet (LTO-IR, NVVM IR).
        ToolchainError: it is a fatbin, and cuobjdump is missing.
    """
    host = is_host_code(data) or data.startswith(_ARCHIVE)
    kind = FileKind.FATBIN if host else kind_of(str(path), data)  # cuobjdump takes both apart
    file = Prebuilt(path=str(path), kind=kind, data=data, digest=sha256(data))
    if file.kind not in NAMES:
        raise _not_yet(path, file.kind)
    opener = Opener(search)
    members = opener.members(file) if kind is FileKind.FATBIN else Members(files=(file,), others=())
    if not members.files:
        if all(other is FileKind.TILEIR for other, _ in members.others):
            declared(file, opener)  # raises, and says which file to name
        raise _not_yet(path, members.others[0][0])
    parts, notes = _known(members.files) if kind is FileKind.FATBIN else (members.files, ())
    decls = _declared(parts, opener)
    images: dict[str, list[ImageInfo]] = {}
    blobs = {}
    for part in parts:
        for image in _images(part):
            images.setdefault(image.symbol, []).append(image)
            blobs[image.digest] = part.data
    if any(image.required_block for found in images.values() for image in found):
        notes += (
            "occupancy is that of launches without dynamic shared memory: how much a launch takes, code does not tell",
        )
    kernels = tuple(
        _kernel(decls.get(symbol), symbol, found, path.name) for symbol, found in images.items()
    )
    package = PackageInfo(name=path.name, version="", module="")
    info = BundleInfo(package=package, kernels=kernels, profile="")
    return LooseCode(
        kind=HOST if host else NAMES[kind], digest=file.digest, info=info, blobs=blobs, notes=notes
    )


def _not_yet(path: Path, kind: FileKind) -> BundleError:
    return BundleError(
        f"{path}: {kind.value} is no code of an architecture yet",
        cause="it is compiled or linked before it runs",
        fix='take it into a project (`language = "prebuilt"`), build that, and inspect the bundle',
    )


def _known(parts: Sequence[Prebuilt]) -> tuple[tuple[Prebuilt, ...], tuple[str, ...]]:
    """The parts of a container that have kernels for an architecture that is known, and what is
    said of the others.

    Raises:
        BundleError: there are others alone.
    """
    kept, alien, unlinked = [], dict[str, int](), 0
    for part in parts:
        if part.kind is FileKind.CUBIN:
            try:
                cubin = read_cubin(part.data)
            except BundleError:
                cubin = opened_cubin(part)  # raises, and says which part it is
            if cubin.cc not in ARCHS:
                name = f"sm_{cubin.cc[0]}{cubin.cc[1]}"
                alien[name] = alien.get(name, 0) + 1
                continue
            if not cubin.kernels:  # device functions and variables alone
                continue
            unlinked += is_for_linking(part.data)
        elif part.kind is FileKind.PTX:
            target = _TARGET.search(part.text)
            if target is not None and (int(target[1]) // 10, int(target[1]) % 10) not in ARCHS:
                alien[f"compute_{target[1]}"] = alien.get(f"compute_{target[1]}", 0) + 1
                continue
            if ".entry" not in part.text:
                continue
        kept.append(part)
    notes = tuple(
        f"{count} of its images, for {name}, left out: {_ODD}"
        for name, count in sorted(alien.items())
    )
    if unlinked:
        notes += (
            f"{unlinked} cubin{'s' if unlinked > 1 else ''} still to be linked: shared memory is not known before that",
        )
    if not kept:
        what = "; ".join(notes) or "it holds device functions and variables alone, and no kernel"
        raise BundleError(
            f"{parts[0].path.partition(' (')[0]}: {what}",
            fix="take a newer tilec for a newer architecture" if notes else "",
        )
    return tuple(kept), notes


def _declared(parts: Sequence[Prebuilt], opener: Opener) -> dict[str, KernelDecl]:
    """What is known of each kernel's parameters: PTX says most of them, so that it is asked first."""
    found: dict[str, KernelDecl] = {}
    for part in sorted(parts, key=lambda part: part.kind is not FileKind.PTX):
        for decl in declared(part, opener):
            found.setdefault(decl.name, decl)
    return found


def _images(part: Prebuilt) -> Iterator[ImageInfo]:
    digest, size = sha256(part.data), len(part.data)
    if part.kind is FileKind.CUBIN:
        cubin = opened_cubin(part)
        suffix = "a" if cubin.accelerated and not cubin.tile else ""
        name = f"sm_{cubin.cc[0]}{cubin.cc[1]}{suffix}"
        if cubin.cc not in ARCHS:
            raise BundleError(
                f"{part.path}: this cubin is for {name}, and {_ODD}",
                fix="take a newer tilec for a newer architecture",
            )
        linked = not is_for_linking(part.data)
        for kernel in cubin.kernels:
            needs = sass.resources(part.data, kernel)
            yield ImageInfo(
                target=Target.parse(name),
                digest=digest,
                size=size,
                symbol=kernel.name,
                exact=cubin.tile,
                cuda=max(ARCHS[cubin.cc].toolkit, (cubin.toolkit[0], 0)),
                resources=needs if linked else dataclasses.replace(needs, shared=None),
                max_threads=kernel.max_threads,
                required_block=kernel.required_block,
                cluster=kernel.cluster,
            )
    elif part.kind is FileKind.PTX:
        module = read_ptx(part.text, part.path)
        for entry in module.entries:
            yield ImageInfo(
                target=module.target,
                digest=digest,
                size=size,
                symbol=entry.name,
                ptx_isa=module.isa,
                cuda=cuda_of_ptx_isa(module.isa),
                max_threads=entry.max_threads,
                required_block=entry.required_block,
                cluster=entry.cluster,
            )
    else:
        version, entries = read_tile(part)
        for tile in entries:
            yield ImageInfo(
                target=Target(TargetKind.TILEIR),
                digest=digest,
                size=size,
                symbol=tile.name,
                ptx_isa=version,
                cuda=version,
            )


def _kernel(decl: KernelDecl | None, symbol: str, images: list[ImageInfo], name: str) -> KernelInfo:
    return KernelInfo(
        name=symbol,
        language=_LANGUAGE,
        location=Location(file=name, line=decl.location.line if decl else 1),
        params=tuple(_param(param) for param in decl.params) if decl else (),
        launch=LaunchInfo(block=()),  # whoever launches it says how large its blocks are
        variants=(
            VariantInfo(id=symbol, images=tuple(sorted(images, key=lambda image: image.target))),
        ),
    )


def _param(param: ParamDecl) -> Param:
    if param.kind == "tensor":
        return Param(name=param.name, kind=ParamKind.PTR)
    if param.kind == "scalar":
        return Param(name=param.name, kind=ParamKind.SCALAR, dtype=param.dtype)
    if param.kind == "struct":
        return Param(name=param.name, kind=ParamKind.STRUCT, size=param.size)
    # Code does not tell an address from a number: how long it is, is all there is to say.
    return Param(name=param.name, kind=ParamKind.SCALAR, dtype=f"{param.size} bytes")
