"""Compiled code without a bundle, whoever made it (cubin, fatbin, PTX, Tile IR), told of as a bundle is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from tilec.errors import BundleError, Location, UsageError
from tilec.frontends import _sass
from tilec.frontends._prebuilt_declare import declared, opened_cubin
from tilec.frontends._prebuilt_files import FileKind, Prebuilt, kind_of
from tilec.frontends._prebuilt_ptx import read_ptx
from tilec.frontends._prebuilt_tile import read_tile
from tilec.frontends._prebuilt_tools import Opener
from tilec.frontends.base import ToolSearch
from tilec.model.arch import ARCHS, Target, TargetKind
from tilec.model.digest import sha256
from tilec.model.driver import cuda_of_ptx_isa
from tilec.model.image import ImageInfo
from tilec.model.kernel import BundleInfo, KernelDecl, KernelInfo, LaunchInfo, PackageInfo, ParamDecl, VariantInfo
from tilec.model.signature import Param, ParamKind

# How a report calls each kind of file.
NAMES = {FileKind.PTX: "PTX", FileKind.CUBIN: "cubin", FileKind.FATBIN: "fatbin", FileKind.TILEIR: "Tile IR"}
_LANGUAGE = "prebuilt"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LooseCode:
    """A file of compiled code: every entry point is a kernel of one variant, with an image for each architecture.

    Attributes:
        kind: what the file is.
        digest: SHA-256 of the file (hex).
        info: its index.
        blobs: bytes of each image by digest.
    """

    kind: FileKind
    digest: str
    info: BundleInfo
    blobs: dict[str, bytes]

    def image(self, digest: str) -> bytes:
        """The bytes of an image."""
        return self.blobs[digest]

    def verify(self) -> None:
        """There is nothing to hold the bytes against.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"--verify: a file of {NAMES[self.kind]} states no digest of its bytes", fix="bundles do: verify the one that it came from"
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
    file = Prebuilt(path=str(path), kind=kind_of(str(path), data), data=data, digest=sha256(data))
    if file.kind not in NAMES:
        raise BundleError(
            f"{path}: {file.kind.value} is no code of an architecture yet",
            cause="it is compiled or linked before it runs",
            fix='take it into a project (`language = "prebuilt"`), build that, and inspect the bundle',
        )
    opener = Opener(search)
    parts = opener.members(file).files if file.kind is FileKind.FATBIN else (file,)
    decls = {decl.name: decl for decl in declared(file, opener)}
    images: dict[str, list[ImageInfo]] = {}
    blobs = {}
    for part in parts:
        for image in _images(part):
            images.setdefault(image.symbol, []).append(image)
            blobs[image.digest] = part.data
    kernels = tuple(_kernel(decls.get(symbol), symbol, found, path.name) for symbol, found in images.items())
    package = PackageInfo(name=path.name, version="", module="")
    return LooseCode(kind=file.kind, digest=file.digest, info=BundleInfo(package=package, kernels=kernels, profile=""), blobs=blobs)


def _images(part: Prebuilt) -> Iterator[ImageInfo]:
    digest, size = sha256(part.data), len(part.data)
    if part.kind is FileKind.CUBIN:
        cubin = opened_cubin(part)
        suffix = "a" if cubin.accelerated and not cubin.tile else ""
        name = f"sm_{cubin.cc[0]}{cubin.cc[1]}{suffix}"
        if cubin.cc not in ARCHS:
            raise BundleError(f"{part.path}: this cubin is for {name}, which this tilec does not know", fix="take a newer tilec")
        for kernel in cubin.kernels:
            yield ImageInfo(
                target=Target.parse(name),
                digest=digest,
                size=size,
                symbol=kernel.name,
                exact=cubin.tile,
                cuda=max(ARCHS[cubin.cc].toolkit, (cubin.toolkit[0], 0)),
                resources=_sass.resources(part.data, kernel),
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
                required_block=entry.block,
                cluster=entry.cluster,
            )
    else:
        version, entries = read_tile(part)
        for tile in entries:
            yield ImageInfo(target=Target(TargetKind.TILEIR), digest=digest, size=size, symbol=tile.name, ptx_isa=version, cuda=version)


def _kernel(decl: KernelDecl | None, symbol: str, images: list[ImageInfo], name: str) -> KernelInfo:
    return KernelInfo(
        name=symbol,
        language=_LANGUAGE,
        location=Location(file=name, line=decl.location.line if decl else 1),
        params=tuple(_param(param) for param in decl.params) if decl else (),
        launch=LaunchInfo(block=()),  # whoever launches it says how large its blocks are
        variants=(VariantInfo(id=symbol, images=tuple(sorted(images, key=lambda image: image.target))),),
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
