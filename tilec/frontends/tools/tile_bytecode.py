"""Read the entry points that Tile IR bytecode declares.

The reader of `tilec_runtime.cpu.tileir` is imported only for a kernel that comes as bytecode.
"""

from __future__ import annotations

import dataclasses

from tilec.frontends.tools.compiled_files import Prebuilt
from tilec.frontends.tools.files import fault
from tilec_runtime.errors import TileIRError
from tilec_runtime.model.arch import Version
from tilec_runtime.model.dtype import DTYPES

# tilec's dtypes by Tile IR's names of element types, where these differ. Tile IR's integers have
# no sign.
_DTYPES = {"i1": "bool", "f8e4m3fn": "f8e4m3", "f8e8m0fnu": "f8e8m0", "f4e2m1fn": "f4e2m1"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TileParam:
    """A parameter of an entry: an address or a number.

    Attributes:
        pointer: whether it is an address.
        dtype: dtype of the number, or of the elements at the address; empty if tilec has none.
        size: bytes of the parameter.
    """

    pointer: bool
    dtype: str
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TileEntry:
    """An entry point of a module."""

    name: str
    params: tuple[TileParam, ...]


def dtype_of(element: str) -> str:
    """Return tilec's dtype of a Tile IR element type (`f8E4M3FN`), or an empty string."""
    name = _DTYPES.get(element.lower(), element.lower())
    return name if name in DTYPES else ""


def read_tile(file: Prebuilt) -> tuple[Version, tuple[TileEntry, ...]]:
    """Return the version and the entry points of a bytecode file.

    Raises:
        CompileError: it is damaged, of an unknown version, has no entry point, or has one with a
            parameter that is neither an address nor a number.
    """
    from tilec_runtime.cpu.tileir.ir import Pointer, Scalar, Tile
    from tilec_runtime.cpu.tileir.read import read_module

    try:
        module = read_module(file.data)
    except TileIRError as exc:
        raise fault(file.path, exc.what, cause=exc.cause, fix=exc.fix) from exc
    entries = []
    for function in module.functions:
        if not function.entry:
            continue
        params = []
        for index, kind in enumerate(function.signature.params):
            element = kind.element if isinstance(kind, Tile) and not kind.shape else None
            pointee = element.pointee if isinstance(element, Pointer) else element
            if not isinstance(pointee, Scalar):
                raise fault(
                    file.path,
                    f"parameter {index} of {function.name} is neither an address nor a number",
                )
            size = 8 if isinstance(element, Pointer) else -(-pointee.bits // 8)
            params.append(
                TileParam(
                    pointer=isinstance(element, Pointer),
                    dtype=dtype_of(str(pointee)),
                    size=size,
                )
            )
        entries.append(TileEntry(name=function.name, params=tuple(params)))
    if not entries:
        raise fault(file.path, "this Tile IR declares no entry point")
    return module.version, tuple(entries)
