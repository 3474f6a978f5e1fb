"""Types as text, the way Tile IR writes them: `tile<8x16xf32>`, `ptr<f32>`, `tensor_view<?x4xf32, strides=[?,1]>`."""

from __future__ import annotations

from collections.abc import Iterable

from tilec_runtime.cpu.tileir.ir import (
    GatherScatterView,
    Padding,
    PartitionView,
    Pointer,
    Scalar,
    Signature,
    StridedView,
    TensorView,
    Tile,
    Token,
    Type,
)


def type_text(kind: Type) -> str:
    """A type as text."""
    match kind:
        case Scalar():
            return kind.text
        case Pointer(pointee, mark):
            return f"ptr<{pointee.text}{_mark(mark, ', <none>')}>"
        case Tile(element, shape):
            return f"tile<{''.join(f'{extent}x' for extent in shape)}{type_text(element)}>"
        case TensorView(element, shape, strides, mark):
            steps = f", strides=[{','.join(map(_extent, strides))}]" if strides else ""
            extents = "".join(f"{_extent(extent)}x" for extent in shape)
            return f"tensor_view<{extents}{element.text}{steps}{_mark(mark, ', #cuda_tile.ptr_attr<none>')}>"
        case PartitionView(tile, tensor, dims, padding):
            return f"partition_view<tile=({_times(tile)}), {_padding(padding)}{type_text(tensor)}{_dims(dims)}>"
        case StridedView(tile, steps_between, tensor, dims, padding):
            parts = f"tile=({_times(tile)}), traversal_strides=[{','.join(map(str, steps_between))}], "
            return f"strided_view<{parts}{_padding(padding)}{type_text(tensor)}{_dims(dims)}>"
        case GatherScatterView(tile, tensor, sparse, padding):
            return f"gather_scatter_view<tile=({_times(tile)}), {_padding(padding)}{type_text(tensor)}, sparse_dim={sparse}>"
        case Token():
            return "token"
        case Signature(params, results):
            return f"({', '.join(map(type_text, params))}) -> ({', '.join(map(type_text, results))})"


def _extent(extent: int | None) -> str:
    return "?" if extent is None else str(extent)


def _times(extents: Iterable[int]) -> str:
    return "x".join(map(str, extents))


def _mark(mark: int | None, text: str) -> str:
    return "" if mark is None else text


def _padding(padding: Padding | None) -> str:
    return f"padding_value = {padding.value}, " if padding else ""


def _dims(dims: tuple[int, ...]) -> str:
    return "" if dims == tuple(range(len(dims))) else f", dim_map=[{', '.join(map(str, dims))}]"
