"""Pinned memory of the host: arrays in it, and when it is used again or given back."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tests.unit.runtime.api.transfer_samples import counting
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, api
from tilec_runtime.device.completion import COMPLETIONS

LARGE = 1 << 20


def test_pinned_memory_is_used_again(gpu: Device) -> None:
    driver: FakeDriver = gpu.driver  # type: ignore[assignment]
    t = api.from_host(counting(1000)).sync()
    first = api.to_host(t).sync()
    where = first.ctypes.data
    before = driver.calls.count("allocate")
    second = api.to_host(t).sync()
    assert second.ctypes.data != where
    view = first[3:5]
    del first, second
    gc.collect()
    COMPLETIONS.drain(10)
    third = [api.to_host(t).sync() for _ in range(20)]
    assert where not in [found.ctypes.data for found in third], "a part of it is alive"
    assert view.tolist() == [3, 4]
    del view, third
    gc.collect()
    COMPLETIONS.drain(10)
    again = [api.to_host(t).sync() for _ in range(22)]
    assert len({found.ctypes.data for found in again}) == 22
    assert driver.calls.count("allocate") == before, (
        "blocks are cut out of larger ones, and come back"
    )


def test_blocks_beyond_the_bound_are_as_large_as_they_must_be_and_go_at_the_next_call(
    gpu: Device,
) -> None:
    driver: FakeDriver = gpu.driver  # type: ignore[assignment]
    array = api.pinned((64 << 20) + 5, "u8")
    place = array.ctypes.data
    assert driver.allocation(place) == (place, 65 << 20)
    del array
    assert driver.allocation(place) is not None, "the collector calls no driver"
    api.pinned(10, "u8")
    assert driver.allocation(place) is None


def test_without_pinned_memory_any_other_will_do(gpu: Device) -> None:
    driver: FakeDriver = gpu.driver  # type: ignore[assignment]
    t = api.from_host(counting(LARGE)).sync()
    driver.fail = {"allocate": "CUDA_ERROR_OUT_OF_MEMORY"}
    assert np.array_equal(api.to_host(t).sync(), counting(LARGE))
    with pytest.raises(Exception, match="CUDA_ERROR_OUT_OF_MEMORY"):
        api.pinned(LARGE, "f32")
