"""Conversions against fractions, all patterns of small types included."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import run_op, tile
from tests.unit.runtime.cpu.tileir.reference import Number, decode, encode
from tests.unit.runtime.cpu.tileir.samples import (
    bits_of,
    floats,
    held_integers,
    integers,
    patterns,
    signed,
)
from tilec_runtime.cpu.tileir.ir import Overflow, Pointer, Rounding, Scalar, Signedness
from tilec_runtime.cpu.tileir.values import Array, storage

FLOATS = [Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.TF32, Scalar.F64]
SMALL = [Scalar.F8E4M3FN, Scalar.F8E5M2, Scalar.F8E8M0FNU, Scalar.F8E5M3FNU, Scalar.F4E2M1FN]
INTEGERS = [Scalar.I1, Scalar.I4, Scalar.I8, Scalar.I16, Scalar.I32, Scalar.I64]
MODES = [
    Rounding.NEAREST_EVEN,
    Rounding.ZERO,
    Rounding.NEGATIVE_INF,
    Rounding.POSITIVE_INF,
    Rounding.NEAREST_AWAY,
]


def convert(name: str, source: Scalar, target: Scalar, held: Array, **attributes: object) -> Array:
    (found,) = run_op(
        name, {"source": (tile(source, len(held)), held[None])}, tile(target, len(held)), attributes
    )
    assert found.dtype == storage(target)
    return found[0]


def every(kind: Scalar) -> tuple[int, ...]:
    """All patterns of types with 8 bits or less, a sample of others."""
    return tuple(range(1 << kind.bits)) if kind.bits <= 8 else patterns(kind, 40)


def check_floats(source: Scalar, target: Scalar, some: tuple[int, ...], rounding: Rounding) -> None:
    found = bits_of(
        convert("ftof", source, target, floats(some, source), rounding=rounding), target
    )
    for bits, got in zip(some, found, strict=True):
        want = encode(decode(bits, source), target, rounding)
        right = decode(got, target).nan if want is None else got == want
        assert right, (
            f"{source} {bits:#x} to {target}: {got:#x}, not {want if want is None else hex(want)}"
        )


@pytest.mark.parametrize("target", [*FLOATS, *SMALL], ids=str)
@pytest.mark.parametrize("source", [*FLOATS, *SMALL], ids=str)
def test_floats_round_once_to_any_other_type(source: Scalar, target: Scalar) -> None:
    if source is target:
        return
    modes = [Rounding.ZERO, Rounding.POSITIVE_INF] if target is Scalar.F8E8M0FNU else MODES
    for rounding in modes:
        check_floats(source, target, every(source), rounding)


@pytest.mark.parametrize(
    "target", [Scalar.BF16, Scalar.F16, Scalar.TF32, Scalar.F8E4M3FN, Scalar.F32], ids=str
)
def test_a_number_just_beside_a_tie_is_not_rounded_twice(target: Scalar) -> None:
    # 1 and half of the last place of the target, and the least bit of a float64 more or less.
    digits = {Scalar.BF16: 7, Scalar.F16: 10, Scalar.TF32: 10, Scalar.F8E4M3FN: 3, Scalar.F32: 23}[
        target
    ]
    tie = 1.0 + 2.0 ** (-digits - 1)
    exact = np.array([tie, np.nextafter(tie, 2), np.nextafter(tie, 0), -np.nextafter(tie, 2)])
    found = convert("ftof", Scalar.F64, target, exact, rounding=Rounding.NEAREST_EVEN).astype(
        np.float64
    )
    step = 2.0**-digits
    assert found.tolist() == [1, 1 + step, 1, -1 - step]


@pytest.mark.parametrize("source", [*FLOATS, Scalar.F8E4M3FN, Scalar.F8E5M2], ids=str)
def test_a_float_as_i1_says_whether_it_is_not_zero(source: Scalar) -> None:
    some = every(source)
    found = convert("ftoi", source, Scalar.I1, floats(some, source), signedness=Signedness.UNSIGNED)
    numbers = [decode(bits, source) for bits in some]
    assert found.tolist() == [
        number.nan or number.infinite or number.value != 0 for number in numbers
    ]


@pytest.mark.parametrize("target", INTEGERS[1:], ids=str)
@pytest.mark.parametrize("sign", list(Signedness), ids=lambda item: item.name.lower())
@pytest.mark.parametrize("source", [*FLOATS, Scalar.F8E4M3FN, Scalar.F8E5M2], ids=str)
def test_floats_become_the_nearest_integer_that_there_is(
    source: Scalar, sign: Signedness, target: Scalar
) -> None:
    low = -(1 << (target.bits - 1)) if sign is Signedness.SIGNED else 0
    high = low + (1 << target.bits) - 1
    edges = {
        0.0,
        -0.0,
        0.5,
        -0.5,
        0.99,
        1.5,
        2.5,
        -1.5,
        100.7,
        float(low),
        float(high),
        low - 1.0,
        high + 1.0,
        high / 2,
    }
    with np.errstate(over="ignore"):
        numbers = (
            np.array(sorted(edges))
            .astype(np.float16 if source is Scalar.TF32 else storage(source))
            .astype(storage(source))
        )
    some = tuple(sorted({*bits_of(numbers, source), *every(source)}))
    held = floats(some, source)
    for rounding in (
        Rounding.NEAREST_INT_TO_ZERO,
        Rounding.NEAREST_EVEN,
        Rounding.NEGATIVE_INF,
        Rounding.POSITIVE_INF,
    ):
        found = signed(
            convert("ftoi", source, target, held, signedness=sign, rounding=rounding), target
        )
        for bits, got in zip(some, found, strict=True):
            number = decode(bits, source)
            if number.nan:
                assert got == 0
                continue
            exact = (
                (high + 1 if not number.negative else low - 1)
                if number.infinite
                else _whole(number.value, rounding)
            )
            want = min(max(exact, low), high)
            assert got % (1 << target.bits) == want % (1 << target.bits), (number, rounding)


def _whole(value: Fraction, rounding: Rounding) -> int:
    if rounding is Rounding.NEAREST_EVEN:
        return round(value)
    if rounding is Rounding.NEAREST_INT_TO_ZERO:
        return int(value)
    return value.__floor__() if rounding is Rounding.NEGATIVE_INF else value.__ceil__()


@pytest.mark.parametrize("target", [*FLOATS, Scalar.F8E4M3FN, Scalar.F8E5M2], ids=str)
@pytest.mark.parametrize("sign", list(Signedness), ids=lambda item: item.name.lower())
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integers_round_once(source: Scalar, sign: Signedness, target: Scalar) -> None:
    some = list(integers(source))
    if source is Scalar.I64:
        # Just beside what lies halfway between two numbers of the target.
        for digits in (8, 11, 24, 53):
            tie = (1 << 62) + (1 << (62 - digits))
            some += [tie - 1, tie, tie + 1, -tie - 1, -tie, 1 - tie]
    for rounding in MODES[:4]:
        found = bits_of(
            convert(
                "itof",
                source,
                target,
                held_integers(some, source),
                signedness=sign,
                rounding=rounding,
            ),
            target,
        )
        for number, got in zip(some, found, strict=True):
            value = number if sign is Signedness.SIGNED else number % (1 << source.bits)
            want = encode(Number(value < 0, Fraction(abs(value))), target, rounding)
            assert got == want, (number, rounding, hex(got))


@pytest.mark.parametrize("source", INTEGERS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("sign", list(Signedness), ids=lambda item: item.name.lower())
def test_extension_and_truncation(source: Scalar, target: Scalar, sign: Signedness) -> None:
    some, half = list(integers(source)), 1 << (target.bits - 1)
    held = held_integers(some, source)
    if target.bits > source.bits:
        found = convert("exti", source, target, held, signedness=sign)
        of = 0 if sign is Signedness.SIGNED else 1 << source.bits
        assert signed(found, target) == [number % of if of else number for number in some]
    elif target.bits < source.bits:
        found = convert("trunci", source, target, held, overflow=Overflow.NONE)
        assert signed(found, target) == [(number + half) % (2 * half) - half for number in some]


@pytest.mark.parametrize(
    ("source", "target", "held", "wanted"),
    [
        (
            Scalar.F32,
            Scalar.I32,
            np.array([1, -2, np.inf], "f4"),
            [0x3F800000, -0x40000000, 0x7F800000],
        ),
        (Scalar.I16, Scalar.BF16, np.array([0x3F80, 0x4000], np.int16), [1, 2]),
        (Scalar.I8, Scalar.F8E8M0FNU, np.array([127, -128], np.int8), [1, 2]),
        (Scalar.F32, Scalar.TF32, np.array([0x3F801FFF], np.int32).view(np.float32), [1]),
        (Scalar.I4, Scalar.F4E2M1FN, np.array([2, -6], np.int8), [1, -1]),
        (Scalar.F4E2M1FN, Scalar.I4, floats((2, 10), Scalar.F4E2M1FN), [2, -6]),
        (Scalar.I64, Pointer(Scalar.F32), np.array([8, 16]), [8, 16]),
    ],
)
def test_bits_are_read_as_another_type(
    source: Scalar, target: Scalar | Pointer, held: Array, wanted: list[int]
) -> None:
    kinds = tile(source, len(held)), tile(target, len(held))
    (found,) = run_op("bitcast", {"source": (kinds[0], held[None])}, kinds[1])
    assert found[0].astype(float).tolist() == wanted


@pytest.mark.parametrize(
    "kind",
    [Scalar.I1, Scalar.I4, Scalar.I16, Scalar.I32, Scalar.F4E2M1FN, Scalar.F16, Scalar.F32],
    ids=str,
)
def test_unpack_inverts_pack(kind: Scalar) -> None:
    rng = np.random.default_rng(1)
    data = rng.integers(-128, 128, (2, 32)).astype(np.int8)
    number = 32 * 8 // kind.bits
    (found,) = run_op("unpack", {"source": (tile(Scalar.I8, 32), data)}, tile(kind, number))
    assert found.shape == (2, number)
    assert found.dtype == storage(kind)
    (back,) = run_op("pack", {"source": (tile(kind, number), found)}, tile(Scalar.I8, 32))
    assert back.tolist() == data.tolist()
