"""The generator on the cpu device: known answers, what numbers are made of, and statistics; a GPU
test holds CUDA against the same bits.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import random_quality as quality
from benchmarks.random_quality import failures, normal_quality, uniform_quality
from tests.unit.runtime.api.creation_samples import RANDOM, contents
from tilec_runtime import Stream, api, kernels
from tilec_runtime.kernels.philox import CHUNK, philox, write_normal, write_uniform

pytestmark = pytest.mark.usefixtures("default_cpu")
HOME = Path(kernels.__file__).parent
# Known answers of Random123 for philox4x32 with 10 rounds: counter, key, result.
KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


@pytest.mark.parametrize(("counter", "key", "wanted"), KNOWN)
def test_known_answers(counter, key, wanted):
    words = philox(tuple(np.array([word], np.uint64) for word in counter), key)
    assert tuple(int(word[0]) for word in words) == wanted


def by_hand(counter: int, seed: int) -> list[int]:
    """The four words of a counter with Python's numbers, as docs/reference/random.md describes them."""
    c, k = [counter & 0xFFFFFFFF, counter >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**64 - 1])
def test_uniform_numbers_are_the_upper_bits_of_words(seed):
    words = [word for counter in range(5) for word in by_hand(counter, seed)]
    assert contents(api.rand(19, seed=seed)).tolist() == [
        (word >> 8) / 2**24 for word in words[:19]
    ]
    assert contents(api.rand(19, seed=seed, dtype="f16")).tolist() == [
        (word >> 21) / 2**11 for word in words[:19]
    ]
    assert contents(api.rand(19, seed=seed, dtype="bf16")).astype(float).tolist() == [
        (word >> 24) / 2**8 for word in words[:19]
    ]
    pairs = [low | high << 32 for low, high in zip(words[::2], words[1::2], strict=True)]
    assert contents(api.rand(9, seed=seed, dtype="f64")).tolist() == [
        (pair >> 11) / 2**53 for pair in pairs[:9]
    ]


