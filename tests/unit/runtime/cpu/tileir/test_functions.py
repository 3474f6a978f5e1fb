"""Functions against those of the C library in long double."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir import tolerance
from tests.unit.runtime.cpu.tileir.build import run_op, tile
from tests.unit.runtime.cpu.tileir.samples import held_integers
from tilec_runtime.cpu.tileir.ir import Scalar
from tilec_runtime.cpu.tileir.values import Array, storage

KINDS = [Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64]
EXACT: dict[str, Callable[..., np.longdouble]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tan")},
    **{name: getattr(np, name) for name in ("sinh", "cosh", "tanh")},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "fpowf": np.power,
    "atan2": np.arctan2,
}


POSITIVE = {"log", "log2", "rsqrt", "fpowf"}


def run(name: str, kind: Scalar, *tiles: Array, **attributes: object) -> Array:
    names = {"fpowf": ("source", "exponent"), "atan2": ("x", "y")}.get(name, ("source",))
    operands = {
        key: (tile(kind, held.size), held[None]) for key, held in zip(names, tiles, strict=True)
    }
    (found,) = run_op(name, operands, tile(kind, tiles[0].size), attributes)
    assert found.dtype == storage(kind)
    return found[0]


def units(got: Array, exact: Array, kind: Scalar) -> Array:
    """Distances in units of the last place of the exact results."""
    info = ml_dtypes.finfo(storage(kind))  # type: ignore[no-untyped-call]
    exponents = np.maximum(np.frexp(exact)[1], info.minexp + 1)
    distances = np.abs(got - exact) / np.ldexp(np.longdouble(1), exponents - info.nmant - 1)
    too_large = np.abs(exact) >= float(info.max)
    return np.where(too_large, np.where(np.abs(got) >= float(info.max), 0, np.inf), distances)


def numbers(name: str, kind: Scalar) -> Array:
    rng = np.random.default_rng(5)
    some = np.concatenate(
        [
            rng.standard_normal(40) * 3,
            rng.standard_normal(20) * 0.01,
            [0.5, 1.0, -1.0, 2.0, 10.25, 0.99],
        ]
    )
    return (np.abs(some) if name in POSITIVE else some).astype(storage(kind))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_functions_come_as_near_as_said(name: str, kind: Scalar) -> None:
    tiles = [numbers(name, kind)]
    if name in ("fpowf", "atan2"):
        tiles.append(numbers("sin", kind)[::-1].copy())
    found = run(name, kind, *tiles).astype(np.longdouble)
    exact = EXACT[name](*[held.astype(np.longdouble) for held in tiles])
    assert units(found, exact, kind).max() <= tolerance.of(name, kind)


def power(base: Array, kind: Scalar, exponents: Array, number: Scalar) -> Array:
    shape = (len(base),)
    operands = {
        "source": (tile(kind, *shape), base[None]),
        "exponent": (tile(number, *shape), exponents[None]),
    }
    return run_op("fpowi", operands, tile(kind, *shape))[0][0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_powers_with_whole_exponents(kind: Scalar) -> None:
    base = np.array([1.5, -1.5, 0.5, -2.0, 3.0, 0.0, -1.0], np.float64).astype(storage(kind))
    exponents = held_integers([3, 2, -4, 5, 0, -1, 2**31 - 1], Scalar.I32)
    found = power(base, kind, exponents, Scalar.I32).astype(float)
    assert found.tolist() == [3.375, 2.25, 16, -32, 1, math.inf, -1]
    # i1 is signed: its one is -1.
    found = power(base[2:4], kind, np.array([True] * 2), Scalar.I1).astype(float)
    assert found.tolist() == [2, -0.5]


@pytest.mark.parametrize("kind", [Scalar.F32, Scalar.F64], ids=str)
def test_powers_multiply_as_a_gpu_does(kind: Scalar) -> None:
    rng, number = np.random.default_rng(9), storage(kind).type
    base = rng.standard_normal(200).astype(number)
    exponents = rng.integers(-12, 13, 200).astype(np.int32)
    found = power(base, kind, exponents, Scalar.I32)
    for got, x, n in zip(found, base, exponents.tolist(), strict=True):
        want, left = number(1), abs(n)
        while left:
            want = want * x if left % 2 else want
            x, left = x * x, left // 2
        assert got == (1 / want if n < 0 else want)


def test_flushing_functions() -> None:
    tiny = np.float32(2.0**-127)
    found = run(
        "exp2",
        Scalar.F32,
        np.array([-126, -126.5, -149, 1, tiny, math.nan], np.float32),
        flush_to_zero=True,
    )
    np.testing.assert_array_equal(found, np.array([2.0**-126, 0, 0, 2, 1, math.nan], np.float32))
    found = run("rsqrt", Scalar.F32, np.array([tiny, -tiny, 4], np.float32), flush_to_zero=True)
    assert found.tolist() == [math.inf, -math.inf, 0.5]


PAGE = Path(__file__).parents[5] / "docs" / "background" / "cpu-device.md"


CALLED = {"pow": ("fpowf",)}


def test_the_page_says_what_the_table_says() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Functions")[1].split("## ")[0]
    told = {}
    for names, single, double in re.findall(
        r"^\| ((?:`\w+` ?)+) \| ([\d.]+) \| ([\d.]+) \|$", section, re.MULTILINE
    ):
        for name in re.findall(r"\w+", names):
            told.update(dict.fromkeys(CALLED.get(name, (name,)), (float(single), float(double))))
    assert told == tolerance.FUNCTIONS
