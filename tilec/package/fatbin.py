"""Standard fatbins, through nvFatbin: the images of one variant in one file.

cuobjdump and cuModuleLoad read them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType

from tilec_runtime.errors import CompileError, ToolchainError
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import ImageInfo

# A driver that is older than a compression method cannot read entries compressed with it.
_OPTIONS = ["-compress=false", "-host=linux"]


def write_fatbin(images: Sequence[tuple[ImageInfo, bytes]]) -> bytes:
    """Return a fatbin of images; equal images give equal bytes in any order.

    Args:
        images: images of one variant with their bytes, one per target. A driver selects by target
            alone.

    Raises:
        ToolchainError: nvFatbin is missing.
        CompileError: nvFatbin rejects an image.
    """
    ordered = sorted(images, key=lambda image: image[0].target)
    nvfatbin = _import()
    try:
        handle = nvfatbin.create(_OPTIONS, len(_OPTIONS))
    except Exception as exc:
        raise _missing(exc) from exc
    try:
        for info, data in ordered:
            _add(nvfatbin, handle, info, data)
        buffer = bytearray(nvfatbin.size(handle))
        nvfatbin.get(handle, buffer)
        return bytes(buffer)
    except nvfatbin.nvFatbinError as exc:
        raise CompileError(
            f"nvFatbin cannot finish the fatbin of {ordered[0][0].symbol}: {exc}",
            kernel=ordered[0][0].symbol,
        ) from exc
    finally:
        nvfatbin.destroy(handle)


def _import() -> ModuleType:
    try:
        return importlib.import_module("cuda.bindings.nvfatbin")
    except ImportError as exc:
        raise _missing(exc) from exc


def _missing(exc: Exception) -> ToolchainError:
    return ToolchainError(
        f"fatbins need nvFatbin of the CUDA toolkit, which cannot be used: {exc}",
        cause="the toolkit's wheels are not installed, or only some of them",
        fix="pip install 'tilec[build]'",
    )


def _add(nvfatbin: ModuleType, handle: int, info: ImageInfo, data: bytes) -> None:
    name = f"{info.symbol[:120]}.{info.target.kind.value}"
    try:
        match info.target.kind:
            case TargetKind.CUBIN:
                nvfatbin.add_cubin(
                    handle, data, len(data), _number(info.target, exact=info.exact), name
                )
            case TargetKind.PTX:
                nvfatbin.add_ptx(handle, data, len(data), info.target.number, name, "")
            case TargetKind.LTOIR:
                nvfatbin.add_ltoir(
                    handle, data, len(data), info.target.number, name, " ".join(info.linking)
                )
            case TargetKind.TILEIR:
                nvfatbin.add_tile_ir(handle, data, len(data), name, "")
    except nvfatbin.nvFatbinError as exc:
        raise CompileError(
            f"nvFatbin refuses the {info.target} image of {info.symbol}: {exc}",
            cause="the image is not what its target says, or this nvFatbin is older than the compiler that made it",
            fix="run `tilec doctor`; if all parts are of one toolkit, build again with an empty cache (`tilec cache clear`)",
            kernel=info.symbol,
            target=str(info.target),
        ) from exc


def _number(target: Target, *, exact: bool) -> str:
    """Return the architecture for the fatbin; a tile cubin runs on exactly its own."""
    if exact and not target.suffix and target.arch.ptx_a is not None:
        return f"{target.number}a"
    return target.number