def exact(seed: int, count: int) -> list[float]:
    """Normal numbers by Box and Muller, with Python's own functions."""
    found = []
    for counter in range(count // 4):
        words = by_hand(counter, seed)
        for first, second in ((words[0], words[1]), (words[2], words[3])):
            short = max(first.bit_length() - 24, 0)  # f32 has 24 digits
            u = float(np.float32(((first >> short << short) + 0.5) / 2**32))
            radius = math.sqrt(-2 * math.log(u)) * (-1 if second >> 31 else 1)
            part = second << 2 & 0xFFFFFFFF
            angle = math.pi / 4 * (part - 2**32 if part >> 31 else part) / 2**31
            pair = (math.cos(angle), math.sin(angle))
            found += [radius * number for number in (pair[::-1] if second >> 30 & 1 else pair)]
    return found


def test_normal_numbers_are_those_of_box_and_muller():
    wanted = np.array(exact(7, 20000))
    found = contents(api.randn(20000, seed=7))
    assert np.abs(found - wanted).max() < 1e-6
    moved = contents(api.randn(20000, seed=7, mean=3, std=0.5))
    assert np.abs(moved - (wanted * 0.5 + 3)).max() < 2e-6
    assert np.array_equal(contents(api.randn(20000, seed=7, dtype="f16")), found.astype(np.float16))
    assert np.array_equal(
        contents(api.randn(20000, seed=7, dtype="bf16")).view(np.uint16) >> 15,
        found.view(np.uint32) >> 31,
    )


def test_normal_numbers_of_f64_are_accurate():
    found = contents(api.randn(2000, seed=3, dtype="f64"))
    for counter in range(1000):
        words = by_hand(counter, 3)
        first, second = words[0] | words[1] << 32, words[2] | words[3] << 32
        radius = math.sqrt(-2 * math.log(((first >> 12) * 2 + 1) / 2**53)) * (
            -1 if second >> 63 else 1
        )
        part = second << 2 & (2**64 - 1)
        angle = math.pi / 4 * (part - 2**64 if part >> 63 else part) / 2**63
        pair = [radius * math.cos(angle), radius * math.sin(angle)]
        assert found[2 * counter : 2 * counter + 2].tolist() == pytest.approx(
            pair[::-1] if second >> 62 & 1 else pair, rel=1e-13, abs=1e-14
        )


def test_the_range_of_normal_numbers_is_that_of_their_words():
    """The least and the greatest word, which no short run draws."""
    from tilec_runtime.kernels.philox import _pair32

    first = np.array([0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0x80000000], np.uint64)
    second = np.array([0, 0xFFFFFFFF, 0, 0x80000000, 0x20000000], np.uint64)
    one, two = _pair32(first, second)
    assert np.isfinite(one).all()
    assert np.isfinite(two).all()
    assert one[0] == pytest.approx(math.sqrt(2 * 33 * math.log(2)), rel=1e-6)
    assert one[2] == pytest.approx(math.sqrt(2 * 2.0**-24), rel=1e-6)


def test_an_element_does_not_depend_on_what_else_is_made():
    whole = contents(api.randn(5 * CHUNK + 7, seed=9))
    for size in (1, 5, CHUNK, 4 * CHUNK + 1):
        assert np.array_equal(contents(api.randn(size, seed=9)), whole[:size])
    part = np.empty(1000, np.uint32)
    write_normal(part, "f32", 9, 0.0, 1.0, first=4 * CHUNK)
    assert np.array_equal(part.view(np.float32), whole[4 * CHUNK : 4 * CHUNK + 1000])
    far = np.empty(8, np.uint64)
    write_uniform(far, "f64", 1, first=2**34)
    words = by_hand(2**33, 1)
    assert far.view(np.float64)[0] == ((words[0] | words[1] << 32) >> 11) / 2**53


def test_a_seed_gives_the_same_numbers_again_and_none_gives_others():
    assert np.array_equal(
        contents(api.rand((4, 4), seed=5)), contents(api.rand(16, seed=5)).reshape(4, 4)
    )
    assert not np.array_equal(contents(api.rand(16, seed=5)), contents(api.rand(16, seed=6)))
    assert not np.array_equal(contents(api.rand(16)), contents(api.rand(16)))
    assert np.array_equal(
        contents(api.rand(4, seed=np.uint64(2**64 - 1))), contents(api.rand(4, seed=2**64 - 1))
    )
    with Stream("cpu") as one, Stream("cpu") as two:
        found = [api.randn(1000, seed=1).then(api.to_host).sync_on(stream) for stream in (one, two)]
    assert np.array_equal(*found)


@pytest.mark.parametrize("name", RANDOM)
def test_every_dtype_and_size(name):
    made = RANDOM[name]().sync()
    assert made.dtype == name.split("-")[1]
    found = contents(api.convert(made, "f64"))
    assert np.isfinite(found).all()
    if name.startswith("rand-"):
        assert found.min() >= 0
        assert found.max() < 1


def test_numbers_are_random():
    count = 1 << 20
    found = {**uniform_quality(count, 1), **normal_quality(count, 1)}
    assert len(found) == 38
    assert failures(found) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("test", "change"),
    [
        ("rand: Kolmogorov-Smirnov", lambda v: np.where(v < 0.5, v, v * v)),
        ("rand: serial correlation, 64 lags", lambda v: (v + np.roll(v, 7) * 0.02) / 1.02),
        ("rand: birthday spacings", lambda v: np.floor(v * 2**22) / 2**22),
        ("randn: moment 2", lambda v: v * 0.99),
        ("randn: couples", lambda v: np.repeat(v[::2], 2)),
    ],
)
def test_the_tests_find_what_is_not_random(test, change, monkeypatch):
    drawn = quality.drawn
    monkeypatch.setattr(
        quality, "drawn", lambda *place, normal: change(drawn(*place, normal=normal))
    )
    assert test in failures(
        (quality.normal_quality if test.startswith("randn") else quality.uniform_quality)(
            1 << 20, 1
        )
    )


# The two halves agree


def test_constants_and_codes_are_those_of_the_kernels():
    """What the GPU test shows for good, on a machine that has none."""
    header, elements = (HOME / "philox.cuh").read_text(), (HOME / "elements.cuh").read_text()
    twin = (HOME / "philox.py").read_text()
    found = {
        float.fromhex(text.rstrip("f")) for text in re.findall(r"-?0x1\.[0-9a-f]+p[-+]\d+f", header)
    }
    written = {float.fromhex(text) for text in re.findall(r'"(-?0x1\.[0-9a-f]+p[-+]\d+)"', twin)}
    assert {
        abs(number) for number in written if abs(number) in {abs(other) for other in found}
    } == {abs(n) for n in found}
    for word in ("D2511F53", "CD9E8D57", "9E3779B9", "BB67AE85", "3F3504F3", "3FE6A09E667F3BCD"):
        assert word in header
        assert word in twin
    names = [name.strip() for name in re.search(r"enum Code \{ (.*?) \}", elements)[1].split(",")]
    assert names == [f"k{'Bool' if name == 'bool' else name.upper()}" for name in kernels.CODES]
    widths = int(re.search(r"return (0x[0-9A-F]+)u >> 2 \* code", elements)[1], 16)
    assert [widths >> 2 * code & 3 for code in kernels.CODES.values()] == [
        kernels.width_of(name) for name in kernels.CODES
    ]
