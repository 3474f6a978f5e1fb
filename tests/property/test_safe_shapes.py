"""Kernels in the safe tile language give right answers at any extents on the cpu device: tiles that
hang over, single elements, strides.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tilec.build import build
from tilec.compile.events import Observer
from tilec.planning import BuildRequest
from tilec_runtime import Module, load, use_device
from tilec_runtime.errors import RequirementError

pytestmark = pytest.mark.toolchain

KERNELS = """
import tilec.lang as tl

T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")
BK = 8


@tl.kernel
def add(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2]):
    z.store(x.load_tile_like(z) + tl.load_tile_like(y, z))


@tl.kernel
def cube(z: tl.Mut[T, (2, 4, 8)], x: tl.Ref[T, 3]):
    z.store(x.load_tile(z.index, z.tile_shape) * 2)


@tl.kernel
def gemm(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2]):
    m, n = z.index
    acc = tl.zeros(z.tile_shape, T)
    for k in range(x.num_tiles(1, BK)):
        acc = tl.mma(x.load_tile((m, k), (BM, BK)), y.load_tile((k, n), (BK, BN)), acc)
    z.store(acc)


@tl.kernel
def strips(z: tl.MappedMut[T, (BM, BN), 4], x: tl.Ref[T, 2], y: tl.Ref[T, 2]):
    for tile in z.tiles:
        at = z.place(tile)
        m, n = at.index
        acc = tl.zeros(z.tile_shape, T)
        for k in range(x.num_tiles(1, BK)):
            acc = tl.mma(x.load_tile((m, k), (BM, BK)), y.load_tile((k, n), (BK, BN)), acc)
        z.store(at, acc)


@tl.kernel
def around(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], down: int, right: int):
    i, j = z.index
    z.store(x.load_tile((i + down, j + right), (BM, BN), padding=tl.Padding.NEG_INF))
"""
KERNELS += """

