"""What Tile IR bytecode declares; the reader of `tilec_runtime.cpu.tileir` is imported when a
kernel comes as bytecode.
"""

from __future__ import annotations

import dataclasses

from tilec.frontends.tools.compiled_files import Prebuilt, fault
from tilec_runtime.errors import TileIRError
from tilec_runtime.model.arch import Version
from tilec_runtime.model.dtype import DTYPES

# Tile IR's names of element types, where they differ from tilec's; integers have no sign in it.
_DTYPES = {"i1": "bool", "f8e4m3fn": "f8e4m3", "f8e8m0fnu": "f8e8m0", "f4e2m1fn": "f4e2m1"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TileParam:
    """A parameter of an entry: an address or a number, and its bytes; `dtype` is empty where tilec
    has no such element.
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
    """Return tilec's dtype of an element type of Tile IR, such as `f8E4M3FN`; empty for none."""
    name = _DTYPES.get(element.lower(), element.lower())
    return name if name in DTYPES else ""


def read_tile(file: Prebuilt) -> tuple[Version, tuple[TileEntry, ...]]:
    """The version and the entry points of a bytecode file.

    Raises:
        CompileError: it is damaged, of an unknown version, or has no entry point that takes
            addresses and numbers.
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
