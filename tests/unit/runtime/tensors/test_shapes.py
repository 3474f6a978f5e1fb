"""Shapes, strides and slices against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec_runtime.device.layout import contiguous_stride, settled_stride
from tilec_runtime.errors import TensorError
from tilec_runtime.tensors.shapes import (
    checked_shape,
    grid_of,
    is_contiguous,
    reinterpreted,
    reshaped,
    sliced,
)

SHAPES = st.lists(st.integers(0, 6), max_size=4).map(tuple)


@st.composite
def indices(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    parts: list[Any] = []
    for extent in shape[: draw(st.integers(0, len(shape)))]:
        if extent and draw(st.booleans()):
            parts.append(draw(st.integers(-extent, extent - 1)))
        else:
            bound = st.none() | st.integers(-extent, extent)
            parts.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3))))
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), Ellipsis)
        tail = parts[parts.index(Ellipsis) + 1 :]  # these now speak of the last dimensions
        for place, part in enumerate(tail):
            extent = shape[len(shape) - len(tail) + place]
            if isinstance(part, int) and not -extent <= part < extent:
                parts[parts.index(Ellipsis) + 1 + place] = slice(None)
            elif isinstance(part, slice):
                parts[parts.index(Ellipsis) + 1 + place] = slice(None, None, part.step)
    return tuple(parts)


def whole(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index, for an array also where it has no dimensions."""
    return index if Ellipsis in index else (*index, ...)


def steps_of(array: np.ndarray) -> tuple[int, ...]:
    return settled_stride(array.shape, tuple(step // array.itemsize for step in array.strides))


@given(st.data(), SHAPES)
def test_slices_are_numpys(data: Any, shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    stride = contiguous_stride(shape)
    for _ in range(2):  # slices of slices too
        index = data.draw(indices(array.shape))
        part = array[whole(index)]
        found_shape, found_stride, offset = sliced(array.shape, stride, index)
        assert found_shape == part.shape
        assert found_stride == steps_of(part)
        if part.size:
            assert offset * 4 == part.ctypes.data - array.ctypes.data
        array, stride = part, found_stride


@given(SHAPES, st.data())
def test_reshapes_are_numpys(shape: tuple[int, ...], data: Any) -> None:
    size = math.prod(shape)
    factors = []
    rest = size
    while rest > 1 and len(factors) < 4:
        factors.append(data.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0])))
        rest //= factors[-1]
    new = [*factors, rest] if size else [0, data.draw(st.integers(0, 3))]
    array = np.zeros(shape)
    assert reshaped(shape, contiguous_stride(shape), tuple(new)) == array.reshape(new).shape
    if size:
        place = data.draw(st.integers(0, len(new) - 1))
        open_one = [*new[:place], -1, *new[place + 1 :]]
        assert reshaped(shape, contiguous_stride(shape), open_one) == array.reshape(open_one).shape


@given(SHAPES, st.data())
def test_contiguity_is_numpys(shape: tuple[int, ...], data: Any) -> None:
    part = np.zeros(shape)[whole(data.draw(indices(shape)))]
    assert is_contiguous(part.shape, steps_of(part)) == part.flags.c_contiguous


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=4))
def test_tiles_cover_a_tensor_and_none_is_outside(dims: list[tuple[int, int]]) -> None:
    shape, tile = tuple(n for n, _ in dims), tuple(size for _, size in dims)
    for extent, size, tiles in zip(shape, tile, grid_of(shape, tile), strict=True):
        assert (tiles - 1) * size < extent <= tiles * size


S, T = (4, 8), (8, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: checked_shape("ab"), "'ab' is no shape"),
        (lambda: checked_shape((3, -1)), r"shape \(3, -1\) has a negative extent"),
        (
            lambda: reshaped(S, T, (5, 5)),
            r"a tensor of shape \(4, 8\) has 32 elements, and shape \(5, 5\) has 25",
        ),
        (lambda: reshaped(S, T, (-1, 5)), r"shape \(-1, 5\) does not divide 32 elements"),
        (lambda: reshaped(S, T, (-1, -1)), r"shape \(-1, -1\) leaves two extents open"),
        (
            lambda: reshaped((4, 4), (8, 1), 16),
            r"a tensor of shape \(4, 4\) with strides \(8, 1\) is not contiguous, and cannot take",
        ),
        (
            lambda: sliced(S, T, slice(0, 5)),
            "range 0:5 is out of dimension 0, which has 4 elements",
        ),
        (
            lambda: sliced(S, T, (0, 0, 0)),
            r"3 indices for a tensor of 2 dimensions \(shape \(4, 8\)\)",
        ),
        (lambda: sliced(S, T, (..., ...)), "an index has one Ellipsis at most"),
        (
            lambda: sliced(S, T, slice(None, None, -1)),
            r"slice\(None, None, -1\) has step -1 in dimension 0",
        ),
        (
            lambda: sliced(S, T, slice("a", None)),
            r"slice\('a', None, None\) is no range of dimension 0",
        ),
        (lambda: sliced(S, T, 4), "index 4 is out of dimension 0, which has 4 elements"),
        (lambda: sliced(S, T, True), "index True is out of dimension 0"),
        (lambda: sliced(S, T, None), "None is no index of a tensor"),
        (
            lambda: reinterpreted((4, 4), (8, 1), (32, 32), 16),
            ".* is not contiguous, and cannot be reinterpreted",
        ),
        (
            lambda: reinterpreted((3,), (1,), (16, 32), -1),
            "6 bytes are no whole number of elements of 4 bytes",
        ),
        (
            lambda: reinterpreted((4,), (1,), (32, 32), 5),
            r"a tensor of 16 bytes cannot be of shape \(5,\) with elements of 4 bytes: those are 20 bytes",
        ),
        (
            lambda: grid_of(S, (4,)),
            r"a tile of shape \(4,\) does not divide a tensor of shape \(4, 8\)",
        ),
        (lambda: grid_of(S, (4, 0)), r"a tile of shape \(4, 0\) has an extent below 1"),
    ],
)
def test_what_does_not_fit_is_said(call: Any, message: str) -> None:
    with pytest.raises(TensorError, match=f"^{message}"):
        call()
