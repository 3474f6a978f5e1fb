"""Buffers that lie far from each other, on a driver that puts one right behind the other."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.watched_project import ABI, scale, write_project
from tilec.runner.device import APART, BLOCK, ApartDevice, ModuleDevice
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.load import load


class Packed(FakeDriver):
    """Takes memory from one piece of the host's, in a row; nothing of it is used twice."""

    def __init__(self) -> None:
        super().__init__(kernels={"scale": FakeKernel(abi=ABI, run=scale)})
        self._piece = ctypes.create_string_buffer(16 * BLOCK)
        self._next = -(-ctypes.addressof(self._piece) // 512) * 512
        self.live: set[int] = set()

    def allocate(self, ordinal: int, size: int, stream: int | None, pool: int | None = None) -> int:
        """The next bytes, from a multiple of 512."""
        place, self._next = self._next, self._next + -(-size // 512) * 512
        assert self._next <= ctypes.addressof(self._piece) + len(self._piece)
        self.live.add(place)
        return place

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Forget it."""
        self.live.remove(address)


class Crowded(Packed):
    """Gives two places in turn, next to each other, and never another."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0

    def allocate(self, ordinal: int, size: int, stream: int | None, pool: int | None = None) -> int:
        """The other place."""
        self._turn += 1
        return self._next + 512 * (self._turn % 2)

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Nothing: there is nothing else to give."""


def device(tmp_path: Path, driver: FakeDriver, kind: type[ModuleDevice] = ApartDevice) -> ModuleDevice:
    write_project(tmp_path)
    return kind(load(Bundle.open(tmp_path / "acme.tilec"), driver=driver), driver)


@pytest.mark.parametrize("count", [128, 512 // 4, 300, APART // 4, BLOCK // 4, BLOCK // 4 + 1])
def test_buffers_are_apart_and_keep_what_they_hold(tmp_path: Path, count: int) -> None:
    driver = Packed()
    place = device(tmp_path, driver)
    arrays = [np.arange(count, dtype=np.float32) + 1000 * i for i in range(3)]
    buffers = [place.to_device(array, "f32") for array in arrays]
    assert isinstance(place, ApartDevice)
    assert place.settle() >= APART
    ends = sorted((buffer.ptr, buffer.ptr + buffer.nbytes) for buffer in buffers)
    assert all(later - end >= APART for (_, end), (later, _) in itertools.pairwise(ends))
    assert driver.live == {buffer.ptr for buffer in buffers}  # what lay between is the driver's again
    for buffer, array in zip(buffers, arrays, strict=True):
        assert place.from_device(buffer).tobytes() == array.tobytes()


def test_any_other_device_takes_what_the_driver_gives(tmp_path: Path) -> None:
    place = device(tmp_path, Packed(), ModuleDevice)
    one, two = (place.to_device(np.ones(128, np.float32), "f32") for _ in range(2))
    assert two.ptr - one.ptr == one.nbytes


def test_nothing_is_written_to_what_stays_unset(tmp_path: Path) -> None:
    driver = Packed()
    place = device(tmp_path, driver)
    ctypes.memset(driver._next, 0x5A, 512)
    made = place.unset(np.zeros(128, np.float32), "f32")
    assert ctypes.string_at(made.ptr, 512) == b"\x5a" * 512


def test_empty_arrays_have_no_place(tmp_path: Path) -> None:
    place = device(tmp_path, Packed())
    assert isinstance(place, ApartDevice)
    for _ in range(2):
        assert place.to_device(np.empty(0, np.float32), "f32").nbytes == 0
    assert place.settle() == APART


def test_where_there_is_no_room_the_gap_is_told(tmp_path: Path) -> None:
    place = device(tmp_path, Crowded())
    assert isinstance(place, ApartDevice)
    for _ in range(2):
        place.unset(np.zeros(64, np.float32), "f32")
    assert place.settle() < APART
