"""examples/kernels as a reader has it: every case on the cpu device, what is said of each kernel's
safety, and launches of other shapes.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.harness import Cli, copied
from tilec_runtime import Tensor, api, use_device

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain, pytest.mark.long]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kernels"
CHECKED_INSIDE = {
    "embedding": "table.load_tile at lookup.py",
    "kv_append": "cache.store_tile at lookup.py",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    root = copied(EXAMPLE, tmp_path_factory.mktemp("kernels") / "project")
    cli.good(root, "build", "--targets", "tileir")
    return root


@pytest.fixture(scope="module")
def package(project: Path):
    sys.path.insert(0, str(project / "dist"))
    try:
        yield importlib.import_module("tilec_kernels")
    finally:
        sys.path.remove(str(project / "dist"))
        del sys.modules["tilec_kernels"]


def test_every_case_passes_on_the_cpu_device(project: Path, cli: Cli) -> None:
    report = cli.good(project, "run", "--device", "cpu").out
    assert "68 cases on the cpu device: 68 passed" in report


def test_checks_inside_exactly_the_accesses_without_proof(project: Path, cli: Cli) -> None:
    report = cli.good(project, "inspect", "dist/tilec-kernels-0.1.0.tilec", "--safety").out
    assert "not guaranteed" not in report
    for name, part in zip(*_sections(report), strict=True):
        inside = part.split("\n  checked in the kernel\n")[1:]
        assert bool(inside) == (name in CHECKED_INSIDE), name
        assert not inside or CHECKED_INSIDE[name] in inside[0]


def _sections(report: str) -> tuple[list[str], list[str]]:
    parts = report.strip().split("\n\n")
    return [part.split()[0] for part in parts], parts


def tensor(array: np.ndarray) -> Tensor:
    return api.from_host(array).sync()


def test_the_same_seed_drops_the_same(package):
    x = np.ones(12001, np.float32)
    with use_device("cpu"):
        found = [
            package.ops.dropout(tensor(np.empty_like(x)), tensor(x).share(), seed, 0.5)
            .sync()[0]
            .to_host()
            for seed in (1, 1, 2)
        ]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).mean() > 0.4
    assert abs((found[0] != 0).mean() - 0.5) < 0.02


@pytest.mark.parametrize("length", [40, 1000, 8193])
def test_the_largest_of_rows_with_equal_and_missing_numbers(package, length):
    x = np.random.default_rng(length).integers(0, 30, (3, length)).astype(np.float32)
    x[0, ::7], x[1, 3:] = np.nan, -np.inf
    x[2] = np.nan
    with use_device("cpu"):
        logits = tensor(x).share()
        peaks = package.ops.group_peaks(
            tensor(np.zeros((3, -(-length // 32)), np.float32)), logits
        ).sync()[0]
        values, places = (tensor(np.zeros((3, 8), dtype)) for dtype in (np.float32, np.int32))
        values, places, *_ = package.ops.top_k(values, places, logits, peaks.share(), K=8).sync()
        values, places = values.to_host(), places.to_host()
    for row, found, at in zip(x, values, places, strict=True):
        known = np.flatnonzero(~np.isnan(row))
        right = known[np.argsort(-row[known], kind="stable")][:8]
        assert at.tolist() == [*right.tolist(), *[-1] * (8 - len(right))]
        assert found.tolist() == [*row[right].tolist(), *[-np.inf] * (8 - len(right))]


@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_a_mean_far_from_zero_costs_layer_norm_no_digits(package, mean):
    x = (np.random.default_rng(1).standard_normal((3, 777)) + mean).astype(np.float32)
    ones, zeros = np.ones(777, np.float32), np.zeros(777, np.float32)
    with use_device("cpu"):
        y = tensor(np.full_like(x, np.nan))
        y = (
            package.ops.layer_norm(
                y, tensor(x).share(), tensor(ones).share(), tensor(zeros).share(), 1e-5, COLS=1024
            )
            .sync()[0]
            .to_host()
        )
    wide = x.astype(np.float64)
    right = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, right, rtol=1e-4, atol=1e-5)


def test_places_outside_of_a_cache_are_left_out(package):
    cache = np.zeros((3, 4, 16), np.float16)
    new = np.ones((3, 2, 16), np.float16)
    with use_device("cpu"):
        start = tensor(np.array([-1, 3, 2_000_000_000], np.int32))
        found = (
            package.ops.kv_append(tensor(cache), tensor(new).share(), start.share())
            .sync()[0]
            .to_host()
        )
    assert found.any(axis=2).tolist() == [
        [True, False, False, False],
        [False, False, False, True],
        [False] * 4,
    ]
