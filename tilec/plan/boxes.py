"""Boxes of tensor descriptors, `descriptor(x, BM, BK)`, held against the manifest: what a compiler
would find out only for each image.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.tensormap import GRANULE, MOST_RANK


def fault_of(text: str, params: Mapping[str, Param], axes: Mapping[str, object]) -> str:
    """What is wrong with a box at one point of the matrix, with what would do; empty where nothing
    is.
    """
    name, box = expr.parse_box(text)
    param = params.get(name)
    if param is None or param.kind is not ParamKind.TENSOR:
        return f"{text}: {name!r} is no tensor of the launcher"
    if param.rank != len(box) or not 1 <= param.rank <= MOST_RANK:
        return f"{text} has a box of {len(box)} extents, and {name} has rank {param.rank}"
    if param.align % GRANULE:
        return f"{name} is passed as a tensor descriptor, and nothing says that it is aligned: params.{name}.aligned = {GRANULE}"
    try:
        extents: list[Any] = [part.evaluate(dict(axes)) for part in box]
    except ExpressionError as error:
        return f"{text}: {error.what}: the extents of a box are numbers and axes of the matrix"
    if not all(
        type(extent) is int and extent > 0 and not extent & (extent - 1) for extent in extents
    ):
        return f"{text}: a box has extents that are powers of two, and these are {', '.join(map(str, extents))}"
    dtype = DTYPES.get(str(axes.get(param.dtype, param.dtype)))
    if dtype is not None and extents[-1] * dtype.bytes < GRANULE:
        row = f"{extents[-1]} x {dtype.bytes}"
        return f"{text}: a row of a box has {GRANULE} bytes at least, and {row} are {extents[-1] * dtype.bytes}: widen the last extent"
    return ""
