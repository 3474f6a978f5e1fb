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


@pytest.mark.parametrize("target", [Scalar.F8E4M3FN, Scalar.F8E5M2, Scalar.F4E2M1FN], ids=str)
def test_every_half_precision_number_becomes_the_nearest_small_one(target: Scalar) -> None:
    check_floats(Scalar.F16, target, tuple(range(0, 1 << 16, 5)), Rounding.NEAREST_EVEN)


@pytest.mark.parametrize("target", [Scalar.F16, Scalar.BF16], ids=str)
def test_any_float32_becomes_the_half_that_other_libraries_give(target: Scalar) -> None:
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = np.ldexp(rng.standard_normal(100_000), rng.integers(-30, 18, 100_000)).astype(np.float32)
    for numbers in (anything, near):
        found = convert("ftof", Scalar.F32, target, numbers, rounding=Rounding.NEAREST_EVEN)
        with np.errstate(all="ignore"):
            want = numbers.astype(storage(target))
        np.testing.assert_array_equal(found.astype(np.float32), want.astype(np.float32))
        assert (np.signbit(found) == np.signbit(numbers))[~np.isnan(numbers)].all()


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


def test_extension_and_truncation() -> None:
    for source in INTEGERS:
        some = list(integers(source))
        for target in INTEGERS:
            if target.bits > source.bits:
                for sign in Signedness:
                    found = signed(
                        convert(
                            "exti", source, target, held_integers(some, source), signedness=sign
                        ),
                        target,
                    )
                    want = (
                        some
                        if sign is Signedness.SIGNED
                        else [number % (1 << source.bits) for number in some]
                    )
                    assert found == want
            elif target.bits < source.bits:
                found = signed(
                    convert(
                        "trunci",
                        source,
                        target,
                        held_integers(some, source),
                        overflow=Overflow.NONE,
                    ),
                    target,
                )
                half = 1 << (target.bits - 1)
                assert found == [(number + half) % (2 * half) - half for number in some]


def test_bits_are_read_as_another_type() -> None:
    numbers = np.array([1.0, -2.0, np.inf], np.float32)
    assert convert("bitcast", Scalar.F32, Scalar.I32, numbers).tolist() == [
        0x3F800000,
        -0x40000000,
        0x7F800000,
    ]
    assert convert("bitcast", Scalar.I16, Scalar.BF16, np.array([0x3F80, 0x4000], np.int16)).astype(
        float
    ).tolist() == [1, 2]
    assert convert(
        "bitcast", Scalar.I8, Scalar.F8E8M0FNU, np.array([127, 128 - 256], np.int8)
    ).astype(float).tolist() == [1, 2]
    assert convert(
        "bitcast", Scalar.F32, Scalar.TF32, np.array([0x3F801FFF], np.int32).view(np.float32)
    ).tolist() == [1]
    assert convert("bitcast", Scalar.I4, Scalar.F4E2M1FN, np.array([2, -6], np.int8)).astype(
        float
    ).tolist() == [1, -1]
    assert convert(
        "bitcast", Scalar.F4E2M1FN, Scalar.I4, floats((2, 10), Scalar.F4E2M1FN)
    ).tolist() == [2, -6]
    pointers = tile(Pointer(Scalar.F32), 2)
    (found,) = run_op("bitcast", {"source": (tile(Scalar.I64, 2), np.array([[8, 16]]))}, pointers)
    assert found.tolist() == [[8, 16]]


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
