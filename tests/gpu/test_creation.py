"""What `tilec_runtime.api` makes on a GPU has the bits that the cpu device makes, for every
function and dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.api.creation_samples import CONVERTED, FILLED, RANDOM, every_bits
from tilec_runtime import Tensor, api, use_device
from tilec_runtime.ops.op import DeviceOp

pytestmark = pytest.mark.gpu


def bits_on(device: str, make: Callable[[], DeviceOp[Tensor]]) -> np.ndarray[Any, Any]:
    with use_device(device):
        found = make().then(api.to_host).sync()
    return found.view(f"u{found.dtype.itemsize}")


def equal(make: Callable[[], DeviceOp[Tensor]]) -> None:
    here, there = bits_on("cpu", make), bits_on("cuda", make)
    assert here.shape == there.shape
    assert here.dtype == there.dtype
    differ = np.flatnonzero(here != there)
    assert differ.size == 0, (
        f"{differ.size} of {here.size}, first {differ[0]}: {here.flat[differ[0]]:#x} and {there.flat[differ[0]]:#x}"
    )


@pytest.mark.parametrize("name", FILLED)
def test_values_counts_and_matrices(name):
    equal(FILLED[name])


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name):
    equal(RANDOM[name])


@pytest.mark.parametrize("source", CONVERTED)
def test_conversions_to_every_dtype(source):
    array = every_bits(source)
    for target in CONVERTED:
        if source != target:
            equal(lambda target=target: api.from_host(array).then(lambda t: api.convert(t, target)))


@pytest.mark.parametrize("name", CONVERTED)
def test_conversions_of_packed_elements(name):
    array = every_bits(name)
    for size in (array.size // 2 * 2, 2, 6):
        if size <= array.size:
            part = array[:size]
            equal(
                lambda part=part: (
                    api.from_host(part).then(lambda t: api.convert(t, "f4e2m1")).reinterpret("u8")
                )
            )
    pairs = np.arange(256 * 9, dtype=np.uint32).astype(np.uint8)
    for start in (0, 1, 3):  # bytes that are not aligned to what a thread takes
        part = pairs[start:]
        equal(
            lambda part=part: api.from_host(part).then(
                lambda t: api.convert(t.reinterpret("f4e2m1"), name)
            )
        )
    with use_device("cuda"):
        odd = api.convert(api.ones(8, name), "f4e2m1").sync().to_host()
    assert odd.astype(np.float32).tolist() == [1.0] * 8


def test_parts_of_tensors_that_are_not_aligned_are_converted():
    array = np.arange(4099, dtype=np.float32)
    for start in (0, 1, 2):
        equal(
            lambda start=start: api.from_host(array).then(
                lambda t: api.convert(t[start : start + 4097], "f16")
            )
        )


def test_square_roots_and_logarithms_are_rounded_as_the_twin_rounds_them():
    equal(lambda: api.randn(1 << 24, seed=12))


def test_tensors_that_are_there_are_filled():
    equal(lambda: api.fill(api.zeros((3, 5)), 2.5).then(lambda t: api.fill(t, -1)))


def test_a_gigabyte_of_random_numbers_ends_as_the_twin_does():
    from tilec_runtime.kernels.philox import write_normal

    count, tail = (1 << 28) + 3, 1024 + 3
    with use_device("cuda"):
        made = api.randn(count, seed=11).sync()
        found = made[count - tail :].to_host()
    wanted = np.empty(tail, np.uint32)
    write_normal(wanted, "f32", 11, 0.0, 1.0, first=count - tail)
    assert np.array_equal(found.view(np.uint32), wanted)