@tl.kernel
def grouped(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], G: tl.Const[int] = 3):
    i, j = z.index
    z.store(x.load_tile((i // G, j % G), (BM, BN)))


@tl.kernel
def loose(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2]):
    z.store(x.load_tile_like(z) + tl.load_tile_like(y, z))


@tl.kernel
def rows(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2]):
    z.store(x.load_tile_like(z, broadcast=0) + tl.load_tile_like(y, z, broadcast=(0, 1)))
"""
MANIFEST = """edition = 1
[package]
name = "shapes"
version = "1"
[targets]
default = ["tileir"]
"""
AXES = "matrix = { T = ['f32'], BM = [8], BN = [16] }\n"


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    root = tmp_path_factory.mktemp("shapes")
    tables = [
        f'[kernel.{name}]\nsource = "k.py"\n{AXES if name != "cube" else "matrix = {{ T = [{}] }}".format(chr(34) + "f32" + chr(34))}\n'
        for name in ("add", "cube", "gemm", "strips", "around", "grouped", "rows", "loose")
    ]
    tables.append(
        'launch.requires = ["min(x.size, z.size) > 0"]\n'
    )  # of `loose`: says something of both shapes
    (root / "k.py").write_text(KERNELS)
    (root / "tilec.toml").write_text(MANIFEST + "".join(tables))
    build(BuildRequest(manifest_path=root / "tilec.toml", workers=2), Observer())
    return load(Path(root / "dist" / "shapes-1.tilec"), "cpu")


EXTENT = st.integers(1, 40)
SEED = st.integers(0, 1000)


Array = np.ndarray[Any, Any]


def numbers(seed: int, *shape: int) -> Array:
    # Small integers: every sum and product of them is exact, in whatever order.
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def run(module: Module, kernel: str, *arguments: Any, grid: tuple[int, ...] = ()) -> None:
    with use_device("cpu"):
        op = module.ops[kernel](*arguments)
        (op.grid(*grid) if grid else op).sync()


@examples(30)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 20), SEED)
def test_three_dimensions(module: Module, a: int, b: int, c: int, seed: int) -> None:
    x, z = numbers(seed, a, b, c), np.full((a, b, c), np.nan, np.float32)
    run(module, "cube", z, x)
    np.testing.assert_array_equal(z, x * 2)


@examples(40)
@given(EXTENT, EXTENT, EXTENT, st.integers(0, 12), SEED)
def test_products(module: Module, m: int, n: int, k: int, blocks: int, seed: int) -> None:
    x, y, z = numbers(seed, m, k), numbers(seed + 1, k, n), np.full((m, n), np.nan, np.float32)
    if blocks:
        run(module, "strips", z, x, y, grid=(blocks,))
    else:
        run(module, "gemm", z, x, y)
    np.testing.assert_array_equal(z, x @ y)


@examples(40)
@given(EXTENT, EXTENT, EXTENT, EXTENT, st.integers(-4, 4), st.integers(-4, 4), SEED)
def test_tiles_of_any_index(
    module: Module, m: int, n: int, p: int, q: int, down: int, right: int, seed: int
) -> None:
    """The array and the output have extents of their own, and tiles wherever: what has no element
    in the array is padding.
    """
    x, z = numbers(seed, p, q), np.full((m, n), np.nan, np.float32)
    run(module, "around", z, x, down, right)
    around = np.full((280, 360), -np.inf, np.float32)
    around[120 : 120 + p, 160 : 160 + q] = x
    first, second = 120 + 8 * down, 160 + 16 * right
    np.testing.assert_array_equal(z, around[first : first + m, second : second + n])


def launched(
    module: Module, kernel: str, z: Array, *inputs: Array, wanted: Callable[[], Array] | None
) -> None:
    """The right answer, or a refusal that leaves the output alone."""
    if wanted is None:
        with pytest.raises(RequirementError, match=rf"^{kernel}: requires "):
            run(module, kernel, z, *inputs)
        assert np.isnan(z).all()
    else:
        run(module, kernel, z, *inputs)
        np.testing.assert_array_equal(z, wanted())


@examples(20)
@given(EXTENT, EXTENT, st.integers(-1, 1), st.integers(-1, 1), SEED)
def test_operands_of_an_elementwise_kernel_have_equal_shapes(
    module: Module, m: int, n: int, down: int, right: int, seed: int
) -> None:
    shape = (max(m + down, 1), max(n + right, 1))
    x, y, z = numbers(seed, *shape), numbers(seed + 1, m, n), np.full((m, n), np.nan, np.float32)
    launched(module, "add", z, x, y, wanted=(lambda: x + y) if shape == (m, n) else None)


@examples(20)
@given(EXTENT, EXTENT, st.integers(1, 2), st.integers(-1, 1), SEED)
def test_a_kernel_says_along_which_axes_it_broadcasts(
    module: Module, m: int, n: int, p: int, right: int, seed: int
) -> None:
    x, y = numbers(seed, p, max(n + right, 1)), numbers(seed + 1, 1, 1)
    z = np.full((m, n), np.nan, np.float32)
    fits = x.shape == (1, n)
    wanted = (lambda: np.broadcast_to(x + y, (m, n))) if fits else None
    launched(module, "rows", z, x, y, wanted=wanted)


def padded(x: Array, m: int, n: int) -> Array:
    """An array of m x n with x in its corner, and zeros."""
    found = np.zeros((m, n), np.float32)
    part = x[:m, :n]
    found[: part.shape[0], : part.shape[1]] = part
    return found


@examples(40)
@given(EXTENT, EXTENT, EXTENT, EXTENT, SEED)
def test_inputs_of_other_extents_are_padded_or_refused(
    module: Module, m: int, n: int, p: int, q: int, seed: int
) -> None:
    """Never read outside, whatever the author requires: a launch is refused where a whole tile lies
    there, and a part is padding.
    """
    x, y, z = numbers(seed, p, q), numbers(seed + 1, m, n), np.full((m, n), np.nan, np.float32)
    fits = -(-p // 8) >= -(-m // 8) and -(-q // 16) >= -(-n // 16)
    launched(module, "loose", z, x, y, wanted=(lambda: padded(x, m, n) + y) if fits else None)


@examples(40)
@given(st.integers(1, 80), st.integers(1, 120), st.integers(1, 40), st.integers(1, 70), SEED)
def test_quotients_and_remainders_of_indices(
    module: Module, m: int, n: int, p: int, q: int, seed: int
) -> None:
    x, z = numbers(seed, p, q), np.full((m, n), np.nan, np.float32)
    rows, columns = np.arange(m), np.arange(n)
    at = np.ix_(rows // 8 // 3 * 8 + rows % 8, columns // 16 % 3 * 16 + columns % 16)
    fits = -(-p // 8) >= -(-m // 8 // 3) and -(-q // 16) >= 3
    launched(module, "grouped", z, x, wanted=(lambda: padded(x, 80, 120)[at]) if fits else None)
