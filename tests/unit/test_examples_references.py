"""The references of the examples against formulas written out another way, element by element."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

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
