"""Functions against decimal arithmetic with fifty digits."""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir import tolerance
from tests.unit.runtime.cpu.tileir.build import run_op, tile
from tests.unit.runtime.cpu.tileir.samples import held_integers
from tilec_runtime.cpu.tileir.ir import Scalar
from tilec_runtime.cpu.tileir.values import Array, storage

DIGITS = 60


PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
)


TWO = Decimal(2)


KINDS = [Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64]


def _series(x: Decimal, first: int) -> Decimal:
    """Sine (`first` 1) or cosine (0)."""
    x = x.remainder_near(2 * PI)
    term = x if first else Decimal(1)
    total, n = Decimal(0), first
    while abs(term) > Decimal(10) ** -DIGITS:
        total += term
        term *= -x * x / ((n + 1) * (n + 2))
        n += 2
    return total


def _arc(x: Decimal) -> Decimal:
    """The angle whose tangent is x, by halving it until the series is short."""
    halvings = 0
    while abs(x) > Decimal("0.05"):
        x = x / (1 + (1 + x * x).sqrt())
        halvings += 1
    term, total, n = x, Decimal(0), 1
    while abs(term) > Decimal(10) ** -DIGITS:
        total += term / n
        term *= -x * x
        n += 2
    return total * 2**halvings


def _angle(y: Decimal, x: Decimal) -> Decimal:
    if x > 0:
        return _arc(y / x)
    return _arc(y / x) + (PI if y >= 0 else -PI)


def _tanh(x: Decimal) -> Decimal:
    return 1 - 2 / ((2 * x).exp() + 1)


EXACT: dict[str, Callable[..., Decimal]] = {
    "exp": Decimal.exp,
    "exp2": lambda x: TWO**x,
    "log": Decimal.ln,
    "log2": lambda x: x.ln() / TWO.ln(),
    "sin": lambda x: _series(x, 1),
    "cos": lambda x: _series(x, 0),
    "tan": lambda x: _series(x, 1) / _series(x, 0),
    "sinh": lambda x: (x.exp() - (-x).exp()) / 2,
    "cosh": lambda x: (x.exp() + (-x).exp()) / 2,
    "tanh": _tanh,
    "rsqrt": lambda x: 1 / x.sqrt(),
    "fpowf": lambda x, y: x**y,
    "atan2": _angle,
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


def units(got: float, exact: Decimal, kind: Scalar) -> float:
    """Distance in units of the last place of the exact result."""
    info = ml_dtypes.finfo(storage(kind))  # type: ignore[no-untyped-call]
    if abs(exact) >= Decimal(float(info.max)):
        return 0.0 if abs(got) >= float(info.max) else math.inf
    exponent = max(math.frexp(float(exact))[1], info.minexp + 1)
    return float(abs(Decimal(got) - exact) / TWO ** (exponent - info.nmant - 1))


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
    found = run(name, kind, *tiles)
    with decimal.localcontext() as context:
        context.prec = DIGITS
        for got, *given in zip(
            found.astype(float).tolist(),
            *[held.astype(float).tolist() for held in tiles],
            strict=True,
        ):
            exact = EXACT[name](*map(Decimal, given))
            assert units(got, exact, kind) <= tolerance.of(name, kind), (given, got, exact)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_powers_with_whole_exponents(kind: Scalar) -> None:
    base = np.array([1.5, -1.5, 0.5, -2.0, 3.0, 0.0, -1.0], np.float64).astype(storage(kind))
    for exponents, number in (
        (held_integers([3, 2, -4, 5, 0, -1, 2**31 - 1], Scalar.I32), Scalar.I32),
        (np.array([True] * 7), Scalar.I1),
    ):
        (found,) = run_op(
            "fpowi",
            {"source": (tile(kind, 7), base[None]), "exponent": (tile(number, 7), exponents[None])},
            tile(kind, 7),
        )
        if number is Scalar.I32:
            assert found.astype(float)[0].tolist() == [3.375, 2.25, 16, -32, 1, math.inf, -1]
        else:
            # i1 is signed: its one is -1.
            assert found.astype(float)[0, 2:4].tolist() == [2, -0.5]


@pytest.mark.parametrize("kind", [Scalar.F32, Scalar.F64], ids=str)
def test_powers_multiply_as_a_gpu_does(kind: Scalar) -> None:
    number = storage(kind).type
    rng = np.random.default_rng(9)
    base, exponents = (
        rng.standard_normal(200).astype(number),
        rng.integers(-12, 13, 200).astype(np.int32),
    )
    (found,) = run_op(
        "fpowi",
        {
            "source": (tile(kind, 200), base[None]),
            "exponent": (tile(Scalar.I32, 200), exponents[None]),
        },
        tile(kind, 200),
    )
    for got, x, n in zip(found[0], base, exponents.tolist(), strict=True):
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
