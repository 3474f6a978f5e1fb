"""The safe tile language over cuda.tile: a kernel's signature declares the regions it may access.

Kernel modules import it with `import tilec.lang as tl`.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from tilec.lang.kernel import Kernel as Kernel
from tilec.lang.kernel import kernel as kernel
from tilec.lang.kernel import preconditions as preconditions
from tilec.model.axes import Axis as Axis
from tilec.model.axes import DTypeAxis as DTypeAxis
from tilec.model.axes import SizeAxis as SizeAxis
from tilec.model.axes import dtype as dtype
from tilec.model.axes import size as size
from tilec_runtime.errors import ToolchainError

try:
    import cuda.tile  # noqa: F401 - fail at import, with a message that names the package
except ModuleNotFoundError as exc:
    if exc.name not in ("cuda", "cuda.tile"):
        raise
    _what = "tilec.lang needs cuda-tile, which is not installed"
    _cause = "kernel modules are for building: a generated package and its launchers do without"
    raise ToolchainError(_what, cause=_cause, fix="pip install 'tilec[build]'") from exc

from tilec.lang.arrays import Mut as Mut
from tilec.lang.arrays import Ptr as Ptr
from tilec.lang.arrays import Ref as Ref
from tilec.lang.mapped import MappedMut as MappedMut
from tilec.lang.mapped import Place as Place
from tilec.lang.marks import BACKWARD as BACKWARD
from tilec.lang.marks import Constant as Constant
from tilec.lang.ops import *  # noqa: F403 - the operations of cuda.tile, listed in ops.pyi
from tilec.lang.ops import Padding as Padding
from tilec.lang.ops import Tile as Tile
from tilec.lang.span import SpanMut as SpanMut

_T = TypeVar("_T")
Const = Annotated[_T, Constant()]
"""A compile-time constant: `BK: tl.Const[int]` takes the values of the axis BK, or its default."""


def load_tile_like(
    x: Ref, z: Mut, *, broadcast: int | tuple[int, ...] = (), padding: Padding = Padding.ZERO
) -> Tile:
    """Load the tile of `x` that has the index and shape of the block's own region of `z`."""
    return x.load_tile_like(z, broadcast=broadcast, padding=padding)
