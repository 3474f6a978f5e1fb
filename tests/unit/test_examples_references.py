"""The references of the examples against formulas written out another way, element by element."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest

PATH = Path(__file__).resolve().parents[2] / "examples" / "reference.py"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("examples_reference", PATH)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_vector_add(reference: ModuleType, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=9).astype(np.float16), rng.normal(size=9).astype(np.float16)
    assert reference.vector_add(x, y).tolist() == [
        float(a) + float(b) for a, b in zip(x, y, strict=True)
    ]


def test_saxpy(reference: ModuleType, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=5).astype(np.float32), rng.normal(size=5).astype(np.float32)
    assert reference.saxpy(y, x, 2.5).tolist() == [
        2.5 * float(a) + float(b) for a, b in zip(x, y, strict=True)
    ]


def test_softmax(reference: ModuleType, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 7)).astype(np.float32)
    x[0, 0] = 700.0  # exp of it is beyond f32
    expected = [
        [1.0 / math.fsum(math.exp(float(other) - float(one)) for other in row) for one in row]
        for row in x
    ]
    np.testing.assert_allclose(reference.softmax(x), expected, rtol=1e-12)


def test_rms_norm(reference: ModuleType, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 6)).astype(ml_dtypes.bfloat16)
    w = rng.normal(size=6).astype(ml_dtypes.bfloat16)
    actual = reference.rms_norm(x, w, 1e-3)
    for r in range(2):
        rms = math.sqrt(math.fsum(float(v) ** 2 for v in x[r]) / 6 + 1e-3)
        for c in range(6):
            assert actual[r, c] == pytest.approx(float(x[r, c]) / rms * float(w[c]), rel=1e-12)


def test_layer_norm(reference: ModuleType, rng: np.random.Generator) -> None:
    x = rng.uniform(100, 101, size=(3, 5)).astype(np.float32)
    w, b = rng.normal(size=5).astype(np.float32), rng.normal(size=5).astype(np.float32)
    actual = reference.layer_norm(x, w, b, 1e-5)
    for r in range(3):
        row = [float(v) for v in x[r]]
        mean = math.fsum(row) / 5
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in row) / 5 + 1e-5)
        for c in range(5):
            assert actual[r, c] == pytest.approx(
                (row[c] - mean) / deviation * float(w[c]) + float(b[c]), rel=1e-10
            )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_gemm(reference: ModuleType, rng: np.random.Generator, dtype: type) -> None:
    a, b = rng.normal(size=(3, 5)).astype(dtype), rng.normal(size=(5, 4)).astype(dtype)
    expected = [
        [math.fsum(float(a[i, k]) * float(b[k, j]) for k in range(5)) for j in range(4)]
        for i in range(3)
    ]
    np.testing.assert_allclose(reference.gemm(a, b), expected, rtol=1e-5, atol=1e-6)


def test_reduce_sum_adds_to_what_is_there(reference: ModuleType) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert reference.reduce_sum(np.array([0.5], np.float32), x).tolist() == [66.5]


def test_block_scan_keeps_integers(reference: ModuleType) -> None:
    x = np.array([[1, 2, 3, -4], [5, 0, 0, 2**30]], np.int32)
    actual = reference.block_scan(x)
    assert actual.dtype == np.int32
    assert actual.tolist() == [[1, 3, 6, 2], [5, 5, 5, 5 + 2**30]]


def test_elementwise_takes_the_shape_of_its_output(reference: ModuleType) -> None:
    x = np.array([[1.0, 2.0, 3.0]], np.float16)
    actual = reference.elementwise(x, np.zeros(3, np.float16), 2.0, -1.0)
    assert actual.tolist() == [1.0, 3.0, 5.0]


def test_stencil_repeats_the_edge(reference: ModuleType, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4)).astype(np.float32)
    actual = reference.stencil(x, 0.25)
    for r in range(3):
        for c in range(4):
            near = [(r, max(c - 1, 0)), (r, min(c + 1, 3)), (max(r - 1, 0), c), (min(r + 1, 2), c)]
            expected = float(x[r, c]) + 0.25 * (sum(float(x[p]) for p in near) - 4 * float(x[r, c]))
            assert actual[r, c] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_square_add(reference: ModuleType) -> None:
    assert reference.square_add(np.array([3.0, -2.0], np.float32), -1.0).tolist() == [8.0, 3.0]
