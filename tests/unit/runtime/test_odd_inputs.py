"""What libraries and users hand over that is off: each is refused in words, and nothing is lost by
it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import DeviceBuffer, Tensor
from tilec_runtime.errors import ArgumentError, TensorError


class Foreign:
    """A tensor that says of itself whatever it is told to."""

    def __init__(self, **said: Any) -> None:
        self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "version": 3, **said}


def test_numpy_reads_buffers_of_dtypes_that_it_has_not() -> None:
    buffer = DeviceBuffer.from_host(np.array([0x3F80, 0xC000], "u2"), "cpu", dtype="bf16")
    array = np.asarray(buffer)
    assert array.dtype == ml_dtypes.bfloat16
    array[0] = 3.0
    assert buffer.to_host().tolist() == [3.0, -2.0], "it shares the buffer's memory"
    with pytest.raises(
        AttributeError, match=r"no word for bf16: np.asarray gives an array of ml_dtypes"
    ):
        buffer.__array_interface__  # noqa: B018


def test_numpy_is_told_why_it_gets_nothing() -> None:
    with pytest.raises(TensorError, match=r"(?s)cannot read the memory of a GPU.*to_host\(\)"):
        np.asarray(DeviceBuffer((4,), "f32", 0, driver=FakeDriver()))
    with pytest.raises(TensorError, match=r"(?s)elements of f4e2m1 share a byte.*to_host\(\)"):
        np.asarray(DeviceBuffer((4,), "f4e2m1", "cpu"))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"shape": (-4,)}, r"shape \(-4,\) has a negative extent"),
        ({"shape": (4, -1)}, r"shape \(4, -1\) has a negative extent"),
        ({"data": (0x10001, False)}, "address 0x10001 is not aligned to elements of 4 bytes"),
        ({"data": (-4, False)}, "address -0x4 is not aligned"),
        ({"stream": "x"}, "names the stream 'x', which is none"),
        ({"stream": -1}, "names the stream -1, which is none"),
    ],
)
def test_tensors_that_describe_themselves_wrongly(said: dict[str, Any], words: str) -> None:
    driver = FakeDriver()
    buffer = DeviceBuffer((64,), "f32", 0, driver=driver)
    with pytest.raises(TensorError, match=words) as caught:
        Tensor.from_foreign(Foreign(**{"data": (buffer.ptr, False), **said}), driver=driver)
    assert caught.value.fix


def test_a_stream_that_is_none_is_refused_by_dlpack_too() -> None:
    driver = FakeDriver()
    buffer = DeviceBuffer((4,), "f32", 0, driver=driver)
    tensor = Tensor.from_foreign(Foreign(data=(buffer.ptr, False)), driver=driver)
    for stream, words in (("x", "a builtins.str is no stream"), (-5, "the stream's handle is -5")):
        with pytest.raises(ArgumentError, match=f"__dlpack__: {words}"):
            tensor.__dlpack__(stream=stream)
