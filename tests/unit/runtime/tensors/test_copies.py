"""Copies between tensors of any strides as boxes of bytes, held against NumPy, through the drivers
that copy them.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.runtime.driver_api import Api
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime.device.driver import Driver
from tilec_runtime.device.seam import CopyBox, CopyKind
from tilec_runtime.errors import TensorError
from tilec_runtime.tensors.copies import MOST_CALLS, ByteLayout, boxes

Array = np.ndarray[Any, Any]


def layout(array: Array) -> ByteLayout:
    return ByteLayout(array.shape, array.strides, array.itemsize)


def part_of(seed: int, rank: int, itemsize: int) -> Array:
    """A view of random bytes: permuted, sliced with steps, some of its dimensions repeated."""
    rng = random.Random(seed)
    whole = np.random.default_rng(seed).integers(
        0, 255, (*(rng.randint(0 if seed % 11 == 0 else 1, 5) for _ in range(rank)),), np.uint8
    )
    whole = np.repeat(whole[..., None], itemsize, -1).copy().view(f"V{itemsize}")[..., 0]
    index = tuple(slice(rng.randint(0, 1), None, rng.randint(1, 3)) for _ in range(rank))
    found = np.asarray(whole[index]).transpose(rng.sample(range(rank), rank))
    return np.broadcast_to(found[None], (3, *found.shape)) if seed % 7 == 0 else found


@given(st.integers(0, 10**6), st.integers(0, 4), st.sampled_from([1, 2, 4, 8]))
def test_boxes_copy_what_numpy_copies(seed: int, rank: int, itemsize: int) -> None:
    source = part_of(seed, rank, itemsize)
    room = np.zeros((*source.shape, 2), source.dtype)
    target = room[..., 0] if seed % 2 else np.zeros(source.shape, source.dtype)
    driver = FakeDriver()
    for to, of, box in boxes(layout(target), layout(source)):
        assert box.target_pitch >= box.width
        assert box.source_pitch >= box.width
        assert box.slices == 1 or (
            box.source_slice % box.source_pitch,
            box.target_slice % box.target_pitch,
        ) == (0, 0)
        driver.copy_box(
            0, target.ctypes.data + to, source.ctypes.data + of, box, 0, CopyKind.ON_DEVICE
        )
    assert target.tobytes() == source.tobytes()


@pytest.mark.parametrize(
    ("view", "calls", "shape"),
    [
        (np.s_[:], 1, (1920 * 4, 1, 1)),  # all in one row
        (np.s_[1:3], 1, (2 * 480 * 4, 1, 1)),
        (np.s_[:, 1:5], 1, (4 * 80 * 4, 4, 1)),
        (np.s_[:, 1:5, 2:6], 1, (4 * 10 * 4, 4, 4)),
        (np.s_[:, :, :, 3], 1, (4, 192, 1)),
        (np.s_[1:3, ::2, 2:6, ::3], 4, (4, 4, 6)),  # what a call cannot take, several do
    ],
)
def test_how_many_calls_a_view_takes(view: Any, calls: int, shape: tuple[int, ...]) -> None:
    array = np.zeros((4, 6, 8, 10), np.float32)[view]
    found = boxes(layout(np.zeros(array.shape, np.float32)), layout(array))
    assert (len(found), (found[0].box.width, found[0].box.rows, found[0].box.slices)) == (
        calls,
        shape,
    )


def test_what_takes_too_many_calls_is_refused() -> None:
    side = MOST_CALLS + 1
    layouts = ByteLayout((side, side), (4 * side, 4), 4), ByteLayout((side, side), (4, 4 * side), 4)
    with pytest.raises(
        TensorError, match=rf"^a copy from strides .* of shape .* takes {side} calls of the driver"
    ) as caught:
        boxes(*layouts)
    assert f"({MOST_CALLS} calls at most)" in caught.value.fix


def test_rows_that_are_too_far_apart_are_calls_of_their_own() -> None:
    source, target = ByteLayout((3, 8), (2**33, 1), 1), ByteLayout((3, 8), (8, 1), 1)
    assert [(call.target, call.source) for call in boxes(target, source)] == [
        (0, 0),
        (8, 2**33),
        (16, 2**34),
    ]


BOX = CopyBox(
    width=12, rows=3, slices=2, target_pitch=12, source_pitch=40, target_slice=36, source_slice=160
)


def test_cuda_copies_a_box_in_one_call() -> None:
    api = Api()
    Driver(api).copy_box(0, 0x10, 0x20, BOX, 0x77, CopyKind.ON_DEVICE)
    made: Any = api.made("cuMemcpy3DAsync")
    ((reference, stream),) = made
    wanted = reference._obj
    assert (wanted.target.device, wanted.target.pitch, wanted.target.height) == (0x10, 12, 3)
    assert (wanted.source.device, wanted.source.pitch, wanted.source.height) == (0x20, 40, 4)
    assert (wanted.width, wanted.height, wanted.depth, stream) == (12, 3, 2, 0x77)
    assert api.made("cuStreamSynchronize") == []
