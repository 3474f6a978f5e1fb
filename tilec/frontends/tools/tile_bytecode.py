"""Read the entry points that Tile IR bytecode declares.

The reader of `tilec_runtime.cpu.tileir` is imported only for a kernel that comes as bytecode.
"""

from __future__ import annotations

from tilec.frontends.tools.compiled_files import Prebuilt
from tilec.frontends.tools.files import fault
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import Location, TileIRError
from tilec_runtime.model.arch import Version
from tilec_runtime.model.dtype import DTYPES

# tilec's dtypes by Tile IR's names of element types, where these differ. Tile IR's integers have
# no sign.
_DTYPES = {"i1": "bool", "f8e4m3fn": "f8e4m3", "f8e8m0fnu": "f8e8m0", "f4e2m1fn": "f4e2m1"}


def dtype_of(element: str) -> str:
    """Return tilec's dtype of a Tile IR element type (`f8E4M3FN`), or an empty string."""
    name = _DTYPES.get(element.lower(), element.lower())
    return name if name in DTYPES else ""


def read_tile(file: Prebuilt) -> tuple[Version, tuple[KernelDecl, ...]]:
    """Return the version and the entry points of a bytecode file; parameters have their sizes.

    Raises:
        CompileError: it is damaged, of an unknown version, has no entry point, or has one with a
            parameter that is neither an address nor a number.
    """
    from tilec_runtime.cpu.tileir.read import read_module

    try:
        module = read_module(file.data)
    except TileIRError as exc:
        raise fault(file.path, exc.what, cause=exc.cause, fix=exc.fix) from exc
    entries = tuple(
        KernelDecl(
            name=function.name,
            qualified=function.name,
            location=Location(file=file.path, line=1),
            params=tuple(
                _param(kind, index, function.name, file.path)
                for index, kind in enumerate(function.signature.params)
            ),
            named=False,
            simt=False,
        )
        for function in module.functions
        if function.entry
    )
    if not entries:
        raise fault(file.path, "this Tile IR declares no entry point")
    return module.version, entries


def _param(kind: object, index: int, entry: str, path: str) -> ParamDecl:
    from tilec_runtime.cpu.tileir.ir import Pointer, Scalar, Tile

    element = kind.element if isinstance(kind, Tile) and not kind.shape else None
    pointer = isinstance(element, Pointer)
    pointee = element.pointee if isinstance(element, Pointer) else element
    if not isinstance(pointee, Scalar):
        raise fault(path, f"parameter {index} of {entry} is neither an address nor a number")
    dtype = dtype_of(str(pointee))
    # Integers have no sign in Tile IR: the manifest may declare one.
    type_ = dtype if dtype.startswith(("f", "bf")) else ""
    return ParamDecl(
        name=f"param_{index}",
        type=f"ptr<{dtype}>" if pointer else type_,
        kind="tensor" if pointer else "scalar",
        dtype=dtype,
        out=True if pointer else None,
        size=8 if pointer else -(-pointee.bits // 8),
        location=Location(file=path, line=1),
    )
