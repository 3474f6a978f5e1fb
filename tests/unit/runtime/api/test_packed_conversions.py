"""Conversions from and to elements of four bits, two in a byte: every pattern against ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.runtime.api.creation_samples import CONVERTED, every_bits
from tests.unit.runtime.api.test_creation import expected, once
from tilec_runtime import api, use_device
from tilec_runtime.errors import GraphCaptureError

FOURS = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn)


def even(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array[: array.size // 2 * 2]


@pytest.mark.parametrize("source", CONVERTED)
def test_every_number_becomes_the_nearest_of_fifteen(source: str) -> None:
    array = even(every_bits(source))
    with use_device("cpu"):
        found = api.convert(array, "f4e2m1").sync().to_host()
    with np.errstate(all="ignore"):
        wanted = (
            once(array.astype(np.float32) if array.dtype == bool else array, "f4e2m1")
            .view(np.uint8)
            .copy()
        )
        wanted[np.isnan(array.astype(np.float64))] = (
            7  # what is no number, as the instruction of sm_100 has it
        )
    assert np.array_equal(found.view(np.uint8), wanted)


@pytest.mark.parametrize("target", CONVERTED)
def test_all_sixteen_become_what_they_are(target: str) -> None:
    with use_device("cpu"):
        found = api.convert(api.from_host(FOURS), target).to_host().sync()
    with np.errstate(all="ignore"):
        wanted = (
            expected(FOURS.astype(np.float32), "f32", target)
            if target != "f32"
            else FOURS.astype(np.float32).view(np.uint32)
        )
    assert np.array_equal(found.view(wanted.dtype), wanted)


def test_parts_chunks_and_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilec_runtime.kernels.recipes._CHUNK", 8)
    with use_device("cpu"):
        t = api.arange(44).reshape(2, 22).sync()
        with t[:, 2:8] as part:
            four = api.convert(part, "f4e2m1").sync()
        assert four.to_host().astype(np.float32).tolist() == [[2, 3, 4, 4, 6, 6], [6] * 6]
        with four[:, 2:] as part:
            assert api.convert(part, "i8").sync().to_host().tolist() == [[4, 4, 6, 6], [6] * 4]
        assert (
            api.convert(t, "f4e2m1")
            .then(lambda f: api.convert(f, "f32"))
            .sync()
            .to_host()[0]
            .tolist()
            == [0, 1, 2, 3, 4, 4] + [6] * 16
        )
        copy = api.convert(four, "f4e2m1").sync()
        assert copy.ptr != four.ptr
        assert (
            copy.reinterpret("u8").to_host().tolist() == four.reinterpret("u8").to_host().tolist()
        )


def test_the_op_of_to_host_gives_one_element_in_a_byte() -> None:
    source = np.tile(FOURS, (3, 2))
    with use_device("cpu"):
        t = api.from_host(source).sync()
        found = api.to_host(t).sync()
        assert found.dtype == FOURS.dtype
        assert np.array_equal(found.view(np.uint8), source.view(np.uint8))
        with t[1:, 4:10] as part:
            found = api.to_host(part).sync()
        assert np.array_equal(found.view(np.uint8), source.view(np.uint8)[1:, 4:10])
        with pytest.raises(GraphCaptureError):
            api.to_host(t).graph()
        t.borrow_mut().release()
