"""Memory as real kernels use it, on the CPU: views of all kinds, pointers, atomics, and what they
do at the edges.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilec_runtime.cpu.tileir.values import Array
from tilec_runtime.errors import FaultError

pytestmark = pytest.mark.toolchain
pytest.importorskip("cuda.tile", reason="needs cuda-tile")

from tests.toolchain import tileir_memory_kernels as kernels  # noqa: E402 - imports cuda.tile

ORDERS: list[dict[str, Any]] = [{}, {"order": "reverse"}, {"order": 7}, {"batch": 1}, {"batch": 3}]


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(0).integers(-60, 60, shape).astype(dtype)


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("shape", [(8, 16), (9, 13), (1, 1), (0, 3)])
def test_tiles_are_copied_up_to_the_edges(options: dict[str, Any], shape: tuple[int, int]) -> None:
    x, y = numbers(*shape), np.full(shape, 99, np.float32)
    kernels.run(kernels.copy, (3, 2), x, y, **options)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("name", sorted(kernels.DTYPES))
def test_every_type_of_element_is_copied(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    x = numbers(9, 13, dtype=dtype)
    y = np.zeros_like(x)
    kernels.run(kernels.copy, (3, 2), x, y)
    assert y.tobytes() == x.tobytes()


@pytest.mark.parametrize("steps", [(2, 1), (1, 3), (-1, 1), (1, -2)])
def test_arrays_with_other_strides(steps: tuple[int, int]) -> None:
    x = numbers(30, 40)[:: steps[0], :: steps[1]][:9, :13]
    y = np.zeros((40, 30), np.float32).T[:9, :13]
    kernels.run(kernels.copy, (3, 2), x, y)
    np.testing.assert_array_equal(y, x)


def test_padding() -> None:
    x, made = numbers(13), [np.ones(24, np.float32) for _ in range(5)]
    kernels.run(kernels.padded, (3,), x, *made)
    for y, value in zip(made, (0.0, -0.0, np.nan, np.inf, -np.inf), strict=True):
        expected = np.full(24, value, np.float32)
        expected[:13] = x
        assert y.tobytes() == expected.tobytes()


def test_the_order_of_dimensions() -> None:
    x, y = numbers(21, 10), np.zeros((12, 24), np.float32)
    kernels.run(kernels.transposed, (3, 3), x, y)
    expected = np.zeros_like(y)
    expected[:10, :21] = x.T
    np.testing.assert_array_equal(y, expected)


def test_windows_that_overlap() -> None:
    x, y = numbers(20), np.zeros(7, np.float32)
    kernels.run(kernels.windows, (7,), x, y)
    assert y.tolist() == [x[3 * i : 3 * i + 8].sum() for i in range(7)]


@pytest.mark.parametrize("options", ORDERS)
def test_rows_by_their_indices(options: dict[str, Any]) -> None:
    x, rows = numbers(10, 13), np.array([5, 0, 5, 9, 3, -1, 10, 1], np.int32)
    y = np.full((8, 8), 99, np.float32)
    kernels.run(kernels.gathered, (2,), x, rows, y, 7, **options)
    expected = np.zeros((8, 8), np.float32)
    for place, row in enumerate(rows):
        if 0 <= row < 10:
            expected[place, :6] = x[row, 7:13]
    np.testing.assert_array_equal(y, expected)
    z = np.zeros_like(x)
    rows = np.array([5, 0, 4, 9, 3, -1, 10, 1], np.int32)
    kernels.run(kernels.scattered, (2,), y, rows, z, 7, **options)
    expected = np.zeros_like(x)
    for place, row in enumerate(rows):
        if 0 <= row < 10:
            expected[row, 7:13] = y[place, :6]
    np.testing.assert_array_equal(z, expected)


def test_elements_by_their_indices() -> None:
    x, y = numbers(20), np.zeros(20, np.float32)
    index = np.random.default_rng(1).permutation(32).astype(np.int32) - 6
    kernels.run(kernels.picked, (2,), x, index, y)
    np.testing.assert_array_equal(y, x)


def test_an_index_outside_is_found() -> None:
    x, index, y = numbers(20), np.arange(32, dtype=np.int32), np.zeros(32, np.float32)
    with pytest.raises(FaultError) as error:
        kernels.run(kernels.unchecked, (2,), x, index, y, kernel="unchecked[f32]")
    assert error.value.what.startswith("unchecked[f32]: load_ptr_tko reads address 0x")
    assert "which is element 20 of array0 with 20 elements, in block (1, 0, 0)" in error.value.what
    assert (error.value.block, error.value.parameter, error.value.index) == (
        (1, 0, 0),
        "array0",
        (20,),
    )
    assert error.value.location is not None
    assert error.value.location.file.endswith("tileir_memory_kernels.py")
    index[:] = 19 - index % 20
    kernels.run(kernels.unchecked, (2,), x, index, y)
    np.testing.assert_array_equal(y, x[index])


def test_a_promise_of_bounds_that_is_broken() -> None:
    x, y = numbers(32), np.zeros(32, np.float32)
    kernels.run(kernels.promised, (2,), x, y)
    np.testing.assert_array_equal(y, x)
    with pytest.raises(
        FaultError,
        match=r"element 24 of a view with extents 24, though it is declared in bounds, in block \(1, 0, 0\)",
    ):
        kernels.run(kernels.promised, (2,), numbers(24), y)


@pytest.mark.parametrize("options", ORDERS)
def test_a_histogram(options: dict[str, Any]) -> None:
    x = np.random.default_rng(0).integers(0, 10, 640).astype(np.int32)
    bins, before = np.zeros(10, np.int32), np.full(640, -1, np.int32)
    kernels.run(kernels.histogram, (10,), x, bins, before, **options)
    np.testing.assert_array_equal(bins, np.bincount(x))
    for number in range(10):
        assert sorted(before[x == number].tolist()) == list(range(bins[number]))


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_blocks_add_to_one_tile(options: dict[str, Any], dtype: Any) -> None:
    x, y = numbers(80, dtype=dtype), np.ones(7, dtype)
    kernels.run(kernels.totals, (10,), x, y, **options)
    np.testing.assert_array_equal(y, 1 + x.reshape(10, 8).sum(axis=0)[:7])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_extremes_of_all_blocks(dtype: Any) -> None:
    x = (
        np.random.default_rng(0)
        .integers(0 if dtype is np.uint32 else -(1 << 31), 1 << 31, 160)
        .astype(dtype)
    )
    if dtype is np.uint32:
        x *= 2
    low, high = np.array([x[0]]), np.array([x[0]])
    kernels.run(kernels.extremes, (10,), x, low, high)
    assert (low[0], high[0]) == (x.min(), x.max())


@pytest.mark.parametrize("options", ORDERS)
def test_each_block_has_a_slice_of_its_own(options: dict[str, Any]) -> None:
    x, starts = numbers(20), np.array([0, 3, 3, 11, 12, 20], np.int32)
    y = np.zeros((5, 8), np.float32)
    kernels.run(kernels.ragged, (5,), x, starts, y, **options)
    for i in range(5):
        part = x[starts[i] : starts[i + 1]]
        np.testing.assert_array_equal(y[i, : len(part)], part)
        assert np.isnan(y[i, len(part) :]).all()


def test_shapes_of_arrays_and_of_tiles() -> None:
    y = np.zeros(4, np.int32)
    kernels.run(kernels.shapes, (1,), numbers(9, 16), y)
    assert y.tolist() == [9, 16, 3, 2]
