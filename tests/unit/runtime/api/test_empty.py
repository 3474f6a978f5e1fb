"""Tensors whose contents are whatever was there, and tensors like others."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, Tensor, api, use_device
from tilec_runtime.model.dtype import DTYPES


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_but_memory_is_made(dtype: str) -> None:
    driver = FakeDriver()
    with use_device(Device(0, driver=driver)):
        made = api.empty((3, 4), dtype).sync()
    assert (type(made), made.shape, made.dtype, made.is_contiguous) == (Tensor, (3, 4), dtype, True)
    calls = [step.call for step in driver.steps]
    assert calls.count("allocate") == 1
    assert not {"launch", "fill"} & set(calls)


@pytest.mark.parametrize(
    ("source", "shape", "dtype"),
    [
        (np.zeros((2, 3), np.int16), (2, 3), "i16"),
        (np.zeros((2, 3)).T, (3, 2), "f64"),
        (np.zeros(2, ml_dtypes.bfloat16), (2,), "bf16"),
    ],
    ids=["array", "transposed", "ml_dtypes"],
)
def test_tensors_like_others(source: Any, shape: tuple[int, ...], dtype: str) -> None:
    with use_device("cpu"):
        for make, number in (
            (api.zeros_like, 0),
            (api.ones_like, 1),
            (lambda t: api.full_like(t, 2), 2),
        ):
            made = make(source).sync()
            assert (made.shape, made.dtype, made.is_contiguous) == (shape, dtype, True)
            assert (made.to_host().astype(np.float32) == number).all()
        made = api.empty_like(source).sync()
        assert (made.shape, made.dtype) == (shape, dtype)


def test_like_tensors_of_tilec() -> None:
    with use_device("cpu"):
        t = api.ones((4, 6), "f16").sync()
        with t[:, ::2] as view:
            assert api.zeros_like(view).sync().to_host().tolist() == [[0] * 3] * 4
        assert api.full_like(t, 3, dtype=np.int8).sync().dtype == "i8"
        assert api.ones_like(api.zeros((2,), "bool")).sync().to_host().tolist() == [True, True]
        t.share()
        assert api.empty_like(t).sync().shape == (4, 6)  # what has moved has a shape
