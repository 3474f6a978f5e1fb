"""cuda.tile's operations on tiles, its dtypes and modes, without memory access; typed in `ops.pyi`."""

from __future__ import annotations

from typing import Any

import cuda.tile as _tile

# Left out: memory access, which goes through `Ref` and `Mut`; unchecked compiler hints, which go
# through the manifest; functions that launch or compile. For `Ptr`, import cuda.tile itself.
_MEMORY = (
    "load",
    "store",
    "gather",
    "scatter",
    "load_advanced_indexing",
    "store_advanced_indexing",
    "Array",
    "TiledView",
    "num_tiles",
    "Slice",
)
_HOST = (
    "launch",
    "kernel",
    "function",
    "compilation",
    "tune",
    "compiler_timeout",
    "ByTarget",
    "Constant",
    "Scalar",
)
_PROMISES = ("assume_divisible_by",)
_TYPES = ("IndexedWithInt64", "ScalarInt64", "StaticException", "foreign_pointer_dtype")


def _is_operation(name: str) -> bool:
    return not (
        name in _MEMORY
        or name in (*_HOST, *_PROMISES, *_TYPES)
        or name.startswith(("atomic_", "Tile", "grid_dependency"))
        or name.endswith("Annotation")
    )


_found: dict[str, Any] = {
    name: getattr(_tile, name) for name in _tile.__all__ if _is_operation(name)
}
_found["Tile"] = _tile.Tile
_found["Padding"] = _tile.PaddingMode
globals().update(_found)
__all__ = sorted(_found)
