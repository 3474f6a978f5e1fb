"""Operators, built from their sample and called with NumPy's arrays on the cpu device."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.harness import Cli, copied

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "operators"


@pytest.fixture(scope="module")
def project(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copied(SAMPLE, tmp_path_factory.mktemp("operators") / "project")
    done = cli(root, "build")
    assert done.code == 0, done.err
    return root


@pytest.fixture(scope="module")
def kernels(project: Path) -> Iterator[Any]:
    sys.path.insert(0, str(project / "dist"))
    yield importlib.import_module("operators").load("cpu")
    sys.path.remove(str(project / "dist"))
    sys.modules.pop("operators")


def test_outputs_have_the_shapes_and_dtypes_of_the_manifest(kernels: Any) -> None:
    x = np.arange(130, dtype=np.float32)
    total, difference = kernels.both(x, np.ones_like(x))
    np.testing.assert_array_equal((total, difference), (x + 1, x - 1))
    np.testing.assert_array_equal(kernels.sums(x), [x[:64].sum(), x[64:128].sum(), x[128:].sum()])
    assert kernels.scale(x.astype(np.float16), factor=3.0).dtype == np.float16


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_softmax_and_its_gradient(kernels: Any, dtype: Any) -> None:
    x = np.random.default_rng(0).normal(size=(5, 40)).astype(dtype)
    weight = np.exp(x - x.max(1, keepdims=True))
    y = kernels.softmax(x, ROWS=4)
    np.testing.assert_allclose(y, weight / weight.sum(1, keepdims=True), rtol=1e-5)
    grad = np.random.default_rng(1).normal(size=x.shape).astype(dtype)
    expected = y * (grad - (y * grad).sum(1, keepdims=True))
    np.testing.assert_allclose(kernels.softmax_backward(grad, y), expected, rtol=1e-4, atol=1e-6)


def test_an_output_that_is_read_too_is_the_callers(kernels: Any) -> None:
    y = np.ones(70, np.float32)
    assert kernels.accumulate(y, y + 1) is None
    np.testing.assert_array_equal(y, np.full(70, 3, np.float32))
